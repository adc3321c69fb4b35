"""The command `kubedsm run`, which runs the scheduler."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from kubedsm.cli.options import (
    DIAGNOSTICS_PORT,
    GRACE,
    DurationType,
    Election,
    Kubeconfig,
    OneOf,
    PageOptions,
    address,
    check_namespace,
    collect,
    config_file,
    config_map_name,
    kubeconfig,
    leader_election,
    output,
    page,
)

if TYPE_CHECKING:
    from kubedsm.kube.client.port import ObjectName


@attrs.frozen
class RunOptions:
    """Command-line options of `kubedsm run`."""

    config_path: str | None
    config_map: "ObjectName | None"
    kubeconfig: Kubeconfig
    namespace: str
    diagnostics_port: int
    #: seconds
    grace_period: float
    dry_run: bool
    election: Election
    metrics_address: tuple[str, int] | None
    prometheus_credentials: Path
    #: None for no page
    page: PageOptions | None
    log_format: str | None
    log_level: str
    output: str


@click.command()
@collect(
    "options",
    RunOptions,
    config_file,
    config_map_name,
    kubeconfig,
    click.option(
        "--namespace",
        default="kubedsm",
        callback=check_namespace,
        help="Namespace of the ConfigMap `kubedsm` with the pause switch, without --configmap.",
    ),
    click.option(
        "--diagnostics-port",
        type=click.IntRange(0, 65535),
        default=DIAGNOSTICS_PORT,
        help="Port for `kubedsm explain`, on loopback only; 0 takes any.",
    ),
    click.option(
        "--grace-period",
        type=DurationType(),
        default=f"{GRACE:g}s",
        help="On SIGTERM or SIGINT, time for migrations in progress to end or to be rolled back;"
        " less than the pod's terminationGracePeriodSeconds. A second signal ends at once.",
    ),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Decide and log, but write nothing: no bind, no migration, no Lease.",
    ),
    leader_election,
    click.option(
        "--metrics-address",
        metavar="HOST:PORT",
        callback=address,
        show_default="127.0.0.1:10271",
        help="Address of /metrics, /healthz, /livez and /readyz; :10271 is on all addresses.",
    ),
    click.option(
        "--prometheus-credentials",
        type=click.Path(path_type=Path, file_okay=False),
        default="/var/run/secrets/kubedsm.io/prometheus",
        help="Directory of a mounted Secret with the token for Prometheus, its server (the address"
        " that may see it) and ca.crt; each may be missing (docs/how-to/use-measured-load.md).",
    ),
    page("the diagnostics port"),
    click.option(
        "--log-format",
        type=OneOf(["json", "console"]),
        show_default="console on a terminal, else json",
        help="Format of the log.",
    ),
    click.option(
        "--log-level",
        type=OneOf(["debug", "info", "warning", "error"]),
        default="info",
        help="Lowest level that is logged.",
    ),
    output,
)
def run(options: RunOptions) -> None:
    """Run the scheduler until interrupted.

    Inside a cluster it uses its service account; elsewhere a kubeconfig. Changes of its
    configuration apply at once. The log goes to stderr; with -o json it goes to stdout, one object
    per line.
    """
    from kubedsm.cli.console import Stop, log_to, until_interrupted
    from kubedsm.cli.scheduler_process import serve
    from kubedsm.terminal.running import raise_file_limit

    log_format = options.log_format or ("console" if sys.stderr.isatty() else "json")
    printed = options.output == "json"
    log_to(json=printed or log_format == "json", level=options.log_level.upper(), stdout=printed)
    if options.config_path is not None and options.config_map is not None:
        raise click.UsageError("--config and --configmap: only one of them")
    if options.dry_run:  # no Lease is held, and no migration has to end
        election = attrs.evolve(options.election, leader_elect=False)
        options = attrs.evolve(options, election=election, grace_period=0.0)
    raise_file_limit()
    stop = Stop()
    until_interrupted(serve(options, stop), stop)
