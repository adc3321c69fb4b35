"""`kubedsm approve`: what a scheduler in mode suggest has proposed is carried out, by it."""

import re
import sys
from pathlib import Path

import click

from kubedsm.clock import SystemClock
from kubedsm.cluster.calls.explained_cluster import ExplainedCluster
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.commands.console import log_to, remark, until_interrupted
from kubedsm.commands.handing_over import EXIT_CODES, INTERRUPTED, PAUSED, Scheduler, handing_over
from kubedsm.commands.inputs import kubeconfig_context, kubeconfig_file
from kubedsm.core.moving.suggestion import ID_LENGTH
from kubedsm.runtime.config_map import ConfigMapName


def _id(_: click.Context, __: click.Parameter, value: str) -> str:
    if not re.fullmatch(f"[0-9a-f]{{{ID_LENGTH}}}", value):
        raise click.BadParameter(
            f"{value} is no id of a proposal, such as 3f2a91c0: the Events MigrationProposed of"
            " pods have it, and the scheduler's log"
        )
    return value


@click.command(epilog=EXIT_CODES)
@click.argument("proposal", metavar="ID", callback=_id)
@kubeconfig_file
@kubeconfig_context
@handing_over
def approve(
    proposal: str,
    kubeconfig_path: Path | None,
    context: str | None,
    config_map: ConfigMapName,
    wait: float,
) -> None:
    """Have a proposal carried out by the scheduler that made it.

    In mode suggest its id stands in the Events MigrationProposed of the pods, and in the log. It
    is carried out only while the scheduler would still propose the same.
    """
    log_to(level="ERROR")
    codes = [INTERRUPTED]

    async def ask() -> None:
        async with await KubernetesCluster.connect(kubeconfig_path, context) as cluster:
            asked_once = ExplainedCluster(cluster, cluster.server)
            scheduler = Scheduler(asked_once, config_map, SystemClock())
            codes[0] = PAUSED if await scheduler.paused(wait) else await scheduler.asked(proposal)
            if not codes[0]:
                remark("all of it is done")

    until_interrupted(ask())
    sys.exit(codes[0])
