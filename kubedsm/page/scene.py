"""The rows as they are: what has changed since the last look is worked out anew, and only that.

It hears of each change of the mirror, and looks when somebody asks: so thousands of changes a
second cost no more than what is different in the end.
"""

from collections.abc import Iterator, Mapping

from kubedsm.clock import Clock
from kubedsm.core.world.change import Change
from kubedsm.core.world.measured import Usage
from kubedsm.core.world.model import Pod, Uid
from kubedsm.monitoring.reading import Leadership, Reading, read
from kubedsm.page.messages import Changes, Snapshot
from kubedsm.page.moves_seen import moves_seen
from kubedsm.page.rows import Row, Table
from kubedsm.page.seen import node_row, pod_row, workload_rows
from kubedsm.page.status_seen import status_row
from kubedsm.runtime.assembly import Runtime
from kubedsm.runtime.listener import Listener, Result

_NOTHING_KNOWN = Usage()


class Scene(Listener):
    """The one owner of the rows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._version = 0
        self._at = 0.0
        self._tables: dict[Table, dict[str, Row]] = {
            "nodes": {}, "pods": {}, "workloads": {}, "moves": {}, "news": {}, "status": {},
        }  # fmt: skip
        #: pods that may be different by now
        self._touched: set[Uid] = set()
        self._uids: dict[str, Uid] = {}
        self._names: dict[Uid, str] = {}

    def changed(self, change: Change) -> None:
        for pod in (change.pod_before, change.pod_after):
            if pod is not None:
                self._touched.add(pod.uid)

    def attempt_ended(self, pod: Pod, result: Result) -> None:  # noqa: ARG002 - the listener's
        self._touched.add(pod.uid)

    def look(self, runtime: Runtime, leadership: Leadership, now: float) -> Changes | None:
        """Bring all rows up to date; what that changed, if anything."""
        reading = read(runtime, leadership, now)
        if not self._version:
            self._touched.update(reading.snapshot.pods)
        changed: dict[Table, dict[str, Row | None]] = {
            "pods": self._pods(runtime, reading),
        }
        changed["nodes"] = self._replaced("nodes", dict(_nodes(runtime, reading)))
        changed["workloads"] = self._replaced(
            "workloads", dict(workload_rows(reading.snapshot, reading.policy))
        )
        changed["moves"] = self._replaced("moves", dict(moves_seen(runtime)))
        changed["status"] = self._replaced(
            "status", {"now": status_row(runtime, reading, self._tables["moves"])}
        )
        rows = {table: some for table, some in changed.items() if some}
        if not rows:
            return None
        self._version += 1
        self._at = now
        return Changes(self._version, now, rows)

    def snapshot(self) -> Snapshot:
        """All rows, as of the last look."""
        rows = {table: dict(some) for table, some in self._tables.items()}
        return Snapshot(self._version, self._at, rows)

    def _pods(self, runtime: Runtime, reading: Reading) -> dict[str, Row | None]:
        """The rows of pods that were touched, as far as they are different."""
        snapshot, record, mirror = reading.snapshot, runtime.decisions.record, runtime.mirror
        touched, self._touched = self._touched, set()
        rows: dict[str, Row | None] = {}
        for uid in touched:
            pod = snapshot.pods.get(uid)
            if pod is None or pod.finished:
                name = self._names.pop(uid, None)
                # Of a StatefulSet the next pod may have the name by now.
                if name is not None and self._uids.get(name) == uid:
                    del self._uids[name]
                    rows[name] = None
                continue
            name = self._names[uid] = str(pod)
            self._uids[name] = uid
            move = mirror.claimant(uid) or ""
            chosen = record.chosen(uid, move or None) if pod.waits_for_node else None
            rows[name] = pod_row(
                pod,
                snapshot.placed.get(uid),
                snapshot.scheduler_name,
                "" if chosen is None else chosen.message,
                move,
            )
        return self._taken("pods", rows)

    def _replaced(self, table: Table, now: Mapping[str, Row]) -> dict[str, Row | None]:
        """Have the table be that; what is different then."""
        gone = dict.fromkeys(self._tables[table].keys() - now.keys())
        return self._taken(table, {**gone, **now})

    def _taken(self, table: Table, rows: Mapping[str, Row | None]) -> dict[str, Row | None]:
        known = self._tables[table]
        different = {key: row for key, row in rows.items() if known.get(key) != row}
        for key, row in different.items():
            if row is None:
                del known[key]
            else:
                known[key] = row
        return different


def _nodes(runtime: Runtime, reading: Reading) -> Iterator[tuple[str, Row]]:
    labels = runtime.configuration.current.site.label
    used = reading.snapshot.measured.nodes
    for name, node in reading.snapshot.nodes.items():
        yield name, node_row(node, used.get(name, _NOTHING_KNOWN), reading.away, labels)
