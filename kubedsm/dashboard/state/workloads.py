"""What is seen of workloads: of those with pods that something has happened to."""

from collections.abc import Iterable, Iterator

from kubedsm.dashboard.rows import WorkloadRow
from kubedsm.dashboard.state.kept_rows import Difference, KeptRows
from kubedsm.dashboard.state.pods import PodsSeen
from kubedsm.dashboard.state.values import workload_row
from kubedsm.model.measured import Measured
from kubedsm.model.model import Workload
from kubedsm.objective.objective import QosTargets
from kubedsm.observability.reading import Reading

#: seconds after which all are looked at again: a node's tier may be another one, and a promise may
#: depend on what other workloads have
ALL = 5.0


class WorkloadsSeen:
    """The one owner of the rows of workloads."""

    def __init__(self) -> None:
        self.kept: KeptRows[WorkloadRow] = KeptRows()
        #: what all of them depend on, as of the last look at all, and when that was
        self._measured: Measured | None = None
        self._generation = 0
        self._at = 0.0

    def look(
        self, reading: Reading, pods: PodsSeen, *, knows_targets: bool
    ) -> dict[str, Difference[WorkloadRow]]:
        """Return what is different now. knows_targets: whether the configuration is in force."""
        snapshot = reading.snapshot
        touched = pods.workloads
        everything = (
            snapshot.measured is not self._measured
            or reading.generation != self._generation
            or reading.now - self._at >= ALL
        )
        if everything:
            self._measured, self._generation = snapshot.measured, reading.generation
            self._at = reading.now
        if not everything and not touched:
            return {}
        promises = reading.policy.qos_targets_in(snapshot) if knows_targets else None
        if not everything:
            return self.kept.take(dict(self._rows(sorted(touched), reading, pods, promises)))
        shares = snapshot.shares()
        return self.kept.replace(
            {key: row for key, row in self._rows(shares, reading, pods, promises) if row}
        )

    def _rows(
        self,
        workloads: Iterable[Workload],
        reading: Reading,
        pods: PodsSeen,
        promises: QosTargets | None,
    ) -> Iterator[tuple[str, WorkloadRow | None]]:
        snapshot = reading.snapshot
        shares, measured = snapshot.shares(), snapshot.measured
        for workload in workloads:
            key, share = str(workload), shares.get(workload)
            if share is None:
                yield key, None
                continue
            yield (
                key,
                workload_row(
                    workload,
                    share,
                    promises(workload) if promises else None,
                    measured.answers.get(workload, {}),
                    ready=pods.ready[key],
                    waiting=pods.waiting[key],
                    edge_slower=workload in measured.slower,
                ),
            )
