"""Tables of docs/packing.md: the outcomes of all instances next to the published figures.

Source: "Priority Matters" (arXiv 2511.08373), and the result files of its authors' program.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.packing.attempts import Attempt, Call, Category, category
from kubedsm_lab.replay.packing.instances import NODES, PODS_PER_NODE, PRIORITIES, USAGES
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.standings import Standing
from kubedsm_lab.replay.tables import Section, Table, beside, grid, number

#: priorities of the published figures
_THEIR_PRIORITIES = 4
#: order of the percentages below
_CATEGORIES = tuple(Category)
#: percent of the instances, by seconds and nodes
_BY_NODES: Mapping[tuple[int, int], tuple[int, ...]] = {
    (1, 4): (2, 15, 42, 2, 38),
    (1, 8): (5, 9, 20, 23, 43),
    (1, 16): (36, 7, 6, 31, 20),
    (1, 32): (100, 0, 0, 0, 0),
    (10, 4): (2, 16, 43, 0, 40),
    (10, 8): (3, 8, 20, 11, 58),
    (10, 16): (3, 7, 8, 37, 46),
    (10, 32): (19, 0, 1, 59, 21),
    (20, 4): (2, 16, 42, 0, 41),
    (20, 8): (3, 9, 21, 8, 59),
    (20, 16): (3, 6, 10, 32, 50),
    (20, 32): (20, 0, 1, 52, 27),
}
#: percent of the calls, by seconds: better, and the default proven optimal
_OF_CALLS: Mapping[int, tuple[float, float]] = {1: (44.2, 19.1), 10: (73.6, 19.8), 20: (72.5, 20.5)}
#: Figure 4: percent Better&Optimal, four pods a node, 10 s; by nodes, in the order of the usages
_FIGURE_4: Mapping[int, tuple[int, ...]] = {
    4: (28, 39, 41, 35),
    8: (60, 69, 68, 61),
    16: (78, 60, 61, 52),
    32: (78, 17, 16, 11),
}
#: Table 1, 10 s: nodes and pods a node of its columns
_COLUMNS = ((4, 4), (8, 4), (16, 4), (32, 4), (4, 8), (8, 8))
#: by usage: seconds, and how much more of cpu and of memory is requested by pods placed, percent
_TABLE_1: Mapping[int, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]] = {
    90: ((0.9, 1.2, 2.4, 5.9, 1.0, 1.1), (3.3, 3.5, 3.4, 4.0, 3.9, 2.6),
         (3.1, 3.7, 3.1, 3.9, 3.4, 2.6)),
    95: ((0.9, 1.7, 5.0, 9.8, 1.1, 1.5), (2.4, 3.3, 3.6, 4.3, 2.6, 2.9),
         (2.4, 3.3, 3.7, 4.3, 2.6, 2.9)),
    100: ((0.9, 1.7, 5.2, 10.1, 1.0, 5.0), (2.5, 2.8, 3.2, 3.2, 1.8, 3.3),
          (2.1, 2.5, 3.0, 3.3, 2.1, 3.1)),
    105: ((0.9, 1.6, 6.0, 10.2, 1.2, 6.2), (2.1, 2.6, 3.2, 1.9, 2.5, 2.3),
          (1.8, 2.1, 2.9, 2.1, 2.4, 2.8)),
}  # fmt: skip
#: by usage: KWOK Optimal and Better&Optimal at 4 nodes and 4 pods a node, 10 s, in percent
_FOUR_BY_FOUR: Mapping[int, tuple[int, int]] = {
    90: (48, 28),
    95: (57, 39),
    100: (57, 41),
    105: (63, 35),
}
#: better than kube-scheduler, or proven equal; goal in percent of the calls within 1 s
_WELL = (Category.KWOK_OPTIMAL, Category.BETTER, Category.BETTER_AND_OPTIMAL)
_GOAL, _GOAL_AT = 95.0, 1
#: seconds of Figure 4 and of Table 1
_AT = 10
EVICTIONS = "evictions an instance"


@attrs.frozen
class Outcomes:
    """Calls of some instances within a time limit."""

    attempts: Sequence[Attempt]
    seconds: float
    gaps: bool = True

    @property
    def calls(self) -> list[tuple[Attempt, Call]]:
        return [
            (each, call)
            for each in self.attempts
            for call in each.calls
            if call.seconds == self.seconds and call.gaps == self.gaps
        ]

    def of(self, **shape: int) -> "Outcomes":
        """Return the outcomes of the shapes with these properties."""
        selected = [
            each
            for each in self.attempts
            if all(getattr(each.shape, name) == value for name, value in shape.items())
        ]
        return attrs.evolve(self, attempts=selected)

    def percent(self, *categories: Category) -> float | None:
        """Return the share of these categories in the instances."""
        if not self.attempts:
            return None
        count = sum(call.category in categories for _, call in self.calls)
        if Category.NO_CALL in categories:
            count += sum(not each.calls for each in self.attempts)
        return 100 * count / len(self.attempts)

    def percent_of_calls(self, *categories: Category) -> float | None:
        return self.mean(lambda call: 100 * (call.category in categories))

    def mean(self, value: Callable[[Call], float]) -> float | None:
        """Average over the calls."""
        calls = self.calls
        return statistics.fmean(value(call) for _, call in calls) if calls else None


def _limits(attempts: Iterable[Attempt]) -> list[float]:
    return sorted({call.seconds for each in attempts for call in each.calls if call.gaps})


def _comparable(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts with the priorities of the published figures."""
    return [each for each in attempts if each.shape.priorities == _THEIR_PRIORITIES]


def _beside(ours: float | None, theirs: float | None, digits: int = 0) -> str:
    return beside(number(ours, digits), theirs, f".{digits}f")


def _categories(outcomes: Outcomes) -> list[str]:
    return [number(outcomes.percent(each), 0) for each in _CATEGORIES]


def _at_a_glance(attempts: Sequence[Attempt]) -> Table:
    lines = []
    for seconds in _limits(attempts):
        outcomes = Outcomes(_comparable(attempts), seconds)
        better, optimal = _OF_CALLS.get(int(seconds), (None, None))
        goal = f" (goal: {_GOAL:.0f})" if seconds == _GOAL_AT else ""
        both = None if better is None or optimal is None else better + optimal
        improved = outcomes.percent_of_calls(Category.BETTER, Category.BETTER_AND_OPTIMAL)
        lines.append(
            [
                f"{seconds:g} s",
                str(len(outcomes.calls)),
                _beside(outcomes.percent_of_calls(*_WELL), both, 1) + goal,
                _beside(improved, better, 1),
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
            outcomes = Outcomes(_comparable(attempts), seconds).of(nodes=nodes)
            published = _BY_NODES.get((int(seconds), nodes), (None,) * len(_CATEGORIES))
            if outcomes.attempts:
                pairs = zip(_CATEGORIES, published, strict=True)
                cells = (_beside(outcomes.percent(each), theirs) for each, theirs in pairs)
                lines.append([f"{seconds:g} s, {nodes} nodes", *cells])
    return ["within", *_CATEGORIES], lines


def _figure_4(attempts: Sequence[Attempt]) -> Table:
    outcomes = Outcomes(_comparable(attempts), _AT).of(pods_per_node=4)
    lines = []
    for at, usage in enumerate(USAGES):
        here = outcomes.of(usage=usage)
        if here.calls:
            cells = (
                _beside(here.of(nodes=n).percent(Category.BETTER_AND_OPTIMAL), _FIGURE_4[n][at])
                for n in NODES
            )
            lines.append([_usage(usage), *cells])
    return ["usage", *(f"{nodes} nodes" for nodes in NODES)], lines


#: rows of Table 1
_MEASURES: Mapping[str, Callable[[Call], float]] = {
    "seconds": lambda call: call.took,
    "cpu, %": lambda call: call.cpu,
    "memory, %": lambda call: call.memory,
}


def _table_1(attempts: Sequence[Attempt]) -> Table:
    lines = []
    for usage in USAGES:
        outcomes = Outcomes(_comparable(attempts), _AT).of(usage=usage)
        for (name, value), published in zip(_MEASURES.items(), _TABLE_1[usage], strict=True):
            cells = (
                _beside(outcomes.of(nodes=n, pods_per_node=p).mean(value), theirs, 1)
                for (n, p), theirs in zip(_COLUMNS, published, strict=True)
            )
            if outcomes.calls:
                lines.append([f"{_usage(usage)}: {name}", *cells])
    return ["usage", *(_size(n, p) for n, p in _COLUMNS)], lines


def _costs(attempts: Sequence[Attempt]) -> Table:
    def theirs(outcomes: Outcomes) -> str:
        return number(statistics.fmean(each.evictions for each, _ in outcomes.calls), 2)

    rows = {
        f"{seconds:g} s, {_size(nodes, pods)}": outcomes
        for seconds in _limits(attempts)
        for nodes in NODES
        for pods in PODS_PER_NODE
        if (outcomes := Outcomes(attempts, seconds).of(nodes=nodes, pods_per_node=pods)).calls
    }
    return grid(
        "within, nodes x pods a node",
        rows,
        {
            "seconds": lambda each: number(each.mean(lambda call: call.took), 2),
            "most": lambda each: number(max(call.took for _, call in each.calls), 2),
            "moves": lambda each: number(each.mean(lambda call: call.moves), 1),
            "evictions": lambda each: number(each.mean(lambda call: call.evictions), 2),
            "kube-scheduler's evictions": theirs,
            "all proven, %": lambda each: number(each.mean(lambda call: 100 * call.proven), 0),
        },
    )


def _priorities(attempts: Sequence[Attempt]) -> Table:
    """Return no lines for a single number of priorities."""
    several = len({each.shape.priorities for each in attempts}) > 1
    lines = [
        [f"{seconds:g} s, {priorities}", *_categories(outcomes)]
        for seconds in (_limits(attempts) if several else ())
        for priorities in PRIORITIES
        if (outcomes := Outcomes(attempts, seconds).of(priorities=priorities)).attempts
    ]
    return ["within, priorities", *_CATEGORIES], lines


def _without_gaps(attempts: Sequence[Attempt]) -> Table:
    seconds = min(_limits(attempts), default=0.0)
    tried = Outcomes(_comparable(attempts), seconds, gaps=False)
    lines = []
    for nodes in NODES:
        outcomes = tried.of(nodes=nodes)
        if outcomes.calls:
            well = number(outcomes.percent_of_calls(*_WELL), 1)
            lines.append([f"{seconds:g} s, {nodes} nodes", *_categories(outcomes), well])
    return ["within", *_CATEGORIES, "better or proven equal, of calls"], lines


def _papers_order(attempts: Sequence[Attempt]) -> Table:
    lines = []
    nodes, pods = _COLUMNS[0]
    for usage, (equal, better) in _FOUR_BY_FOUR.items():
        tried = Outcomes(_comparable(attempts), 0).of(nodes=nodes, pods_per_node=pods, usage=usage)
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


def sections(attempts: Sequence[Attempt]) -> list[Section]:
    return [
        Section(
            "At a glance",
            "Four priorities, percent of the calls. In brackets: as published.",
            _at_a_glance(attempts),
        ),
        Section(
            "By nodes",
            "Four priorities, percent of the instances. In brackets: as published.",
            _by_nodes(attempts),
        ),
        Section(
            "Figure 4: better, and proven the best",
            "Four priorities, 4 pods a node, within 10 s, by usage; percent of the instances.",
            _figure_4(attempts),
        ),
        Section(
            "Table 1: seconds, and what is requested by pods placed",
            "Four priorities, within 10 s; of cpu and memory the difference to kube-scheduler, in"
            " percent of all nodes.",
            _table_1(attempts),
        ),
        Section(
            "Without a gap",
            "As `kubedsm pack` does it: each pod that moves runs on its new node before it leaves"
            " the old one. Four priorities, percent of the instances.",
            _without_gaps(attempts),
        ),
        Section("By priorities", "Percent of the instances.", _priorities(attempts)),
        Section(
            "What it cost",
            "Means over the calls. All proven: that no fewer moves and evictions do as well, too.",
            _costs(attempts),
        ),
        Section(
            "The paper's order, solved to the end",
            "What comes of the paper's goals in its own order, whatever time that takes: 4 x 4,"
            " four priorities, percent of the instances. In brackets: as published within 10 s.",
            _papers_order(attempts),
        ),
    ]


def answer(attempts: Sequence[Attempt]) -> str:
    """Describe the longest calls."""
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


def standings(attempts: Sequence[Attempt], seconds: float) -> list[Standing]:
    """Rank the calls of one limit. More is placed by priority, the highest first."""
    calls = Outcomes(attempts, seconds).calls
    if not calls:
        return []
    more = {
        KUBEDSM: sum(call.placed > each.placed for each, call in calls),
        REFERENCE: sum(call.placed < each.placed for each, call in calls),
    }
    evicted = {
        KUBEDSM: sum(call.evictions for _, call in calls),
        REFERENCE: sum(each.evictions for each, _ in calls),
    }
    shares, means = (
        {name: times * count / len(calls) for name, count in counts.items()}
        for times, counts in ((100, more), (1, evicted))
    )
    return [
        Standing("instances in which it places more", "%", less_is_better=False, values=shares),
        Standing(EVICTIONS, "", less_is_better=True, values=means),
    ]
