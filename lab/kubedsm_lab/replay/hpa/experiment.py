"""`kubedsm replay --preset hpa`: trials and results of the autoscaler experiment."""

from collections.abc import Sequence

import attrs

from kubedsm_lab.baselines.registry import CACHE_SCHEDULER, KUBEDSM
from kubedsm_lab.replay.findings import model_preset
from kubedsm_lab.replay.hpa.tables import TABLES, answer, rankings
from kubedsm_lab.replay.hpa.trial import Trial, play
from kubedsm_lab.replay.presets import REFERENCE

METHOD = (
    "A model, not a measurement: schedulers and autoscaler ran on an emulated cluster in virtual"
    " time, and what the clients see of the service there is computed"
)
#: compared scheduling policies; the last one places pods anywhere
CONTENDERS = (KUBEDSM, REFERENCE, CACHE_SCHEDULER, "random")
#: seconds that pods wait longer for their nodes: mean and p99 of the paper's bursts of 200 pods
#: under the default scheduler, and far beyond
LATER = (1.175, 2.673, 10.0, 30.0)


@attrs.frozen
class Plan:
    seeds: int
    contenders: Sequence[str] = CONTENDERS
    later: Sequence[float] = LATER

    def list_trials(self) -> list[Trial]:
        """Return all trials of the plan: each policy with normal and with instant scheduling, and
        kube-scheduler with pods scheduled later.
        """
        kinds = [
            *((policy, 0.0) for policy in self.contenders),
            *((policy, None) for policy in self.contenders),
            *((REFERENCE, later) for later in self.later),
        ]
        return [
            Trial(policy, seed, later)
            for policy, later in kinds
            for seed in range(1, self.seeds + 1)
        ]


PRESET = model_preset(
    "hpa",
    Plan(seeds=20),
    Plan(seeds=50),
    Plan.list_trials,
    play,
    list,
    method=lambda plan: f"{METHOD}; seeds: {plan.seeds}",
    answer=answer,
    tables=TABLES,
    rankings=rankings,
)
