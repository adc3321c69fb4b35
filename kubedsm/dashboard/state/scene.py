"""The rows as they are: what has changed since the last look is worked out anew, and only that.

It hears of each change of the mirror, and looks when somebody asks: so thousands of changes a
second cost no more than what is different in the end.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.messages import Changes, Snapshot
from kubedsm.dashboard.rows import MoveRow, NewsRow, NodeRow, Row, StatusRow, Table
from kubedsm.dashboard.state.headline import Scenery
from kubedsm.dashboard.state.kept_rows import Difference, KeptRows
from kubedsm.dashboard.state.moves import MovesSeen
from kubedsm.dashboard.state.news import of_move, of_nodes, of_status
from kubedsm.dashboard.state.news_kept import NewsKept
from kubedsm.dashboard.state.nodes import NodesSeen
from kubedsm.dashboard.state.pods import PodsSeen
from kubedsm.dashboard.state.status import status_row
from kubedsm.dashboard.state.work_heard import WorkHeard
from kubedsm.dashboard.state.workloads import WorkloadsSeen
from kubedsm.explain.effects import Effect
from kubedsm.explain.entries import MoveOutcome
from kubedsm.explain.listener import Listener, Result
from kubedsm.kube.calls.writes import Regarding
from kubedsm.model.events import Change
from kubedsm.model.model import Pod, Uid
from kubedsm.observability.reading import Leadership, Reading, read
from kubedsm.optimizer.moving.suggestion import Move, MoveKind
from kubedsm.process.clock import Clock
from plans.steps import Plan, Step

#: what is told of one who decides nothing
_WATCHING = Leadership(leading=False)


class Scene(Listener):
    """The one owner of the rows."""

    def __init__(self, clock: Clock, *, knows_targets: bool = False) -> None:
        """knows_targets: the runtime has the configuration in force, even if it decides nothing."""
        self._knows_targets = knows_targets
        self._version = 0
        #: all was listed by the last look
        self._knows = False
        self._at = 0.0
        self._pods = PodsSeen()
        self._nodes = NodesSeen()
        self._workloads = WorkloadsSeen()
        self._moves = MovesSeen(clock)
        self._work = WorkHeard(clock)
        self._news = NewsKept(clock)
        self._kept_moves: KeptRows[MoveRow] = KeptRows()
        self._kept_status: KeptRows[StatusRow] = KeptRows()
        #: set when something happens that is worth a look before it is over
        self.stirred = asyncio.Event()

    def changed(self, change: Change) -> None:
        self._pods.touch(pod.uid for pod in (change.pod_before, change.pod_after) if pod)
        self._nodes.changed(change)
        self._work.changed(change)

    def batch_decided(self, pods: Sequence[Pod], seconds: float) -> None:  # noqa: ARG002
        self._work.batches += 1
        self._pods.touch(pod.uid for pod in pods)

    def attempt_ended(self, pod: Pod, result: Result) -> None:
        if result == "scheduled":
            self._work.placed(pod)
        self._pods.touch([pod.uid])

    def waits(self, pod: Pod, why: str, rules: Collection[str]) -> None:
        self._pods.waits(pod, why, rules)

    def victims_chosen(self, pod: Pod, victims: Sequence[Pod]) -> None:  # noqa: ARG002
        self._pods.touch([pod.uid])

    def suggested(self, moves: Sequence[Move], mode: str, seconds: float) -> None:  # noqa: ARG002
        self._moves.reconsider()

    def stepped(self, plan: Plan, steps: Sequence[Step]) -> None:
        if self._moves.stepped(plan, steps):
            self._pods.touch(Uid(step.pod) for step in steps)
            self.stirred.set()

    def move_ended(self, ended: MoveOutcome) -> None:
        self._moves.ended(ended)
        self._work.move_ended(ended)
        self.stirred.set()

    def move_judged(self, kind: MoveKind | None, effect: Effect) -> None:  # noqa: ARG002
        self._moves.reconsider()

    def event_written(self, about: Regarding, reason: str, note: str, warning: bool) -> None:
        self._news.event_written(about, reason, note, warning)

    def loop_late(self, seconds: float) -> None:
        """The event loop is so late."""
        self._work.loop_late(seconds)

    def look(self, runtime: Runtime, leadership: Leadership | None, now: float) -> Changes | None:
        """Bring all rows up to date; what that changed, if anything.

        leadership: None of a runtime that only follows the cluster, for nothing is decided there.
        """
        reading = read(runtime, leadership or _WATCHING, now)
        if not self._version:
            self._pods.touch(reading.snapshot.pods)
        self.stirred.clear()
        moves = self._moves.look(runtime, reading)
        moved = {} if moves is None else self._kept_moves.replace(moves)
        pods = self._pods.look(runtime, reading, self._moves.of_pods)
        nodes = self._nodes.look(runtime, reading)
        knows = self._knows_targets or leadership is not None
        workloads = self._workloads.look(reading, self._pods, knows_targets=knows)
        status = self._status(runtime, leadership, reading)
        # What was there before is no news when it is listed.
        states = self._states(nodes, status, now) if self._knows else ()
        self._knows = runtime.synced.is_set()
        happened = (row for key, each in moved.items() for row in of_move(key, *each))
        record, there = runtime.decisions.record, reading.snapshot.pods
        news = self._news.look(record, there, (*states, *happened))
        return self._told(
            {
                "nodes": nodes,
                "pods": pods,
                "workloads": workloads,
                "moves": moved,
                "news": news,
                "status": status,
            },
            now,
        )

    def _status(
        self, runtime: Runtime, leadership: Leadership | None, reading: Reading
    ) -> dict[str, Difference[StatusRow]]:
        there = Scenery(
            self._nodes.kept.rows,
            self._pods.unplaced,
            self._workloads.kept.rows,
            self._kept_moves.rows,
            reading.snapshot.scheduler_name,
        )
        tiers = self._nodes.missing_tiers.values()
        row = status_row(runtime, leadership, reading, there, self._work, dict.fromkeys(tiers))
        return self._kept_status.take({"now": row})

    def _states(
        self,
        nodes: Mapping[str, Difference[NodeRow]],
        status: Mapping[str, Difference[StatusRow]],
        now: float,
    ) -> Iterator[NewsRow]:
        yield from of_nodes(nodes, now)
        for before, after in status.values():
            if before is not None and after is not None:
                yield from of_status(before, after, now)

    def _told(
        self, changed: Mapping[Table, Mapping[str, Difference[Row]]], now: float
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
        return Changes(self._version, now, rows)

    @property
    def status(self) -> StatusRow:
        """As of the last look, which there must have been."""
        return self._kept_status.rows["now"]

    @property
    def moves(self) -> Mapping[str, MoveRow]:
        """As of the last look."""
        return self._kept_moves.rows

    def snapshot(self) -> Snapshot:
        """All rows, as of the last look."""
        rows: dict[Table, dict[str, Row | None]] = {
            "nodes": {**self._nodes.kept.rows},
            "pods": {**self._pods.kept.rows},
            "workloads": {**self._workloads.kept.rows},
            "moves": {**self._kept_moves.rows},
            "news": {**self._news.kept.rows},
            "status": {**self._kept_status.rows},
        }
        return Snapshot(self._version, self._at, rows)
