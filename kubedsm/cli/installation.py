"""The commands `check`, `status`, `version`, `logs` and `support-bundle`.

A command imports its implementation when it runs: `--help` and completion import this module.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from kubedsm.cli.options import (
    DurationType,
    Kubeconfig,
    collect,
    kubeconfig,
    output_of_list,
    output_or_yaml,
    pod_selection,
    scheduler_address,
    scheduler_config_map,
)

if TYPE_CHECKING:
    from kubedsm.kube.client.port import ObjectName


@attrs.frozen
class Installation:
    """Options that select a cluster, and the scheduler in it."""

    config_map: "ObjectName"
    kubeconfig: Kubeconfig
    #: address of a possibly running scheduler
    server: str


_installation = collect(
    "installation",
    Installation,
    scheduler_config_map,
    kubeconfig,
    scheduler_address,
)


@click.command(epilog="Exit codes: 0, no check failed (warnings allowed); 1, a check failed.")
@click.option(
    "--pre", "before", is_flag=True, help="Before the installation: cluster, rights and nodes only."
)
@_installation
@output_or_yaml
def check(installation: Installation, before: bool, output: str) -> None:
    """Check an installation, or a cluster before it.

    Each line is ok, warn or fail. A remedy and a page of the documentation follow unless all is
    well. The command is read-only.
    """
    from kubedsm.cli.installation_report import report_checks

    report_checks(installation, output, before=before)


@click.command(epilog="Exit codes: 0, healthy; 1, degraded; 2, down (docs/reference/health.md).")
@pod_selection(
    "List services, migrations and waiting pods of this namespace only.",
    "all",
    "List those with pods of these labels only, such as app=cart,tier!=batch.",
)
@click.option("-w", "--watch", "follow", is_flag=True, help="Repeat until interrupted.")
@click.option(
    "--interval", type=DurationType(), default="5s", help="With --watch, time between two reads."
)
@_installation
@output_of_list
def status(
    installation: Installation,
    namespace: str | None,
    everywhere: bool,
    selector: str | None,
    follow: bool,
    interval: float,
    output: str,
) -> None:
    """Show health, leader, edge capacity, and services below target.

    Migrations in progress and waiting pods follow, by reason. The cluster is read, and the leader's
    metrics if they are reachable. -o wide lists all services below target; -o name prints their
    names. The command is read-only.
    """
    from kubedsm.cli.installation_report import report_status

    if everywhere and namespace is not None:
        raise click.UsageError("-n and -A: only one of them")
    repeat = max(interval, 1.0) if follow else None
    report_status(installation, namespace, selector, output, repeat)


@click.command()
@click.option("--client", "only_client", is_flag=True, help="Only the version of this command.")
@_installation
@output_or_yaml
def version(installation: Installation, only_client: bool, output: str) -> None:
    """Show the versions of command, scheduler and API server."""
    from kubedsm.cli.installation_report import report_versions

    report_versions(installation, output, only_client=only_client)


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Continue with new lines until interrupted.")
@click.option(
    "--tail", type=click.IntRange(0), show_default="all", help="Begin with this many last lines."
)
@_installation
def logs(installation: Installation, follow: bool, tail: int | None) -> None:
    """Print the log of the leading scheduler's pod."""
    from kubedsm.cli.installation_report import print_logs

    print_logs(installation, tail, follow=follow)


@click.command()
@click.option(
    "--out",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    show_default="kubedsm-support-TIME.tar.gz",
    help="File to write.",
)
@_installation
def support_bundle(installation: Installation, path: Path | None) -> None:
    """Write a redacted archive for a bug report.

    It contains checks, status, configuration, metrics, Events, logs, nodes and pods. Environment,
    commands, images and volumes of pods are left out, annotations of others too, and tokens in logs
    are masked. Names of nodes, pods and labels remain: read the archive before you send it.
    """
    from kubedsm.cli.support_archive import write_bundle

    write_bundle(installation, path)
