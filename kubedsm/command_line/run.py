"""What `kubedsm run` is called with."""

from pathlib import Path
from typing import Any

import click

from kubedsm.commands.options import (
    DIAGNOSTICS_PORT,
    DurationType,
    address,
    config_file,
    config_map_name,
    kubeconfig_context,
    kubeconfig_file,
    leader_election,
    output,
    page,
)


@click.command()
@config_file
@config_map_name
@kubeconfig_file
@kubeconfig_context
@click.option(
    "--namespace",
    default="kubedsm",
    show_default=True,
    help="Where the ConfigMap `kubedsm` with the pause switch is, without --configmap.",
)
@click.option(
    "--diagnostics-port",
    type=click.IntRange(0, 65535),
    default=DIAGNOSTICS_PORT,
    show_default=True,
    help="Where `kubedsm explain` asks, on loopback only; 0 takes any.",
)
@click.option(
    "--grace-period",
    type=DurationType(),
    default="25s",
    show_default=True,
    help="On SIGTERM or SIGINT, how long moves that are under way may take to end, or to be taken"
    " back; less than the pod's terminationGracePeriodSeconds. A second one ends at once.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Decide and log, and write nothing: no pod is bound or moved, no Lease taken.",
)
@leader_election
@click.option(
    "--metrics-address",
    metavar="HOST:PORT",
    callback=address,
    show_default="127.0.0.1:10271",
    help="Where /metrics, /healthz, /livez and /readyz are served; :10271 is on all addresses.",
)
@click.option(
    "--prometheus-credentials",
    type=click.Path(path_type=Path, file_okay=False),
    default="/var/run/secrets/kubedsm.io/prometheus",
    show_default=True,
    help="Directory of a mounted Secret with the token for Prometheus, its server (the address"
    " that may see it) and ca.crt; each may be missing (docs/measured-load.md).",
)
@page("where `kubedsm explain` asks")
@click.option(
    "--log-format",
    type=click.Choice(["json", "console"]),
    show_default="console on a terminal, else json",
    help="How the log is written.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is logged.",
)
@click.option("-v", "--verbose", is_flag=True, help="The same as --log-level debug.")
@output
def run(**given: Any) -> None:
    """Run the scheduler until interrupted.

    Inside a cluster it uses its service account; elsewhere a kubeconfig. What changes in its
    configuration holds at once. Its log goes to stderr; with -o json it goes to stdout, one object
    a line.
    """
    from kubedsm.commands import serving

    serving.run(**given)
