"""The tables of docs/packing.md: what became of all instances, beside what was published."""

import statistics
from collections.abc import Callable, Iterable, Sequence

import attrs

from kubedsm_lab.replay.packing.attempts import Attempt, Call, Category, category
from kubedsm_lab.replay.packing.instances import NODES, PODS_PER_NODE, PRIORITIES, USAGES
from kubedsm_lab.replay.packing.published import (
    BY_NODES,
    CATEGORIES,
    COLUMNS,
    FIGURE_4,
    FOUR_BY_FOUR,
    OF_CALLS,
    TABLE_1,
)
from kubedsm_lab.replay.packing.published import PRIORITIES as THEIR_PRIORITIES
from kubedsm_lab.replay.report import number
from kubedsm_lab.replay.sections import Section, Table

COMPUTED = "Computed on snapshots: nothing is emulated, or measured on a cluster"
#: better than kube-scheduler, or proven equal to it
_GOAL, _GOAL_AT = 95.0, 1
_WELL = (Category.KWOK_OPTIMAL, Category.BETTER, Category.BETTER_AND_OPTIMAL)
_FIGURE_4_PODS, _AT = 4, 10

Pair = tuple[Attempt, Call]


@attrs.frozen
class Outcomes:
    """What became of instances within some seconds."""

    attempts: Sequence[Attempt]
    seconds: float
    gaps: bool = True

    @property
    def calls(self) -> list[Pair]:
        return [(a, c) for a in self.attempts for c in a.calls if self._meant(c)]

    def of(self, **shape: int) -> "Outcomes":
        """Those of the shapes that have these."""
        kept = [
            each
            for each in self.attempts
            if all(getattr(each.shape, name) == value for name, value in shape.items())
        ]
        return attrs.evolve(self, attempts=kept)

    def percent(self, *categories: Category) -> float | None:
        """Of the instances."""
        if not self.attempts:
            return None
        number_of = sum(call.category in categories for _, call in self.calls)
        if Category.NO_CALL in categories:
            number_of += sum(not each.calls for each in self.attempts)
        return 100 * number_of / len(self.attempts)

    def percent_of_calls(self, *categories: Category) -> float | None:
        calls = self.calls
        return 100 * sum(c.category in categories for _, c in calls) / len(calls) if calls else None

    def mean(self, value: Callable[[Call], float]) -> float | None:
        """Of the calls."""
        calls = self.calls
        return statistics.fmean(value(call) for _, call in calls) if calls else None

    def _meant(self, call: Call) -> bool:
        return call.seconds == self.seconds and call.gaps == self.gaps


def _limits(attempts: Iterable[Attempt]) -> list[float]:
    return sorted({call.seconds for each in attempts for call in each.calls if call.gaps})


def _theirs(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Those with as many priorities as the published figures are of."""
    return [each for each in attempts if each.shape.priorities == THEIR_PRIORITIES]


def _beside(ours: float | None, theirs: float | None, digits: int = 0) -> str:
    published = "" if theirs is None else f" ({theirs:.{digits}f})"
    return number(ours, digits) + published


def _at_a_glance(attempts: Sequence[Attempt]) -> Table:
    lines = []
    for seconds in _limits(attempts):
        outcomes = Outcomes(_theirs(attempts), seconds)
        better, optimal = OF_CALLS.get(int(seconds), (None, None))
        well = outcomes.percent_of_calls(*_WELL)
        expected = f" (goal: {_GOAL:.0f})" if seconds == _GOAL_AT else ""
        published = None if better is None or optimal is None else better + optimal
        lines.append(
            [
                f"{seconds:g} s",
                str(len(outcomes.calls)),
                _beside(well, published, 1) + expected,
                _beside(
                    outcomes.percent_of_calls(Category.BETTER, Category.BETTER_AND_OPTIMAL),
                    better,
                    1,
                ),
                _beside(outcomes.percent_of_calls(Category.KWOK_OPTIMAL), optimal, 1),
                number(outcomes.percent_of_calls(Category.FAILURE), 1),
            ]
        )
    headings = ["within", "calls", "better or proven equal", "better", "proven equal", "failures"]
    return headings, lines


def _by_nodes(attempts: Sequence[Attempt]) -> Table:
    lines = []
    for seconds in _limits(attempts):
        for nodes in NODES:
            outcomes = Outcomes(_theirs(attempts), seconds).of(nodes=nodes)
            published = BY_NODES.get((int(seconds), nodes), (None,) * len(CATEGORIES))
            if outcomes.attempts:
                cells = (
                    _beside(outcomes.percent(each), theirs)
                    for each, theirs in zip(CATEGORIES, published, strict=True)
                )
                lines.append([f"{seconds:g} s, {nodes} nodes", *cells])
    return ["within", *(each.value for each in CATEGORIES)], lines


def _figure_4(attempts: Sequence[Attempt]) -> Table:
    outcomes = Outcomes(_theirs(attempts), _AT).of(pods_per_node=_FIGURE_4_PODS)
    lines = [
        [
            _usage(usage),
            *(
                _beside(
                    outcomes.of(nodes=nodes, usage=usage).percent(Category.BETTER_AND_OPTIMAL),
                    FIGURE_4[nodes][at],
                )
                for nodes in NODES
            ),
        ]
        for at, usage in enumerate(USAGES)
        if outcomes.of(usage=usage).calls
    ]
    return ["usage", *(f"{nodes} nodes" for nodes in NODES)], lines


#: what it is called, and what it is of a call, as in TABLE_1
_MEASURES: Sequence[tuple[str, Callable[[Call], float]]] = (
    ("seconds", lambda call: call.took),
    ("cpu, %", lambda call: call.cpu),
    ("memory, %", lambda call: call.memory),
)


def _table_1(attempts: Sequence[Attempt]) -> Table:
    lines = []
    for usage in USAGES:
        outcomes = Outcomes(_theirs(attempts), _AT).of(usage=usage)
        for (name, value), published in zip(_MEASURES, TABLE_1[usage], strict=True):
            cells = (
                _beside(outcomes.of(nodes=n, pods_per_node=p).mean(value), theirs, 1)
                for (n, p), theirs in zip(COLUMNS, published, strict=True)
            )
            if outcomes.calls:
                lines.append([f"{_usage(usage)}: {name}", *cells])
    return ["usage", *(_size(n, p) for n, p in COLUMNS)], lines


def _costs(attempts: Sequence[Attempt]) -> Table:
    lines = []
    for seconds in _limits(attempts):
        for nodes, pods in ((n, p) for n in NODES for p in PODS_PER_NODE):
            outcomes = Outcomes(attempts, seconds).of(nodes=nodes, pods_per_node=pods)
            if outcomes.calls:
                proven = outcomes.mean(lambda call: 100 * call.proven)
                theirs = statistics.fmean(each.evictions for each, _ in outcomes.calls)
                lines.append(
                    [
                        f"{seconds:g} s, {_size(nodes, pods)}",
                        number(outcomes.mean(lambda call: call.took), 2),
                        number(max(call.took for _, call in outcomes.calls), 2),
                        number(outcomes.mean(lambda call: call.moves), 1),
                        number(outcomes.mean(lambda call: call.evictions), 2),
                        number(theirs, 2),
                        number(proven, 0),
                    ]
                )
    headings = ["within, nodes x pods a node", "seconds", "most", "moves", "evictions"]
    return [*headings, "kube-scheduler's evictions", "all proven, %"], lines


def _priorities(attempts: Sequence[Attempt]) -> Table:
    """Nothing unless there is something to compare."""
    lines = []
    if len({each.shape.priorities for each in attempts}) > 1:
        for seconds in _limits(attempts):
            for priorities in PRIORITIES:
                outcomes = Outcomes(attempts, seconds).of(priorities=priorities)
                if outcomes.attempts:
                    cells = (number(outcomes.percent(each), 0) for each in CATEGORIES)
                    lines.append([f"{seconds:g} s, {priorities}", *cells])
    return ["within, priorities", *(each.value for each in CATEGORIES)], lines


def _without_gaps(attempts: Sequence[Attempt]) -> Table:
    lines = []
    seconds = min(_limits(attempts), default=0.0)
    for nodes in NODES:
        outcomes = Outcomes(_theirs(attempts), seconds, gaps=False).of(nodes=nodes)
        if outcomes.calls:
            cells = (number(outcomes.percent(each), 0) for each in CATEGORIES)
            well = number(outcomes.percent_of_calls(*_WELL), 1)
            lines.append([f"{seconds:g} s, {nodes} nodes", *cells, well])
    return [
        "within", *(each.value for each in CATEGORIES), "better or proven equal, of calls"
    ], lines  # fmt: skip


def _papers(attempts: Sequence[Attempt]) -> Table:
    lines = []
    nodes, pods = COLUMNS[0]
    for usage, (equal, better) in FOUR_BY_FOUR.items():
        tried = Outcomes(_theirs(attempts), 0).of(nodes=nodes, pods_per_node=pods, usage=usage)
        found = [
            category(each.placed, each.paper, proven=True)
            for each in tried.attempts
            if each.paper is not None
        ]
        if found:
            percent = 100 / len(tried.attempts)
            lines.append(
                [
                    _usage(usage),
                    str(len(tried.attempts)),
                    _beside(percent * found.count(Category.KWOK_OPTIMAL), equal),
                    _beside(percent * found.count(Category.BETTER_AND_OPTIMAL), better),
                ]
            )
    return ["usage", "instances", "KWOK Optimal", "Better&Optimal"], lines


def _usage(percent: int) -> str:
    return f"{percent / 100:.2f}"


def _size(nodes: int, pods: int) -> str:
    return f"{nodes} x {pods}"


SECTIONS: Sequence[Section[Attempt]] = (
    Section(
        "At a glance",
        "Four priorities, percent of the calls. In brackets: as published.",
        _at_a_glance,
    ),
    Section(
        "By nodes",
        "Four priorities, percent of the instances. In brackets: as published.",
        _by_nodes,
    ),
    Section(
        "Figure 4: better, and proven the best",
        "Four priorities, 4 pods a node, within 10 s, by usage; percent of the instances.",
        _figure_4,
    ),
    Section(
        "Table 1: seconds, and what is requested by pods placed",
        "Four priorities, within 10 s; of cpu and memory the difference to kube-scheduler, in"
        " percent of all nodes.",
        _table_1,
    ),
    Section(
        "Without a gap",
        "As `kubedsm pack` does it: each pod that moves runs on its new node before it leaves the"
        " old one. Four priorities, percent of the instances.",
        _without_gaps,
    ),
    Section("By priorities", "Percent of the instances.", _priorities),
    Section(
        "What it cost",
        "Means over the calls. All proven: that no fewer moves and evictions do as well, too.",
        _costs,
    ),
    Section(
        "The paper's order, solved to the end",
        "What comes of the paper's goals in its own order, whatever time that takes: 4 x 4, four"
        " priorities, percent of the instances. In brackets: as published within 10 s.",
        _papers,
    ),
)


def answer(attempts: Sequence[Attempt]) -> str:
    """Of the longest calls."""
    limits = _limits(attempts)
    if not limits:
        return "No cluster was packed: kube-scheduler placed every pod."
    outcomes = Outcomes(attempts, limits[-1])
    ours = outcomes.mean(lambda call: call.evictions) or 0.0
    theirs = statistics.fmean(each.evictions for each, _ in outcomes.calls)
    return (
        f"Packing anew placed more than kube-scheduler within {limits[-1]:g} s, or proved that"
        f" nobody can, in {number(outcomes.percent_of_calls(*_WELL), 0)} % of"
        f" {len(outcomes.calls)} full clusters, with {ours:.1f} evictions each where"
        f" kube-scheduler's preemption took {theirs:.1f}."
    )
