"""`kubedsm replay --preset load-aware`: trials, and tables of docs/explanation/load-aware.md."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import attrs

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.findings import Selection, model_preset
from kubedsm_lab.replay.load_aware.application import GRAPHS, SCENARIOS
from kubedsm_lab.replay.load_aware.trial import CONTENDERS, OURS, Outcome, Trial, play
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.published import PUBLISHED
from kubedsm_lab.replay.rankings import Ranking
from kubedsm_lab.replay.tables import Table, grid, mean, number

METHOD = (
    "A model, not a measurement: the scheduler ran on an emulated cluster in virtual time, and how"
    " long requests take there is computed"
)
P95 = "p95 of response times"
#: relative difference of two means over few trials
_NOISE = 0.03


@attrs.frozen
class Plan:
    graphs: Sequence[str]
    users: Sequence[int]
    #: trials of each kind
    seeds: int
    scenarios: Sequence[int] = tuple(SCENARIOS)
    contenders: Sequence[str] = tuple(CONTENDERS)
    minutes: float = 30

    def list_trials(self) -> list[Trial]:
        seeds = range(1, self.seeds + 1)
        kinds = product(self.graphs, self.scenarios, self.users, self.contenders, seeds)
        return [Trial(*kind, self.minutes) for kind in kinds]


@attrs.frozen
class Tried(Selection[Outcome]):
    """Selected results of the load-aware experiment's trials, with means over the selection."""

    @property
    def kinds(self) -> list[tuple[str, int]]:
        """Return the combinations of call graph and scenario that the selected trials cover."""
        return list(dict.fromkeys((o.trial.graph, o.trial.scenario) for o in self.outcomes))

    @property
    def users(self) -> list[int]:
        return sorted({each.trial.users for each in self.outcomes})

    def lower(self, contender: str) -> float | None:
        """Return by how many percent the contender's p95 latency is below kube-scheduler's,
        averaged over the numbers of users.
        """
        found = []
        for users in self.users:
            ours, theirs = (
                self.select(users=users, contender=name).mean("p95")
                for name in (contender, REFERENCE)
            )
            if ours is not None and theirs:
                found.append(100 * (1 - ours / theirs))
        return mean(found)


def _tabulate_overview(tried: Tried) -> Table:
    others = [name for name in tried.contenders if name != REFERENCE]
    lines = []
    for graph, scenario in tried.kinds:
        here = tried.select(graph=graph, scenario=scenario)
        cells = (number(here.lower(name), 1) for name in others)
        lines.append(
            [f"{graph}, scenario {scenario}", f"{PUBLISHED.load_aware.lower[scenario]:g}", *cells]
        )
    return ["p95 lower by, %", "published", *others], lines


def _tabulate_users(tried: Tried) -> Table:
    lines = []
    for graph, scenario in tried.kinds:
        for users in tried.users:
            here = tried.select(graph=graph, scenario=scenario, users=users)
            cells = (number(here.select(contender=c).mean("p95"), 2) for c in tried.contenders)
            lines.append([f"{graph}, scenario {scenario}, {users} users", *cells])
    return ["p95, s", *tried.contenders], lines


def _tabulate_costs(tried: Tried) -> Table:
    rows = {
        f"{graph}, scenario {scenario}: {name}": tried.select(
            graph=graph, scenario=scenario, contender=name
        )
        for graph, scenario in tried.kinds
        for name in tried.contenders
    }
    return grid(
        "",
        rows,
        {
            "migrations": lambda each: number(each.mean("moves"), 1),
            "from the start": lambda each: number(each.mean("moves_in_all"), 1),
            "lost pod-s": lambda each: number(each.mean("lost_pod_seconds"), 1),
            "std within nodes": lambda each: number(each.mean("within_nodes"), 3),
            "std between nodes": lambda each: number(each.mean("between_nodes"), 3),
        },
    )


TABLES: Mapping[str, Callable[[Tried], Table]] = {
    "At a glance": _tabulate_overview,
    "By users": _tabulate_users,
    "Cost": _tabulate_costs,
}


def answer(tried: Tried) -> str:
    said = []
    for scenario in sorted({scenario for _, scenario in tried.kinds}):
        percent = tried.select(scenario=scenario).lower(OURS)
        if percent is not None:
            side = "lower" if percent >= 0 else "higher"
            said.append(f"{abs(percent):.0f} % {side} in scenario {scenario}")
    lost = tried.select(contender=OURS).mean("lost_pod_seconds") or 0.0
    cost = f"at the cost of {lost:.1f} pod-seconds per trial" if lost else "no capacity was lost"
    return (
        f"With measured load, KubeDSM's p95 of response times was {', '.join(said)} than"
        f" {REFERENCE}'s; {cost}."
    )


def rankings(tried: Tried) -> list[Ranking]:
    """Rank the contenders by each measurement, averaged over call graphs, numbers of users and
    trials.

    KubeDSM is ranked with measured load.
    """
    # KubeDSM without measured load is in the tables only.
    names = [name for name in tried.contenders if name != KUBEDSM]

    def ranking(what: str, unit: str, of: Tried, figure: str) -> Ranking:
        means = {name: of.select(contender=name).mean(figure) for name in names}
        values = {name: value for name, value in means.items() if value is not None}
        return Ranking(what, unit, less_is_better=True, values=values, noise=_NOISE, ours=OURS)

    return [
        *(
            ranking(f"{P95}, scenario {scenario}", "s", tried.select(scenario=scenario), "p95")
            for scenario in sorted({scenario for _, scenario in tried.kinds})
        ),
        ranking("pod-seconds lost to migrations, per trial", "", tried, "lost_pod_seconds"),
    ]


PRESET = model_preset(
    "load-aware",
    Plan(list(GRAPHS), (20, 50, 80), seeds=1),
    Plan(list(GRAPHS), range(10, 101, 10), seeds=10),
    Plan.list_trials,
    play,
    Tried,
    method=lambda plan: f"{METHOD}; trials of each kind: {plan.seeds}, of {plan.minutes:g} minutes",
    answer=answer,
    tables=TABLES,
    rankings=rankings,
)
