"""The command `kubedsm watch`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubedsm.cli.options import (
    config_file,
    kubeconfig_context,
    output,
    scheduler_address,
    scheduler_config_map,
)

if TYPE_CHECKING:
    from kubedsm.kube.client.port import ObjectName


@click.command()
@scheduler_address
@click.option(
    "--token-file",
    "token_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the token of the page: `kubedsm run --page-token-file`.",
)
@click.option(
    "--kubeconfig",
    "kubeconfig_path",
    type=click.Path(path_type=Path),
    show_default="none: ask the scheduler",
    help="Follow the cluster of this kubeconfig itself, without a scheduler.",
)
@kubeconfig_context
@config_file
@scheduler_config_map("with --kubeconfig, QoS targets are read from it")
@output
def watch(
    server: str,
    token_path: Path | None,
    kubeconfig_path: Path | None,
    context: str | None,
    config_path: str | None,
    config_map: "ObjectName",
    output: str,
) -> None:
    """Watch a running scheduler's page, or a cluster, in a terminal.

    The scheduler must run with `kubedsm run --page`, or with --page-address, which --server then
    names. Without a terminal, and with -o json, each news is one line. With --kubeconfig or
    --context the command follows the cluster itself, without a scheduler's decisions; QoS targets
    come from --config, else from the ConfigMap. The command changes nothing.
    """
    from kubedsm.cli import live_view
    from kubedsm.cli.console import log_to, until_interrupted
    from kubedsm.cli.inputs import configuration_at, read_token
    from kubedsm.dashboard.terminal.following import follow
    from kubedsm.process.clock import SystemClock

    follows_cluster = kubeconfig_path is not None or context is not None
    if config_path is not None and not follows_cluster:
        raise click.UsageError(
            "--config is about --kubeconfig or --context: a scheduler has its own"
        )
    log_to(level="CRITICAL")

    async def show_cluster() -> None:
        given = None if config_path is None else configuration_at(config_path)
        await live_view.show_cluster(kubeconfig_path, context, given, config_map, output)

    async def show_scheduler() -> None:
        token = None if token_path is None else read_token(token_path)
        await live_view.show_updates(server, follow(server, token, SystemClock()), output)

    until_interrupted(show_cluster() if follows_cluster else show_scheduler())
