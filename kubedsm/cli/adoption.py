"""The commands `opt-in`, `opt-out` and `uninstall`.

A command imports its implementation when it runs: `--help` and completion import this module.
"""

import sys

import click

from kubedsm.cli.options import (
    AdoptionOptions,
    Decorator,
    RemovalOptions,
    check_namespace,
    collect,
    kubeconfig,
    output,
    scheduler_config_map,
)

EXIT_CODES = "Exit codes: 0, done; 3, partly; 1 and 2, as always, an error and wrong usage."


def _adoption_options(*more: Decorator) -> Decorator:
    return collect(
        "options",
        AdoptionOptions,
        click.argument("targets", metavar="NAMESPACE | KIND/NAME...", nargs=-1, required=True),
        click.option(
            "-n",
            "--namespace",
            metavar="NAMESPACE",
            callback=check_namespace,
            show_default="none",
            help="Namespace of workloads given as KIND/NAME.",
        ),
        kubeconfig,
        scheduler_config_map,
        click.option(
            "--restart",
            is_flag=True,
            help="Replace the running pods of namespaces now: a rollout of each workload.",
        ),
        click.option("--dry-run", is_flag=True, help="Print the changes only."),
        *more,
    )


@click.command("opt-in", epilog=EXIT_CODES)
@_adoption_options(
    click.option("--force", is_flag=True, help="Opt in although no scheduler leads."),
)
def opt_in(options: AdoptionOptions) -> None:
    """Have KubeDSM schedule the pods of namespaces or workloads.

    A NAMESPACE gets a label: the admission policy of manifests/overlays/opt-in then sets the
    schedulerName of its new pods, and no workload is edited. KIND/NAME, KIND/NAMESPACE/NAME: a
    Deployment or StatefulSet gets the schedulerName in its pod template, and rolls out.
    """
    from kubedsm.cli.adopting import run_adoption
    from kubedsm.cli.console import log_to

    log_to(level="ERROR")
    sys.exit(run_adoption(options, leave=False))


@click.command("opt-out", epilog=EXIT_CODES)
@_adoption_options()
def opt_out(options: AdoptionOptions) -> None:
    """Return namespaces or workloads to the default scheduler.

    Running pods of a NAMESPACE continue. A workload, KIND/NAME or KIND/NAMESPACE/NAME, rolls out;
    in a namespace that has opted in, a label of its pod template exempts it.
    """
    from kubedsm.cli.adopting import run_adoption
    from kubedsm.cli.console import log_to

    log_to(level="ERROR")
    sys.exit(run_adoption(options, leave=True))


@click.command(epilog=EXIT_CODES)
@collect(
    "options",
    RemovalOptions,
    kubeconfig,
    scheduler_config_map,
    click.option("--apply", "carry_out", is_flag=True, help="Stop the scheduler, and remove."),
    click.option(
        "--opt-out", is_flag=True, help="Opt out namespaces and workloads: a rollout each."
    ),
    output,
)
def uninstall(options: RemovalOptions) -> None:
    """List traces of KubeDSM on cluster objects; --apply removes them.

    The scheduler is scaled to zero: migrations finish or are rolled back. This process then takes
    the Lease, restores detached pods, and removes labels, annotations and pod-deletion-cost values
    of KubeDSM. Running pods continue to run. `kubectl delete -k` of your overlay comes last.
    """
    from kubedsm.cli.console import log_to
    from kubedsm.cli.removal import uninstall as remove

    log_to(level="ERROR")
    sys.exit(remove(options))
