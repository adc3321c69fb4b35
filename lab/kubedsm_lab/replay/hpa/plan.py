"""Which trials there are."""

from collections.abc import Sequence

import attrs

from kubedsm_lab.baselines.registry import CACHE_SCHEDULER, KUBEDSM
from kubedsm_lab.replay.hpa.published import SCHEDULED
from kubedsm_lab.replay.hpa.service import DEMAND
from kubedsm_lab.replay.hpa.trial import Trial

REFERENCE = "kube-scheduler"
#: whom we would be compared with; the last one puts pods anywhere
CONTENDERS = (KUBEDSM, REFERENCE, CACHE_SCHEDULER, "random")
#: seconds that pods wait longer for their nodes: as those of the paper's bursts do, and far beyond
LATER = (*SCHEDULED, 10.0, 30.0)
#: core-seconds of a request, beside DEMAND
DEMANDS = (0.15, 0.24, 0.26)


@attrs.frozen
class Plan:
    seeds: int
    contenders: Sequence[str] = CONTENDERS
    later: Sequence[float] = LATER
    demands: Sequence[float] = DEMANDS

    @property
    def all(self) -> list[Trial]:
        """Every policy as it is, and in no time; the reference slower, and for other requests."""
        kinds = [
            *((policy, 0.0, DEMAND) for policy in self.contenders),
            *((policy, None, DEMAND) for policy in self.contenders),
            *((REFERENCE, later, DEMAND) for later in self.later),
            *((REFERENCE, 0.0, demand) for demand in self.demands),
        ]
        return [
            Trial(policy, seed, later, demand)
            for policy, later, demand in kinds
            for seed in range(1, self.seeds + 1)
        ]

    @property
    def about(self) -> str:
        return f"seeds: {self.seeds}"

    def times(self, number: int) -> "Plan":
        return attrs.evolve(self, seeds=number)


SHORT, FULL = Plan(seeds=20), Plan(seeds=50)
