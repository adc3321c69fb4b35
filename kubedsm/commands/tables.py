"""Results as tables for people."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.bench.pack import PackResult
from kubedsm.bench.scale.paired import ScaleResult
from kubedsm.bench.soak.verdict import SoakResult
from kubedsm.bench.solve.verdict import SolveResult
from kubedsm.commands.offline import OfflinePlacement
from kubedsm.commands.unplaced import unplaced_lines
from kubedsm.core.goals.objective import NANO
from kubedsm.core.solving.in_order import Certificate
from kubedsm.core.world.model import Share, Workload
from loadgen.fitted_table import FittedTable, table


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


def scale_table(result: ScaleResult) -> RenderableType:
    rows = (
        (pair.what, f"{pair.ours:,.2f}", f"{pair.beside:,.2f}", f"{pair.ratio:.2f}")
        for pair in result.paired
    )
    headings = ("ms of CPU, medians", "KubeDSM", "beside", "ratio")
    pairs = table(headings, rows, title=str(result.size), numbers=headings[1:])
    return Group(pairs, *map(Text, result.sentences))


def pack_table(results: Iterable[PackResult]) -> RenderableType:
    headings = ("nodes x pods", "solver", "placed", "moved", "most proven", "all proven", "s")
    rows = (
        (
            f"{each.nodes} x {each.pods_per_node}",
            each.solver,
            f"{each.placed}/{each.waiting}",
            str(each.moves),
            f"{each.placed_proven}/{each.instances}",
            f"{each.proven}/{each.instances}",
            f"{each.seconds:.2f}",
        )
        for each in results
    )
    return table(headings, rows, numbers=headings[2:])


def sites_table(result: dict[str, Any]) -> RenderableType:
    """A table for each course, with a row for each scheduler."""
    courses: dict[str, dict[str, dict[str, float]]] = result["courses"]
    headings = ("serving", "unheard", "at edge", "created", "evicted", "needless")
    return Group(
        *(
            table(
                ("", *headings),
                [(name, *(f"{value:g}" for value in of.values())) for name, of in beside.items()],
                title=f"{course} of an edge site (emulated)",
                numbers=headings,
            )
            for course, beside in courses.items()
        ),
        Text(
            "serving, at edge: parts of what is wanted; unheard: pod-seconds not known to be Ready"
        ),
    )


#: of the figures of a way to decide
_SOLVE_HEADINGS = {
    "placed": "pods placed",
    "mostPlaced": "the most",
    "notFewer": "not fewer",
    "qos": "QoS",
    "qosLeast": "least",
    "first": "first",
    "firstLeast": "least",
    "reached": "in the end",
    "reachedLeast": "least",
    "rounds": "rounds",
    "proven": "proven",
    "seconds": "s of CPU",
    "secondsMost": "at most",
}


def solve_table(result: SolveResult) -> RenderableType:
    """A row for each way to decide, and one for the best there is."""
    titles = (
        f"{len(result.placed)} batches",
        f"{len(result.ruled)} batches with rules among their pods",
        f"{len(result.moved)} clusters to move pods in",
    )
    parts: list[RenderableType] = []
    for title, rows in zip(titles, result.tables.values(), strict=True):
        names = tuple(dict.fromkeys(name for row in rows.values() for name in row))
        cells = (
            (way, *(f"{row[name]:.4g}" if name in row else "" for name in names))
            for way, row in rows.items()
        )
        headings = tuple(map(_SOLVE_HEADINGS.__getitem__, names))
        parts.append(table(("", *headings), cells, title=title, numbers=headings))
    return Group(*parts, *map(Text, result.sentences))


def soak_table(result: SoakResult) -> RenderableType:
    promises = table(
        ("promise", "measured", "kept"),
        ((p.what, p.measured, "yes" if p.kept else "NO") for p in result.promises),
    )
    moves = ", ".join(f"{times} {outcome}" for outcome, times in result.moves.items())
    warnings = ", ".join(f"{times} x {what}" for what, times in result.log.warnings.most_common(5))
    minutes = (result.ended - result.started) / 60
    facts = (
        f"In {minutes:.1f} minutes on an emulated cluster: {result.workloads} workloads,"
        f" {result.bound} pods bound, {result.namespaces_deleted} namespaces deleted;"
        f" moves: {moves or 'none'}; warnings: {warnings or 'none'}."
    )
    verdict = "Every promise was kept." if result.kept else "A promise was broken."
    return Group(Text(facts), promises, Text(verdict))
