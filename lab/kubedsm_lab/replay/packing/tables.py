"""Tables of docs/explanation/packing.md: all instances, next to the published measurements.

Source: "Priority Matters" (arXiv 2511.08373), and the result files of its authors' program.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.packing.attempts import Attempt, Call, Category, category
from kubedsm_lab.replay.packing.instances import NODES, PODS_PER_NODE, PRIORITIES, USAGES
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.published import PUBLISHED
from kubedsm_lab.replay.rankings import Ranking
from kubedsm_lab.replay.tables import Section, Table, beside, fill_sections, grid, number

#: priorities of the published measurements
_THEIR_PRIORITIES = 4
_CATEGORIES = tuple(Category)
_PUBLISHED = PUBLISHED.packing
#: better than kube-scheduler, or proven equal; goal in percent of the calls within 1 s
_WELL = (Category.KWOK_OPTIMAL, Category.BETTER, Category.BETTER_AND_OPTIMAL)
_GOAL, _GOAL_AT = 95.0, 1
#: seconds of Figure 4 and of Table 1
_AT = 10
EVICTIONS = "evictions an instance"


@attrs.frozen
class Outcomes:
    """Results of packing instances with one time limit, and statistics of their solver calls."""

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
        """Return the results of the instances whose shape has the given field values."""
        selected = [
            each
            for each in self.attempts
            if all(getattr(each.shape, name) == value for name, value in shape.items())
        ]
        return attrs.evolve(self, attempts=selected)

    def percent(self, *categories: Category) -> float | None:
        """Return the percentage of instances in the given result categories; None without
        instances.
        """
        if not self.attempts:
            return None
        count = sum(call.category in categories for _, call in self.calls)
        if Category.NO_CALL in categories:
            count += sum(not each.calls for each in self.attempts)
        return 100 * count / len(self.attempts)

    def percent_of_calls(self, *categories: Category) -> float | None:
        return self.mean(lambda call: 100 * (call.category in categories))

    def mean(self, value: Callable[[Call], float]) -> float | None:
        """Return the mean of one measure, such as evictions, over the solver calls."""
        calls = self.calls
        return statistics.fmean(value(call) for _, call in calls) if calls else None


def _list_limits(attempts: Iterable[Attempt]) -> list[float]:
    return sorted({call.seconds for each in attempts for call in each.calls if call.gaps})


def _select_comparable(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the results of instances with the number of priority levels that the published
    measurements have.
    """
    return [each for each in attempts if each.shape.priorities == _THEIR_PRIORITIES]


def _show_beside(ours: float | None, theirs: float | None, digits: int = 0) -> str:
    return beside(number(ours, digits), theirs, f".{digits}f")


def _category_cells(outcomes: Outcomes) -> list[str]:
    return [number(outcomes.percent(each), 0) for each in _CATEGORIES]


def _tabulate_overview(attempts: Sequence[Attempt]) -> Table:
    lines = []
    for seconds in _list_limits(attempts):
        outcomes = Outcomes(_select_comparable(attempts), seconds)
        better, optimal = _PUBLISHED.calls.get(int(seconds), (None, None))
        goal = f" (goal: {_GOAL:.0f})" if seconds == _GOAL_AT else ""
        both = None if better is None or optimal is None else better + optimal
        improved = outcomes.percent_of_calls(Category.BETTER, Category.BETTER_AND_OPTIMAL)
        lines.append(
            [
                f"{seconds:g} s",
                str(len(outcomes.calls)),
                _show_beside(outcomes.percent_of_calls(*_WELL), both, 1) + goal,
                _show_beside(improved, better, 1),
                _show_beside(outcomes.percent_of_calls(Category.KWOK_OPTIMAL), optimal, 1),
                number(outcomes.percent_of_calls(Category.FAILURE), 1),
                number(outcomes.mean(lambda call: call.load), 1),
            ]
        )
    outcomes_of_calls = ["better or proven equal", "better", "proven equal", "failures"]
    return ["within", "calls", *outcomes_of_calls, "load per processor"], lines


def _tabulate_nodes(attempts: Sequence[Attempt]) -> Table:
    lines = []
    for seconds in _list_limits(attempts):
        for nodes in NODES:
            outcomes = Outcomes(_select_comparable(attempts), seconds).of(nodes=nodes)
            published = _PUBLISHED.nodes.get(int(seconds), {}).get(
                nodes, (None,) * len(_CATEGORIES)
            )
            if outcomes.attempts:
                pairs = zip(_CATEGORIES, published, strict=True)
                cells = (_show_beside(outcomes.percent(each), theirs) for each, theirs in pairs)
                lines.append([f"{seconds:g} s, {nodes} nodes", *cells])
    return ["within", *_CATEGORIES], lines


def _figure_4(attempts: Sequence[Attempt]) -> Table:
    outcomes = Outcomes(_select_comparable(attempts), _AT).of(pods_per_node=4)
    lines = []
    for at, usage in enumerate(USAGES):
        here = outcomes.of(usage=usage)
        if here.calls:
            cells = (
                _show_beside(
                    here.of(nodes=n).percent(Category.BETTER_AND_OPTIMAL),
                    _PUBLISHED.figure_4[n][at],
                )
                for n in NODES
            )
            lines.append([_format_usage(usage), *cells])
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
        outcomes = Outcomes(_select_comparable(attempts), _AT).of(usage=usage)
        for (name, value), published in zip(
            _MEASURES.items(), _PUBLISHED.table_1[usage], strict=True
        ):
            cells = (
                _show_beside(outcomes.of(nodes=n, pods_per_node=p).mean(value), theirs, 1)
                for (n, p), theirs in zip(_PUBLISHED.table_1_columns, published, strict=True)
            )
            if outcomes.calls:
                lines.append([f"{_format_usage(usage)}: {name}", *cells])
    return ["usage", *(_format_size(n, p) for n, p in _PUBLISHED.table_1_columns)], lines


def _tabulate_costs(attempts: Sequence[Attempt]) -> Table:
    def theirs(outcomes: Outcomes) -> str:
        return number(statistics.fmean(each.evictions for each, _ in outcomes.calls), 2)

    rows = {
        f"{seconds:g} s, {_format_size(nodes, pods)}": outcomes
        for seconds in _list_limits(attempts)
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
            "migrations": lambda each: number(each.mean(lambda call: call.moves), 1),
            "evictions": lambda each: number(each.mean(lambda call: call.evictions), 2),
            "kube-scheduler's evictions": theirs,
            "all proven, %": lambda each: number(each.mean(lambda call: 100 * call.proven), 0),
        },
    )


def _tabulate_priorities(attempts: Sequence[Attempt]) -> Table:
    """Return the table of results by number of priority levels; empty if all instances have the
    same number.
    """
    several = len({each.shape.priorities for each in attempts}) > 1
    lines = [
        [f"{seconds:g} s, {priorities}", *_category_cells(outcomes)]
        for seconds in (_list_limits(attempts) if several else ())
        for priorities in PRIORITIES
        if (outcomes := Outcomes(attempts, seconds).of(priorities=priorities)).attempts
    ]
    return ["within, priorities", *_CATEGORIES], lines


def _tabulate_gapless(attempts: Sequence[Attempt]) -> Table:
    seconds = min(_list_limits(attempts), default=0.0)
    tried = Outcomes(_select_comparable(attempts), seconds, gaps=False)
    lines = []
    for nodes in NODES:
        outcomes = tried.of(nodes=nodes)
        if outcomes.calls:
            well = number(outcomes.percent_of_calls(*_WELL), 1)
            lines.append([f"{seconds:g} s, {nodes} nodes", *_category_cells(outcomes), well])
    return ["within", *_CATEGORIES, "better or proven equal, of calls"], lines


def _tabulate_paper_order(attempts: Sequence[Attempt]) -> Table:
    lines = []
    nodes, pods = _PUBLISHED.table_1_columns[0]
    for usage, (equal, better) in _PUBLISHED.four_by_four.items():
        tried = Outcomes(_select_comparable(attempts), 0).of(
            nodes=nodes, pods_per_node=pods, usage=usage
        )
        found = [
            category(each.placed, each.paper, proven=True)
            for each in tried.attempts
            if each.paper is not None
        ]
        if found:
            percent = 100 / len(tried.attempts)
            lines.append(
                [
                    _format_usage(usage),
                    str(len(tried.attempts)),
                    _show_beside(percent * found.count(Category.KWOK_OPTIMAL), equal),
                    _show_beside(percent * found.count(Category.BETTER_AND_OPTIMAL), better),
                ]
            )
    return ["usage", "instances", "KWOK Optimal", "Better&Optimal"], lines


def _format_usage(percent: int) -> str:
    return f"{percent / 100:.2f}"


def _format_size(nodes: int, pods: int) -> str:
    return f"{nodes} x {pods}"


_TABLES: Mapping[str, Callable[[Sequence[Attempt]], Table]] = {
    "At a glance": _tabulate_overview,
    "By nodes": _tabulate_nodes,
    "Figure 4: better, and proven optimal": _figure_4,
    "Table 1: solver time, and requests of placed pods": _table_1,
    "Make-before-break": _tabulate_gapless,
    "By priorities": _tabulate_priorities,
    "Cost": _tabulate_costs,
    "The paper's order, without a time limit": _tabulate_paper_order,
}


def sections(attempts: Sequence[Attempt]) -> list[Section]:
    return fill_sections("packing", _TABLES, attempts)


def answer(attempts: Sequence[Attempt]) -> str:
    """Return a sentence that summarises the solver calls with the longest time limit."""
    limits = _list_limits(attempts)
    if not limits:
        return "No cluster was packed: kube-scheduler placed every pod."
    outcomes = Outcomes(attempts, limits[-1])
    ours = outcomes.mean(lambda call: call.evictions) or 0.0
    theirs = statistics.fmean(each.evictions for each, _ in outcomes.calls)
    return (
        f"Packing placed more pods than kube-scheduler within {limits[-1]:g} s, or proved that"
        f" no policy can, in {number(outcomes.percent_of_calls(*_WELL), 0)} % of"
        f" {len(outcomes.calls)} full clusters, with {ours:.1f} evictions each where"
        f" kube-scheduler's preemption took {theirs:.1f}."
    )


def rankings(attempts: Sequence[Attempt], seconds: float) -> list[Ranking]:
    """Rank KubeDSM's solver and kube-scheduler by the pods placed, for one time limit.

    More pods placed are compared by priority, highest first.
    """
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
        Ranking("instances in which it places more", "%", less_is_better=False, values=shares),
        Ranking(EVICTIONS, "", less_is_better=True, values=means),
    ]
