"""What is seen of pods: of those that something has happened to since the last look."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.rows import PodRow
from kubedsm.dashboard.state.kept_rows import Difference, KeptRows
from kubedsm.dashboard.state.values import Why, pod_row
from kubedsm.model.model import Pod, Uid, Workload
from kubedsm.observability.reading import Reading

_NOTHING_SAID = Why()
_NAMESPACE_GOES = Why("its namespace is being deleted")


class PodsSeen:
    """The one owner of the rows of pods, and of what they add up to."""

    def __init__(self) -> None:
        self.kept: KeptRows[PodRow] = KeptRows()
        self._touched: set[Uid] = set()
        #: which pod each row is of; what each pod is called, and its workload
        self._uids: dict[str, Uid] = {}
        self._known: dict[Uid, tuple[str, Workload]] = {}
        #: why each waits, as it was told last
        self._why: dict[Uid, Why] = {}
        self._moves: Mapping[Uid, str] = {}
        #: by workload, of the pods of ours: how many are Ready, and how many wait for a node
        self.ready: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        #: the latter, by name
        self.unplaced: dict[str, PodRow] = {}
        #: workloads of pods that were looked at last
        self.workloads: set[Workload] = set()

    def touch(self, uids: Iterable[Uid]) -> None:
        """They may be different by now."""
        self._touched.update(uids)

    def waits(self, pod: Pod, why: str, rules: Collection[str]) -> None:
        self._why[pod.uid] = Why(why, rules)
        self._touched.add(pod.uid)

    def look(
        self, runtime: Runtime, reading: Reading, moves: Mapping[Uid, str]
    ) -> dict[str, Difference[PodRow]]:
        """What is different now. `moves`: of pods that are part of one."""
        if moves is not self._moves:
            self.touch(uid for uid, _ in moves.items() ^ self._moves.items())
            self._moves = moves
        touched, self._touched, self.workloads = self._touched, set(), set()
        rows: dict[str, PodRow | None] = {}
        # In an order, so that the same run is always told in the same words.
        for uid in sorted(touched):
            pod = reading.snapshot.pods.get(uid)
            if pod is None or pod.finished:
                rows.update(self._gone(uid))
                continue
            name = str(pod)
            self._known[uid] = name, pod.workload
            self._uids[name] = uid
            self.workloads.add(pod.workload)
            rows[name] = self._row(pod, runtime, reading)
        different = self.kept.take(rows)
        for name, (before, after) in different.items():
            self._count(name, before, -1)
            self._count(name, after, 1)
        return different

    def _gone(self, uid: Uid) -> dict[str, None]:
        self._why.pop(uid, None)
        if uid not in self._known:
            return {}
        name, workload = self._known.pop(uid)
        self.workloads.add(workload)
        # Of a StatefulSet the next pod may have the name by now.
        if self._uids[name] != uid:
            return {}
        del self._uids[name]
        return {name: None}

    def _row(self, pod: Pod, runtime: Runtime, reading: Reading) -> PodRow:
        snapshot, uid = reading.snapshot, pod.uid
        node, why = snapshot.placed.get(uid), _NOTHING_SAID
        if node is not None and pod.node_name is None and runtime.dry_run:
            node, why = None, Why(f"it would be bound to {node}, but this is a dry run")
        elif node is not None:
            self._why.pop(uid, None)
        elif pod.waits_for_node:
            why = self._why.get(uid, _NOTHING_SAID)
            if snapshot.surroundings.namespace_terminating(pod.namespace):
                why = _NAMESPACE_GOES
            room = next(iter(runtime.mirror.sum_nominations([uid])), "")
            why = why._replace(room_on=room)
        return pod_row(pod, node, snapshot.scheduler_name, why, self._moves.get(uid, ""))

    def _count(self, name: str, row: PodRow | None, times: int) -> None:
        if row is None or row.scheduler or row.state not in ("ready", "waiting"):
            return
        counts = self.ready if row.state == "ready" else self.waiting
        counts[row.workload] += times
        if not counts[row.workload]:
            del counts[row.workload]
        if row.state == "waiting" and times > 0:
            self.unplaced[name] = row
        elif row.state == "waiting":
            del self.unplaced[name]
