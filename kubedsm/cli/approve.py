"""The command `kubedsm approve`."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubedsm.cli.options import EXIT_CODES, kubeconfig_context, kubeconfig_file, migration_requests

if TYPE_CHECKING:
    from kubedsm.kube.client.port import ObjectName


def _check_id(_: click.Context, __: click.Parameter, value: str) -> str:
    from kubedsm.optimizer.moving.suggestion import ID_LENGTH

    if not re.fullmatch(f"[0-9a-f]{{{ID_LENGTH}}}", value):
        raise click.BadParameter(
            f"{value} is no id of a proposal, such as 3f2a91c0: the Events MigrationProposed of"
            " pods have it, and the scheduler's log"
        )
    return value


@click.command(epilog=EXIT_CODES)
@click.argument("proposal", metavar="ID", callback=_check_id)
@kubeconfig_file
@kubeconfig_context
@migration_requests
def approve(
    proposal: str,
    kubeconfig_path: Path | None,
    context: str | None,
    config_map: "ObjectName",
    wait: float,
) -> None:
    """Have the running scheduler execute a proposal of its own.

    In mode suggest, the Events MigrationProposed of the pods and the log contain its ID. The
    scheduler executes it only while it would still propose the same.
    """
    from kubedsm.cli.cluster import connect_cluster
    from kubedsm.cli.console import log_to, remark, until_interrupted
    from kubedsm.cli.migration_requests import PAUSED, Requests
    from kubedsm.process.clock import SystemClock
    from kubedsm.terminal.running import INTERRUPTED

    log_to(level="ERROR")
    code = INTERRUPTED

    async def request() -> None:
        nonlocal code
        async with connect_cluster(kubeconfig_path, context) as cluster:
            requests = Requests(cluster, config_map, SystemClock())
            code = PAUSED if await requests.is_paused(wait) else await requests.send(proposal)
            if not code:
                remark("all migrations are done")

    until_interrupted(request())
    sys.exit(code)
