"""How the QoS changes when pods come to the edge or leave it."""

from collections.abc import Mapping, Sequence

import numpy as np

from kubedsm.core.fragmentation import Ints
from kubedsm.core.model import Share, Workload
from kubedsm.core.objective import Objective, Promises


class Gains:
    """QoS as a function of changes, in nano-units; nobody loses by having more on the edge."""

    def __init__(
        self, shares: Mapping[Workload, Share], promises: Promises, objective: Objective
    ) -> None:
        self.shares = shares
        self._promises = promises
        self._objective = objective
        self._known: dict[tuple[Workload, int], int] = {}

    def of_workload(self, workload: Workload, change: int) -> int:
        """What it adds that so many more (or fewer) of the workload's pods are on the edge."""
        key = (workload, change)
        if key not in self._known:
            share, promise = self.shares[workload], self._promises(workload)
            before, after = (
                self._objective.score(edge, share.total, promise.qos, promise.weight)
                for edge in (share.edge, share.edge + change)
            )
            self._known[key] = after - before
        return self._known[key]

    def of_changes(self, changes: Mapping[Workload, int]) -> int:
        return sum(self.of_workload(workload, change) for workload, change in changes.items())

    def of_vectors(self, workloads: Sequence[Workload], vectors: Ints) -> Ints:
        """Of each of X changes: X x I, one column for pods of each of these workloads."""
        total = np.zeros(len(vectors), dtype=np.int64)
        for workload in dict.fromkeys(workloads):
            columns = [i for i, other in enumerate(workloads) if other == workload]
            change = vectors[:, columns].sum(axis=1)
            lowest, highest = int(change.min(initial=0)), int(change.max(initial=0))
            values = [self.of_workload(workload, n) for n in range(lowest, highest + 1)]
            total += np.array(values, dtype=np.int64)[change - lowest]
        return total

    def to_promise(self, workload: Workload) -> float:
        """How far the edge share is above the promise; below zero if the promise is broken."""
        return self.shares[workload].ratio - self._promises(workload).qos
