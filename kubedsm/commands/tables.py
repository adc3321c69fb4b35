"""Results as tables for people."""

from collections.abc import Iterable, Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.commands.offline import OfflinePlacement
from kubedsm.commands.unplaced import unplaced_lines
from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.terminal.fitted_table import FittedTable, table


def placement_tables(placement: OfflinePlacement, milliseconds: float) -> RenderableType:
    decision = placement.decision
    bindings = [(str(pod), node, tier.value) for pod, node, tier in decision.bindings]
    waiting = list(unplaced_lines(placement))
    shares = shares_table(decision.shares_before, decision.shares_after)
    looked_at = f"{decision.looked_at}, " if decision.looked_at else ""
    parts = [
        table(("pod", "node", "tier"), bindings, title="bindings")
        if bindings
        else Text("Nothing to bind."),
        *([Text("unplaced", style="italic"), *waiting] if waiting else ()),
        *([shares] if shares.rows else ()),
        Text(
            f"QoS {decision.score_before / NANO:.3f} -> {decision.score_after / NANO:.3f}, "
            f"{decision.proof.words}, {looked_at}"
            f"decided in {milliseconds:.1f} ms"
        ),
        *unproven_lines(decision.certificates),
    ]
    return Group(*parts)


def unproven_lines(certificates: Iterable[Certificate]) -> list[Text]:
    """What there might be at most, where that is not proven to be what there is."""
    return [Text(each.words) for each in certificates if not each.proven]


def shares_table(before: Mapping[Workload, Share], after: Mapping[Workload, Share]) -> FittedTable:
    rows = (
        (str(workload), *(f"{share.edge}/{share.total}" for share in (before[workload], later)))
        for workload, later in after.items()
    )
    headings = ("workload", "before", "after")
    return table(headings, rows, title="edge share", numbers=headings[1:])
