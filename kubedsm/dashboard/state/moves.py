"""What is seen of moves: those under way with the step that is waited for, and the last ones.

Steps are heard of as they are taken, so that each has its moment, however rarely somebody looks.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.rows import MoveRow, MoveState, Row
from kubedsm.dashboard.state.steps_told import Names, over, under_way
from kubedsm.explain.effects import Effect
from kubedsm.explain.entries import Entry, Kind, MoveOutcome, Outcome
from kubedsm.model.model import Pod, Uid
from kubedsm.observability.reading import Reading
from kubedsm.planner.what_if import describe_purpose
from kubedsm.process.clock import Clock
from kubedsm.rebalancing.migration_effects import NOT_MEASURED
from plans.steps import TERMINAL, Plan, Step, StepKind, StepState

#: moves that are over, of which rows are kept
LAST = 50


@attrs.define
class Course:
    """How a move has gone until now; times are seconds since the epoch."""

    steps: Sequence[Step] = ()
    #: when each step was asked for; those that were done or failed, and when
    asked: dict[int, float] = attrs.field(factory=dict)
    over: list[tuple[float, Step]] = attrs.field(factory=list)
    began: float = 0.0
    ended: float = 0.0
    #: what it is about, once that is known
    pod: str = ""
    replacement: str = ""

    def take(self, step: Step, now: float) -> None:
        """Take note of a step that is to be taken, or over."""
        if step.state is StepState.ASKED:
            self.asked[step.id] = now
        elif step.state in (StepState.DONE, StepState.FAILED):
            self.over.append((now, step))
            if step.kind is StepKind.START and step.state is StepState.DONE:
                self.began = now

    @property
    def current(self) -> Step | None:
        """The step that goes on."""
        going_on = (s for s in self.steps if s.state in (StepState.ASKED, StepState.VERIFYING))
        return next(going_on, None)

    @property
    def goes_on(self) -> bool:
        return any(step.state not in TERMINAL for step in self.steps)

    def name(self, move: str, pods: Mapping[Uid, Pod]) -> None:
        """Remember what the pods are called that the move's steps are about."""
        for step in self.steps:
            pod = pods.get(Uid(step.pod))
            if pod is not None and step.replacement_of == move:
                self.replacement = str(pod)
            elif pod is not None:
                self.pod = str(pod)


def move_row(entry: Entry, outcome: MoveOutcome, course: Course, purpose: str) -> MoveRow:
    """`purpose`: what it is made for, in words."""
    move = outcome.move
    replacement = str(outcome.replacement) if outcome.replacement else course.replacement
    names = Names(course.pod or str(move.pod), replacement or "the new pod", move.target)
    current = course.current
    steps = [step for step in course.steps if step.kind is not StepKind.RESTORE]
    return MoveRow(
        pod=names.pod,
        workload=str(move.pod.workload),
        source=move.source or "",
        target=move.target,
        kind=move.kind.value if move.kind else "",
        purpose=purpose,
        state=_state(outcome, course),
        at=entry.at,
        began=course.began,
        ended=course.ended,
        decision=entry.number,
        gain=round(move.gain, 6),
        step="" if current is None else under_way(current, names),
        since=0.0 if current is None else course.asked.get(current.id, 0.0),
        done=sum(step.state in TERMINAL for step in steps),
        steps=len(steps),
        story=tuple((at, over(step, names)) for at, step in course.over),
        reason=outcome.reason,
        replacement=replacement,
        helped=_helped(outcome.effect),
    )


def _helped(effect: Effect | None) -> str:
    """Nothing where nothing is measured: what was expected then is of no use."""
    if effect is None or effect.untold == NOT_MEASURED:
        return ""
    return str(effect)


def _state(outcome: MoveOutcome, course: Course) -> MoveState:
    if course.began and outcome.outcome is Outcome.PLANNED:
        return "moving"
    return outcome.outcome.value


class MovesSeen:
    """The one owner of how moves have gone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._courses: defaultdict[str, Course] = defaultdict(Course)
        #: of each decision, what its moves are made for, by their pods
        self._purposes: dict[int, dict[Uid, str]] = {}
        #: as they were told last, and what of
        self._rows: dict[str, tuple[MoveOutcome, MoveRow]] = {}
        #: those that went on since; whether anything else may be different; the newest decision
        self._went_on: set[str] = set()
        self._stale = True
        self._newest = 0
        #: the move, planned or under way, that a pod is part of
        self.of_pods: dict[Uid, str] = {}

    def stepped(self, plan: Plan, steps: Sequence[Step]) -> bool:
        """Take note of steps, if they are of moves that were decided on here."""
        if plan.restores_only or not any(step.move for step in steps):
            return False
        now = self._clock.wall()
        by_move = defaultdict[str, list[Step]](list)
        for step in plan.steps:
            by_move[step.move].append(step)
        for move, its in by_move.items():
            self._courses[move].steps = its
        for step in steps:
            self._courses[step.move].take(step, now)
        self._went_on.update(by_move)
        return True

    def ended(self, move: MoveOutcome) -> None:
        self._courses[move.id].ended = self._clock.wall()
        self._went_on.add(move.id)

    def reconsider(self) -> None:
        """What is proposed may be another matter, or what was brought is told."""
        self._stale = True

    def look(self, runtime: Runtime, reading: Reading) -> Mapping[str, MoveRow] | None:
        """Those of the last decisions; None if all of it is as it was."""
        newest = next(runtime.decisions.record.newest_first(), None)
        number = newest.number if newest else 0
        if not (self._stale or self._went_on or number != self._newest):
            return None
        shown = list(_shown(runtime))
        rows = {key: self._row(key, entry, move, runtime, reading) for key, entry, move in shown}
        self._rows = {key: (move, rows[key]) for key, _, move in shown}
        self._purposes = {e.number: self._purposes[e.number] for _, e, _ in shown}
        gone = [k for k, course in self._courses.items() if k not in rows and not course.goes_on]
        for key in gone:
            del self._courses[key]
        self.of_pods = {
            Uid(step.pod): key
            for key, row in rows.items()
            if row.state in ("planned", "moving")
            for step in self._courses[key].steps
            if step.pod
        }
        self._went_on.clear()
        self._stale, self._newest = False, number
        return rows

    def _row(
        self, key: str, entry: Entry, outcome: MoveOutcome, runtime: Runtime, reading: Reading
    ) -> MoveRow:
        of, known = self._rows.get(key, (None, None))
        purpose = self._purpose(entry, outcome, runtime, reading)
        if known is not None and of is outcome and key not in self._went_on:
            return known
        course = self._courses[key]
        course.name(key, reading.snapshot.pods)
        return move_row(entry, outcome, course, purpose)

    def _purpose(
        self, entry: Entry, outcome: MoveOutcome, runtime: Runtime, reading: Reading
    ) -> str:
        if entry.number not in self._purposes:
            self._purposes[entry.number] = _purposes(entry, runtime, reading)
        return self._purposes[entry.number].get(outcome.move.pod.uid, outcome.move.purpose)


def key_of(move: MoveOutcome) -> str:
    """Of its row."""
    return move.id or f"proposed/{move.move.pod}"


def state_of(move: MoveOutcome, seen: Mapping[str, Row | None]) -> str:
    """How it stands, by its row if there is one: only there it is seen that it has begun."""
    row = seen.get(key_of(move))
    return row.state if isinstance(row, MoveRow) else move.outcome.value


def _shown(runtime: Runtime) -> Iterator[tuple[str, Entry, MoveOutcome]]:
    """The moves to be told of, newest first: what was proposed only as long as it stands."""
    past, latest = 0, True
    stands = runtime.migrator is not None and runtime.migrator.proposed is not None
    for entry in runtime.decisions.record.newest_first():
        if entry.kind is not Kind.SUGGESTION:
            continue
        for move in entry.moves:
            if move.outcome is Outcome.PROPOSED:
                if latest and (stands or move.move.room_for):
                    yield key_of(move), entry, move
                continue
            past += move.outcome is not Outcome.PLANNED
            if move.outcome is Outcome.PLANNED or past <= LAST:
                yield key_of(move), entry, move
        latest = False


def _purposes(entry: Entry, runtime: Runtime, reading: Reading) -> dict[Uid, str]:
    basis = runtime.decisions.record.basis(entry)
    if basis is None:
        return {}
    moves = [outcome.move for outcome in entry.moves]
    promises = reading.policy.qos_targets_in(basis.snapshot)
    return {
        move.pod.uid: describe_purpose(move, moves, basis.shares_before, promises) for move in moves
    }
