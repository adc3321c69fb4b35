"""All rows of the dashboard, and the rows changed since they were last computed.

The scene observes each change of the mirror, and recomputes rows at evaluation. Thousands of
changes per second thus cost no more than the finally differing rows.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

import msgspec

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.rows import (
    Changes,
    MoveRow,
    NewsRow,
    NodeRow,
    Row,
    Rows,
    Snapshot,
    StatusRow,
)
from kubedsm.dashboard.state.headline import Scenery
from kubedsm.dashboard.state.migrations import MigrationTable
from kubedsm.dashboard.state.news import (
    NewsTable,
    news_of_migration,
    news_of_nodes,
    news_of_status,
)
from kubedsm.dashboard.state.status import WorkCounters, status_row
from kubedsm.dashboard.state.tables import (
    Difference,
    NodeTable,
    PodTable,
    RowTable,
    WorkloadTable,
)
from kubedsm.explain.listener import Listener, Result
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.kube.calls.writes import Regarding
from kubedsm.model.events import Change
from kubedsm.model.model import Pod, Uid
from kubedsm.observability.reading import Leadership, Reading, read
from kubedsm.process.clock import Clock
from plans.steps import Plan, Step

#: leadership of a process without decisions
_WATCHING = Leadership(leading=False)


class Scene(Listener):
    """Owner of the dashboard's tables: collects scheduler callbacks, recomputes changed rows."""

    def __init__(self, clock: Clock) -> None:
        #: name of the cluster for viewers; empty while unknown
        self.cluster = ""
        self._version = 0
        #: everything was listed at the last look
        self._is_synced = False
        self._at = 0.0
        self._pods = PodTable()
        self._nodes = NodeTable()
        self._workloads = WorkloadTable()
        self._moves = MigrationTable()
        self._news = NewsTable(clock)
        self._status_table: RowTable[StatusRow] = RowTable()
        self._work = WorkCounters(clock)
        #: set for short-lived changes, possibly over before the next evaluation
        self.stirred = asyncio.Event()

    def mirror_changed(self, change: Change) -> None:
        self._pods.touch(pod.uid for pod in (change.pod_before, change.pod_after) if pod)
        self._nodes.observe_change(change)
        self._work.observe_change(change)

    def batch_decided(self, pods: Sequence[Pod], seconds: float) -> None:  # noqa: ARG002
        self._work.batches += 1
        self._pods.touch(pod.uid for pod in pods)

    def attempt_ended(self, pod: Pod, result: Result) -> None:
        if result == "scheduled":
            self._work.count_bind(pod)
        self._pods.touch([pod.uid])

    def pod_waits(self, pod: Pod, why: str, rules: Collection[str]) -> None:
        self._pods.waits(pod, why, rules)

    def victims_chosen(self, pod: Pod, victims: Sequence[Pod]) -> None:  # noqa: ARG002
        self._pods.touch([pod.uid])

    def plan_advanced(self, plan: Plan, steps: Sequence[Step]) -> None:
        if not plan.restores_only and any(step.move for step in steps):
            self._pods.touch(Uid(step.pod) for step in steps)
            self.stirred.set()

    def move_ended(self, ended: MoveOutcome) -> None:
        self._work.moves_done += ended.outcome is Outcome.COMPLETED
        self.stirred.set()

    def event_written(self, about: Regarding, reason: str, note: str, warning: bool) -> None:
        self._news.event_written(about, reason, note, warning)

    def loop_late(self, seconds: float) -> None:
        """Callback: record the lag of the process's event loop, in seconds."""
        self._work.lags.append(seconds)

    def look(self, runtime: Runtime, leadership: Leadership | None, now: float) -> Changes | None:
        """Recompute all rows of the dashboard; return the changed rows, if any.

        leadership: None for a runtime without decisions, which only follows the cluster.
        """
        reading = read(runtime, leadership or _WATCHING, now)
        if not self._version:
            self._pods.touch(reading.snapshot.pods)
        self.stirred.clear()
        moves = self._moves.look(runtime, reading)
        pods = self._pods.look(runtime, reading, self._moves.of_pods)
        nodes = self._nodes.look(runtime, reading)
        knows = leadership is not None
        workloads = self._workloads.look(reading, self._pods, knows_targets=knows)
        status = self._update_status(runtime, leadership, reading)
        # Initially listed nodes are no news.
        states = self._list_state_news(nodes, status, now) if self._is_synced else ()
        self._is_synced = runtime.synced.is_set()
        happened = (row for key, each in moves.items() for row in news_of_migration(key, *each))
        record, existing = runtime.decisions.record, reading.snapshot.pods
        news = self._news.look(record, existing, (*states, *happened))
        changed: Mapping[str, Mapping[str, Difference[Row]]] = {
            "nodes": nodes,
            "pods": pods,
            "workloads": workloads,
            "moves": moves,
            "news": news,
            "status": status,
        }
        return self._advance_version(changed, now)

    def _update_status(
        self, runtime: Runtime, leadership: Leadership | None, reading: Reading
    ) -> dict[str, Difference[StatusRow]]:
        there = Scenery(
            self._nodes.rows,
            self._pods.unplaced,
            self._workloads.rows,
            self._moves.rows,
            reading.snapshot.scheduler_name,
        )
        tiers = dict.fromkeys(self._nodes.missing_tiers.values())
        row = status_row(runtime, leadership, reading, there, self._work, tiers)
        row = msgspec.structs.replace(row, sites=self._workloads.sites, cluster=self.cluster)
        return self._status_table.update({"now": row})

    def _list_state_news(
        self,
        nodes: Mapping[str, Difference[NodeRow]],
        status: Mapping[str, Difference[StatusRow]],
        now: float,
    ) -> Iterator[NewsRow]:
        yield from news_of_nodes(nodes, now)
        for before, after in status.values():
            if before is not None and after is not None:
                yield from news_of_status(before, after, now)

    def _advance_version(
        self, changed: Mapping[str, Mapping[str, Difference[Row]]], now: float
    ) -> Changes | None:
        rows = {
            table: {key: each.after for key, each in some.items()}
            for table, some in changed.items()
            if some
        }
        if not rows:
            return None
        self._version += 1
        self._at = now
        return Changes(self._version, now, cast(Rows, rows))

    @property
    def moves(self) -> Mapping[str, MoveRow]:
        """Dashboard rows of migrations, as last computed."""
        return self._moves.rows

    def snapshot(self) -> Snapshot:
        """Return a message with all rows of the dashboard, as last computed."""
        rows: Rows = {
            "nodes": {**self._nodes.rows},
            "pods": {**self._pods.rows},
            "workloads": {**self._workloads.rows},
            "moves": {**self._moves.rows},
            "news": {**self._news.rows},
            "status": {**self._status_table.rows},
        }
        return Snapshot(self._version, self._at, rows)
