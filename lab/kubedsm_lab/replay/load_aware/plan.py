"""Which trials there are."""

from collections.abc import Sequence

import attrs

from kubedsm_lab.replay.load_aware.application import GRAPHS, SCENARIOS
from kubedsm_lab.replay.load_aware.contenders import CONTENDERS
from kubedsm_lab.replay.load_aware.trial import Trial


@attrs.frozen
class Plan:
    graphs: Sequence[str]
    users: Sequence[int]
    #: of each kind
    trials: int
    scenarios: Sequence[int] = tuple(SCENARIOS)
    contenders: Sequence[str] = tuple(CONTENDERS)
    minutes: float = 30

    @property
    def all(self) -> list[Trial]:
        return [
            Trial(graph, scenario, users, contender, seed, self.minutes)
            for graph in self.graphs
            for scenario in self.scenarios
            for users in self.users
            for contender in self.contenders
            for seed in range(1, self.trials + 1)
        ]

    @property
    def about(self) -> str:
        return f"trials of each kind: {self.trials}, of {self.minutes:g} minutes"

    def times(self, number: int) -> "Plan":
        return attrs.evolve(self, trials=number)


SHORT = Plan(list(GRAPHS), (20, 50, 80), trials=1)
FULL = Plan(list(GRAPHS), range(10, 101, 10), trials=10)
