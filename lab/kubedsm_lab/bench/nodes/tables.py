"""The tables of `kubedsm bench nodes`."""

from collections.abc import Callable, Sequence

from kubedsm_lab.bench.nodes import published
from kubedsm_lab.bench.nodes.result import ALL, NodesResult, Side, standings
from kubedsm_lab.replay.standings import ours_and_best
from kubedsm_lab.replay.tables import Section, Table, as_markdown, number


def sections(result: NodesResult) -> Sequence[Section]:
    return (
        Section(
            "Who is ahead",
            f"KubeDSM as it comes (p = {ALL}) and the best of kube-scheduler's; two are level"
            " within 10 % in times, and within .5 % in scores and Jain's index.",
            ours_and_best(standings(result)),
        ),
        Section(
            "Time",
            "Decisions alone. Published is what kube-scheduler's CI lets it not fall below: in Go,"
            " all nodes alike, binds included. That either side here is above or below it says"
            " nothing; how much p changes does.",
            _times(result.sides, result),
        ),
        Section(
            "Quality",
            "Score: what LeastAllocated and BalancedAllocation give the chosen node, together 0 to"
            " 200, as it was when the pod came; lost is what looking at all nodes has more of."
            " KubeDSM's cloud goes by how far apart replicas come, then by LeastAllocated, and not"
            " by balance at all: it is more even, for a lower score."
            " Evenness is of the pods that came; on n nodes, k pods have a Jain's index of k / n at"
            " most.",
            _quality(result.sides, result),
        ),
        Section(
            "Fairness",
            "Nodes that were looked at in one search: of kube-scheduler for one pod, of KubeDSM for"
            " a batch. And how often each node was: least, and most.",
            _fairness(result.sides),
        ),
    )


def _rows(sides: Sequence[Side], cells: Callable[[Side], Sequence[str]]) -> list[list[str]]:
    return [[f"{side.nodes:,}", side.name, *cells(side)] for side in sides]


def _times(sides: Sequence[Side], result: NodesResult) -> Table:
    def cells(side: Side) -> Sequence[str]:
        every = result.side(side.nodes, side.policy, ALL).medians["ms"]
        ms = side.medians["ms"]
        return number(ms, 3), number(side.per_second, 0), number(every / ms, 2)

    rows = _rows(sides, cells)
    floor = " to ".join(map(str, published.CI_FLOOR))
    rows.append([f"{published.CI_NODES:,}", "kube-scheduler's CI floor, published", "", floor, ""])
    return [
        "nodes",
        "",
        "ms of CPU a pod",
        "decisions a second",
        f"times as fast as p = {ALL}",
    ], rows


def _quality(sides: Sequence[Side], result: NodesResult) -> Table:
    figures = {"jain": 4, "cv": 3, "zones_jain": 4, "zones_cv": 3}

    def cells(side: Side) -> Sequence[str]:
        found = side.medians
        evenness = [number(found[name], digits) for name, digits in figures.items()]
        lost = number(result.lost(side), 2)
        return number(found["score"], 2), lost, number(found["pending"], 0), *evenness

    heads = ["score", "lost", "pending", "Jain of nodes", "CV", "Jain of zones", "CV"]
    return ["nodes", "", *heads], _rows(sides, cells)


def _fairness(sides: Sequence[Side]) -> Table:
    def cells(side: Side) -> Sequence[str]:
        often = [number(side.medians[name], 0) for name in ("looked_at", "least", "most")]
        return *often, "yes" if side.fair else "no"

    return ["nodes", "", "looked at", "least", "most", "within one"], _rows(sides, cells)


def tables(result: NodesResult) -> str:
    """All of them, as Markdown."""
    return as_markdown(sections(result), result.about)
