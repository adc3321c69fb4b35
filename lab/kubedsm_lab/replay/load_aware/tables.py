"""The tables of docs/load-aware.md: what came of all trials, beside what was published."""

import statistics
from collections.abc import Sequence

import attrs

from kubedsm_lab.replay.load_aware.application import GRAPHS, SCENARIOS
from kubedsm_lab.replay.load_aware.contenders import CONTENDERS, DEFAULT, OURS
from kubedsm_lab.replay.load_aware.published import LOWER
from kubedsm_lab.replay.load_aware.trial import Outcome
from kubedsm_lab.replay.report import number
from kubedsm_lab.replay.sections import Section, Table
from kubedsm_lab.replay.trials import of_trials

MODELLED = (
    "A model, not a measurement: the scheduler ran on an emulated cluster in virtual time, and how"
    " long requests take there is computed"
)


@attrs.frozen
class Of:
    """The outcomes of some trials."""

    outcomes: Sequence[Outcome]

    def all(self, **chosen: object) -> "Of":
        """Those of the trials that have these."""
        return Of(of_trials(self.outcomes, **chosen))

    @property
    def kinds(self) -> list[tuple[str, int]]:
        """Graphs and scenarios that were tried."""
        tried = {(each.trial.graph, each.trial.scenario) for each in self.outcomes}
        return [each for each in ((g, s) for g in GRAPHS for s in SCENARIOS) if each in tried]

    @property
    def users(self) -> list[int]:
        return sorted({each.trial.users for each in self.outcomes})

    @property
    def contenders(self) -> list[str]:
        tried = {each.trial.contender for each in self.outcomes}
        return [name for name in CONTENDERS if name in tried]

    def mean(self, figure: str) -> float | None:
        values = [getattr(each, figure) for each in self.outcomes]
        return statistics.fmean(values) if values else None

    def lower(self, contender: str) -> float | None:
        """Percent by which the p95 is lower than the default's, as the mean over the users."""
        found = []
        for users in self.users:
            ours, theirs = (
                self.all(users=users, contender=name).mean("p95") for name in (contender, DEFAULT)
            )
            if ours is not None and theirs:
                found.append(100 * (1 - ours / theirs))
        return statistics.fmean(found) if found else None


def _named(graph: str, scenario: int) -> str:
    return f"{graph}, scenario {scenario}"


def _at_a_glance(outcomes: Sequence[Outcome]) -> Table:
    tried = Of(outcomes)
    others = [name for name in tried.contenders if name != DEFAULT]
    lines = []
    for graph, scenario in tried.kinds:
        here = tried.all(graph=graph, scenario=scenario)
        cells = (number(here.lower(name), 1) for name in others)
        lines.append([_named(graph, scenario), str(LOWER[scenario]), *cells])
    return ["p95 lower by, %", "published", *others], lines if others else []


def _by_users(outcomes: Sequence[Outcome]) -> Table:
    tried = Of(outcomes)
    lines = []
    for graph, scenario in tried.kinds:
        for users in tried.users:
            here = tried.all(graph=graph, scenario=scenario, users=users)
            cells = (number(here.all(contender=c).mean("p95"), 2) for c in tried.contenders)
            lines.append([f"{_named(graph, scenario)}, {users} users", *cells])
    return ["p95, s", *tried.contenders], lines


#: heading, what it is of an outcome, digits
_COSTS = (
    ("moves", "moves", 1),
    ("from the start", "moves_in_all", 1),
    ("lost pod-s", "lost_pod_seconds", 1),
    ("std within nodes", "within_nodes", 3),
    ("std between nodes", "between_nodes", 3),
)


def _costs(outcomes: Sequence[Outcome]) -> Table:
    tried = Of(outcomes)
    lines = [
        [
            f"{_named(graph, scenario)}: {contender}",
            *(
                number(
                    tried.all(graph=graph, scenario=scenario, contender=contender).mean(figure),
                    digits,
                )
                for _, figure, digits in _COSTS
            ),
        ]
        for graph, scenario in tried.kinds
        for contender in tried.contenders
    ]
    return ["", *(heading for heading, _, _ in _COSTS)], lines


SECTIONS: Sequence[Section[Outcome]] = (
    Section(
        "At a glance",
        "By how much lower the p95 of the end-to-end response time is than under kube-scheduler, in"
        " percent, as the mean over the users; and what was published of the paper's score and"
        " descheduler.",
        _at_a_glance,
    ),
    Section("By users", "The p95 in seconds, as the mean over the trials.", _by_users),
    Section(
        "What it cost",
        "Moves and evictions of a trial while it was measured, and from its start; the pod-seconds"
        " lost to them from the start. Standard deviations of the used parts of the resources: over"
        " the four of a node, which is what the paper's score is made of; and of cpu and disks over"
        " the nodes. Means over trials, users and time.",
        _costs,
    ),
)


def answer(outcomes: Sequence[Outcome]) -> str:
    tried = Of(outcomes)
    lower = {
        scenario: tried.all(scenario=scenario).lower(OURS)
        for scenario in sorted({scenario for _, scenario in tried.kinds})
    }
    said = [
        f"{abs(percent):.0f} % {'lower' if percent >= 0 else 'higher'} in scenario {scenario}"
        for scenario, percent in lower.items()
        if percent is not None
    ]
    if not said:
        return f"KubeDSM that is told the load was not tried beside {DEFAULT}."
    lost = tried.all(contender=OURS).mean("lost_pod_seconds") or 0.0
    cost = f"at the cost of {lost:.1f} pod-seconds a trial" if lost else "no capacity was lost"
    return (
        f"Told the measured load, KubeDSM's p95 of response times was {', '.join(said)} than"
        f" {DEFAULT}'s; {cost}."
    )
