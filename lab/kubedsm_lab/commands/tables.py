"""Results of benchmarks as tables for people."""

from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench.pack import PackResult
from kubedsm_lab.bench.scale.paired import ScaleResult
from kubedsm_lab.bench.soak.verdict import SoakResult
from kubedsm_lab.bench.solve.verdict import SolveResult


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
