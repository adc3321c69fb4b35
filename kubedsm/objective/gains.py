"""QoS gains of migrations to and from the edge, and their benefit in pod-seconds.

Gains compare by priority level: a higher level precedes all lower levels. A workload's priority is
the greatest priority of its pods. With a migration price, gains are pod-seconds at the edge:
QoS is converted to pods of the average workload, times the expected seconds that the workload
remains unchanged. Pods beyond the QoS target are a loss when leaving, and no gain when arriving.
Among equivalent workloads, the workload with the lower edge share comes first.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Self

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.model import Share, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.lasting import Lasting
from kubedsm.objective.objective import NANO, Objective, QosTargets

#: QoS in nano-units by priority level, highest first: tuples compare lexicographically.
Gain = tuple[int, ...]

#: Smallest QoS gain of a migration; smaller differences are ignored.
LEAST_GAIN = 1e-6


class Gains:
    """QoS gains, in nano-units, that additional (or fewer) pods of each workload at the edge would
    bring.
    """

    def __init__(
        self,
        shares: Mapping[Workload, Share],
        qos_targets: QosTargets,
        objective: Objective,
        priorities: Mapping[Workload, int] | None = None,
    ) -> None:
        """Initialise from current edge shares; without priorities, all workloads have one level."""
        self.shares = shares
        self.qos_targets = qos_targets
        self.objective = objective
        self.priorities = priorities
        self._known: dict[tuple[Workload, int], int] = {}
        of = dict.fromkeys(shares, 0) | dict(priorities or {})
        levels = {p: at for at, p in enumerate(sorted(set(of.values()), reverse=True))}
        #: priority level of each workload, 0 for the highest priority
        self.level = {workload: levels[priority] for workload, priority in of.items()}
        #: no gain at any level
        self.nothing = [0] * max(1, len(levels))

    @classmethod
    def of(cls, snapshot: Snapshot, qos_targets: QosTargets, objective: Objective) -> Self:
        shares = snapshot.census.shares
        return cls(shares, qos_targets, objective, snapshot.census.levels)

    def with_shares(self, shares: Mapping[Workload, Share]) -> Self:
        """Return the gains after changes that lead to these edge shares."""
        after = copy(self)
        vars(after).update(shares=shares, _known={})
        return after

    def of_workload(self, workload: Workload, change: int) -> int:
        """Return the QoS gained, in nano-units, by `change` additional pods of the workload at the
        edge; negative for a loss.
        """
        key = (workload, change)
        if key not in self._known:
            share, qos_target = self.shares[workload], self.qos_targets(workload)
            self._known[key] = self.objective.gain(share, qos_target, change)
        return self._known[key]

    def of_share(self, workload: Workload, after: Share) -> int:
        """Return the QoS that a workload would gain, in nano-units, with the given edge share
        instead of the current one.
        """
        target = self.qos_targets(workload)
        before = self.objective.worth_of(self.shares[workload], target)
        return self.objective.worth_of(after, target) - before

    def of_near(self, workload: Workload, near: float) -> int:
        """Return the QoS that a workload would gain, in nano-units, if this share of its requests
        were served near their users.
        """
        return self._gain_near(self.objective, workload, near)

    def _gain_near(self, objective: Objective, workload: Workload, near: float) -> int:
        share, target = self.shares[workload], self.qos_targets(workload)
        then = target.reach(share)._replace(near=near)
        before = objective.worth_of(share, target)
        return objective.score_near(then, share.edge, share.total, target) - before

    def of_shares(self, after: Mapping[Workload, Share]) -> Gain:
        """Return the QoS that workloads would gain with the given edge shares instead of the
        current ones, by pod priority level.
        """
        total = list(self.nothing)
        for workload, share in after.items():
            total[self.level[workload]] += self.of_share(workload, share)
        return tuple(total)

    def of_changes(self, changes: Mapping[Workload, int]) -> Gain:
        total = list(self.nothing)
        for workload, change in changes.items():
            total[self.level[workload]] += self.of_workload(workload, change)
        return tuple(total)

    def of_vectors(self, workloads: Sequence[Workload], vectors: Ints) -> Ints:
        """Return the QoS gains by pod priority level, shape (changes, levels), of changes in the
        numbers of edge pods.

        vectors: shape (changes, items); column i belongs to workload i.
        """
        levels = sorted({self.level[workload] for workload in workloads}) or [0]
        total = np.zeros((len(vectors), len(levels)), dtype=np.int64)
        for workload in dict.fromkeys(workloads):
            columns = [i for i, other in enumerate(workloads) if other == workload]
            change = vectors[:, columns].sum(axis=1)
            lowest, highest = int(change.min(initial=0)), int(change.max(initial=0))
            values = [self.of_workload(workload, n) for n in range(lowest, highest + 1)]
            level = levels.index(self.level[workload])
            total[:, level] += np.array(values, dtype=np.int64)[change - lowest]
        return total

    @property
    def possible(self) -> bool:
        """True if any workload would gain QoS by having all pods at the edge."""
        left = ((workload, share.total - share.edge) for workload, share in self.shares.items())
        return any(more and self.of_workload(workload, more) > 0 for workload, more in left)

    def urgency_key(self, workload: Workload) -> tuple[int, float]:
        """Sort key of workloads: by priority, then by edge share relative to the QoS target."""
        return self.level[workload], self.shares[workload].ratio - self.qos_targets(workload).qos


def leading_gain(gain: Iterable[float]) -> float:
    """Return the first non-zero gain of a gain tuple by descending priority level: the gain that
    decides a comparison.
    """
    return next((amount for amount in gain if amount), 0)


def find_leading_levels(gains: Ints) -> Ints:
    """Return, for each row of QoS gains, the highest pod priority level with a non-zero gain; 0 if
    there is none.
    """
    found: Ints = (gains != 0).argmax(axis=1)
    return found


def rank_gains(gains: Ints) -> Ints:
    """Return ranks of QoS gains that compare as the gains do lexicographically by priority level,
    shape (changes, levels).
    """
    if gains.shape[1] == 1:
        return gains[:, 0]
    _, inverse = np.unique(gains, axis=0, return_inverse=True)
    return np.asarray(inverse, dtype=np.int64).reshape(len(gains))


def select_worthwhile(gains: Ints) -> NDArray[np.bool_]:
    """Return a mask of changes whose QoS gain is positive at the highest pod priority level that
    changes.
    """
    kept: NDArray[np.bool_] = (
        gains[np.arange(len(gains)), find_leading_levels(gains)] > LEAST_GAIN * NANO
    )
    return kept


#: Relative decrease of the benefit from the first to the last pod of a workload: greater
#: than rounding errors, negligible relative to the benefit of one pod.
_EVENNESS = 1e-4


class Worths(Gains):
    """Benefits, in nano-pod-seconds, of additional or fewer pods at the edge: QoS gain times
    expected duration.
    """

    def __init__(
        self, gains: Gains, lasting: Lasting, waiting: Mapping[Workload, int] | None = None
    ) -> None:
        """Convert QoS gains to benefits, by how long each workload is expected to remain unchanged.

        waiting: pending pods that need capacity, counted beyond the QoS target as well.
        """
        super().__init__(gains.shares, gains.qos_targets, gains.objective, gains.priorities)
        self._lasting = lasting
        self._waiting = waiting or {}
        self._flat = attrs.evolve(self.objective, beta=0.0)
        even = attrs.evolve(self.objective, gamma=0.0)
        pods = points = 0
        for workload, share in self.shares.items():
            qos_target = self.qos_targets(workload)
            wanted = qos_target.count_wanted(share.total)
            pods += wanted
            points += even.gain(Share(0, share.total), qos_target, wanted)
        self._pods_a_point = pods * NANO / points if points else 0.0

    def of_workload(self, workload: Workload, change: int) -> int:
        share = self.shares[workload]
        if change > 0:
            wanted = self.qos_targets(workload).count_wanted(share.total)
            change = min(change, max(wanted - share.edge, self._waiting.get(workload, 0), 0))
        points = float(super().of_workload(workload, change))
        return self._pod_seconds(workload, points, change)

    def of_share(self, workload: Workload, after: Share) -> int:
        points = super().of_share(workload, after)
        if points > 0:
            # Requests served beyond the target are no gain.
            target = self.qos_targets(workload)
            before = self._flat.worth_of(self.shares[workload], target)
            points = min(points, self._flat.worth_of(after, target) - before)
        share = self.shares[workload]
        return self._pod_seconds(workload, points, after.edge - share.edge)

    def of_near(self, workload: Workload, near: float) -> int:
        points = super().of_near(workload, near)
        if points > 0:
            points = min(points, self._gain_near(self._flat, workload, near))
        return self._pod_seconds(workload, points, 0)

    def _pod_seconds(self, workload: Workload, points: float, change: int) -> int:
        """Convert a QoS gain by `change` more pods to the pod-seconds for which it lasts."""
        share = self.shares[workload]
        # Weighted by the mean share: among identical totals, even distributions are preferred.
        points *= 1 - _EVENNESS * (2 * share.edge + change) / (2 * share.total)
        return round(points * self._pods_a_point * self._lasting(workload))


def less_price(worths: Ints, cost: Ints) -> Ints:
    """Subtract migration costs from benefits (changes x priority levels), each at the highest
    priority level changed.
    """
    left = worths.copy()
    left[np.arange(len(worths)), find_leading_levels(worths)] -= cost
    return left


def net(worth: Gain, cost: int) -> Gain:
    """Subtract a migration cost from a benefit tuple (one entry for each priority level), at the
    highest level affected.
    """
    at = next((level for level, amount in enumerate(worth) if amount), 0)
    return tuple(amount - cost * (level == at) for level, amount in enumerate(worth))
