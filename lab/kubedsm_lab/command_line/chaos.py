"""What `kubedsm chaos` is called with."""

from typing import TYPE_CHECKING, Any

import click

from kubedsm.commands.options import (
    OneOf,
    output,
    paced,
    processes,
)

if TYPE_CHECKING:
    from kubedsm_lab.chaos.faults import Fault

SHORT, LONG = 2_800, 25_000
WORKLOADS = (
    "burst",
    "scaling",
    "cloud-to-edge",
    "asked-to-move",
    "edge-to-cloud",
    "swap",
    "single-replica",
    "stateful-set",
    "rollout",
    "owner-deleted",
    "budgeted",
    "finalizer",
    "slow-termination",
    "namespace-deleted",
    "node-loss",
    "site-loss",
    "configuration",
    "preemption",
    "packing",
    "long-quiet",
    "lying-prometheus",
    "leader-change",
    "slow-leader",
    "fast-leader",
)


class _FaultName(click.ParamType["Fault"]):
    name = "FAULT"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Fault":
        from kubedsm_lab.chaos.faults import Fault, UnknownFaultError

        try:
            return Fault.parse(value)
        except UnknownFaultError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("--short", is_flag=True, help=f"{SHORT} injections instead of {LONG}.")
@click.option("--injections", "number", type=click.IntRange(1), help="How many instead.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Draws them, and what is ready.")
@click.option(
    "--workload",
    "workloads",
    type=OneOf(WORKLOADS),
    multiple=True,
    show_default="all",
    help="Only this one; may be given several times.",
)
@click.option("--fault", type=_FaultName(), help="Replay this one, and tell what happens.")
@paced
@processes
@output
def chaos(*, short: bool, number: int | None, **given: Any) -> None:
    """Let things go wrong, one at a time, emulated.

    Each run is a workload in virtual time with one fault in it: a call that fails, an event that is
    lost, a crash. What must be true is looked at with every change, and at the end.
    """
    from kubedsm_lab.commands import chaos

    chaos.chaos(number=number or (SHORT if short else LONG), **given)
