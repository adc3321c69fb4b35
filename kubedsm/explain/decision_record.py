"""Bounded record of recent placement and migration decisions; the newest with input snapshot.

Snapshots are immutable values, so an explanation is worked out on request and costs nothing before.
"""

import enum
import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from kubedsm.config.settings import Configuration
from kubedsm.explain.effects import Around, Effect
from kubedsm.explain.facts import DecisionFacts, PodChoice, ResilienceFacts
from kubedsm.explain.listener import Listener
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.explain.migration_progress import Progress
from kubedsm.model.model import NodeName, Pod, Share, Uid, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import NANO
from kubedsm.objective.site_shares import SiteLoss
from kubedsm.optimizer.moving.suggestion import Move, Suggestion
from kubedsm.optimizer.placing.cloud import SampledNodes
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.process.clock import Clock, rfc3339
from plans.steps import Plan, Step

#: decisions remembered, and how many of the newest keep their snapshot
ENTRIES = 512
SNAPSHOTS = 32
#: nodes and pods in all kept snapshots together: fewer are kept of a large cluster
SNAPSHOT_OBJECTS = 400_000


class Kind(enum.StrEnum):
    BATCH = "batch"
    SUGGESTION = "suggestion"


@attrs.frozen(slots=True)
class Entry:
    """Recorded decision: placement of a batch of new pods, or suggested migrations."""

    number: int
    #: seconds since the epoch
    at: float
    kind: Kind
    #: in effect at the decision
    configuration: Configuration
    #: QoS score of the workloads of a batch, or of all opted-in workloads
    qos_before: float
    qos_after: float
    proven: bool
    #: of goals that are not proven optimal
    certificates: tuple[Certificate, ...] = ()
    #: of workloads with resilience
    worst_losses: tuple[SiteLoss, ...] = ()
    pods: tuple[PodChoice, ...] = ()
    moves: tuple[MoveOutcome, ...] = ()
    #: cloud nodes sampled for a batch; None for the whole cloud
    looked_at: SampledNodes | None = None
    #: the time limit passed before the work limit
    out_of_time: bool = False

    def facts(self) -> DecisionFacts:
        return DecisionFacts(
            number=self.number,
            at=rfc3339(self.at),
            kind=self.kind.value,
            pods=self.pods,
            moves=tuple(move.facts(self.at) for move in self.moves),
            qos=Around(self.qos_before, self.qos_after),
            proven=self.proven,
            certificates=tuple(each.as_json() for each in self.certificates),
            cloud_nodes=None if self.looked_at is None else self.looked_at.as_json(),
            out_of_time=self.out_of_time,
            resilience=tuple(map(ResilienceFacts.of, self.worst_losses)),
        )

    def concerns(self, name: str) -> bool:
        """Return True if the decision is about the pod with the name, or namespace/name."""
        return any(is_named(pod, name) for _, pod in self.about())

    def about(self) -> Iterator[tuple[Uid, str]]:
        """Yield uid and name of each pod that the decision places or migrates, and of replacement
        pods.
        """
        for choice in self.pods:
            yield choice.uid, choice.pod
        yield from ((pod.uid, str(pod)) for move in self.moves for pod in move.pods)


def is_named(pod: str, name: str) -> bool:
    """Return True if the pod has the given name, or namespace/name."""
    return name in (pod, pod.partition("/")[2])


@attrs.frozen(slots=True)
class Basis:
    """Input snapshot of a placement or migration decision, and edge shares before and after the
    decision.
    """

    snapshot: Snapshot
    shares_before: Mapping[Workload, Share]
    shares_after: Mapping[Workload, Share]
    #: as in `Decision`
    plain: bool = False


class Chosen(NamedTuple):
    """Node that a decision chose for a pod, or for the migrated pod that the pod replaces."""

    entry: Entry
    #: pod of the decision's snapshot
    uid: Uid
    node: NodeName | None
    #: reason if no node was chosen
    message: str = ""
    #: migration that the pod was created for
    move: Move | None = None


@attrs.define
class DecisionRecord(Listener):
    """Bounded record of recent decisions, and of the progress of their migrations."""

    _clock: Clock
    #: number of changes, by which readers see that there is something new
    changes: int = attrs.field(default=0, init=False)
    _next: int = attrs.field(default=1, init=False)
    _entries: OrderedDict[int, Entry] = attrs.field(factory=OrderedDict, init=False)
    #: decisions of each kind, oldest first
    _numbers: Mapping[Kind, OrderedDict[int, None]] = attrs.field(
        factory=lambda: {kind: OrderedDict() for kind in Kind}, init=False
    )
    _bases: OrderedDict[int, Basis] = attrs.field(factory=OrderedDict, init=False)
    #: number of the last decision by pod uid and by migration id
    _placed_by: dict[str, int] = attrs.field(factory=dict, init=False)
    _packing: Mapping[Uid, str] = attrs.field(factory=dict, init=False)
    #: why new pods wait for capacity, and until when
    _waits: dict[Uid, tuple[str, float]] = attrs.field(factory=dict, init=False)
    _progress: dict[str, Progress] = attrs.field(factory=dict, init=False)

    def skip_numbers(self, known: Iterable[int]) -> None:
        """Number the next decisions above the decisions of earlier processes."""
        self._next = max(self._next, *(1 + number for number in known), 1)

    def batch(
        self,
        snapshot: Snapshot,
        decision: Decision,
        messages: Mapping[Uid, str],
        configuration: Configuration,
    ) -> None:
        """Record the placement decision for a batch; `messages`: why pods are unschedulable.

        A batch that placed no pod replaces an earlier one about the same pods.
        """
        choices = [
            PodChoice(str(pod), node, tier, uid=pod.uid) for pod, node, tier in decision.bindings
        ]
        choices += [
            PodChoice(str(snapshot.pods[uid]), None, None, message, uid)
            for uid, message in messages.items()
            if uid in snapshot.pods
        ]
        if not choices:
            return
        if not decision.bindings:
            self._drop(self._same_in_vain(choices))
        entry = Entry(
            self._next,
            self._clock.wall(),
            Kind.BATCH,
            configuration,
            decision.score_before / NANO,
            decision.score_after / NANO,
            decision.proof.whole,
            decision.certificates,
            decision.worst_losses,
            pods=tuple(choices),
            looked_at=decision.looked_at,
            out_of_time=decision.out_of_time,
        )
        before, after = decision.shares_before, decision.shares_after
        self._add(entry, Basis(snapshot, before, after, decision.plain))

    def suggestion(
        self,
        snapshot: Snapshot,
        suggestion: Suggestion,
        moves: Sequence[MoveOutcome],
        configuration: Configuration,
    ) -> None:
        """Record suggested migrations; replaces a previous suggestion of the same migrations."""
        last = next((e for e in self.newest_first() if e.kind is Kind.SUGGESTION), None)
        if last is not None and last.moves == tuple(moves):
            self._drop(last.number)
        before, after = suggestion.before, suggestion.after
        entry = Entry(
            self._next,
            self._clock.wall(),
            Kind.SUGGESTION,
            configuration,
            before.qos / NANO,
            after.qos / NANO,
            suggestion.proven,
            suggestion.certificates,
            suggestion.worst_losses,
            moves=tuple(moves),
            out_of_time=suggestion.out_of_time,
        )
        self._add(entry, Basis(snapshot, before.shares, after.shares))
        self._progress = {
            migration: each
            for migration, each in self._progress.items()
            if migration in self._placed_by or each.in_progress
        }

    def move_ended(self, ended: MoveOutcome) -> None:
        """Record a migration's outcome, under the originally decided pod."""
        if ended.id in self._progress:
            self._progress[ended.id].ended = self._clock.wall()
        entry = self._update(ended.id, lambda known: attrs.evolve(ended, move=known.move))
        if entry is not None and ended.replacement is not None:
            self._placed_by[ended.replacement.uid] = entry.number

    def plan_advanced(self, plan: Plan, steps: Sequence[Step]) -> None:
        """Record the progress of migrations that this process decided."""
        if not any(step.move for step in steps) or plan.restores_only:
            return
        self.changes += 1
        now = self._clock.wall()
        by_migration = defaultdict[str, list[Step]](list)
        for step in plan.steps:
            by_migration[step.move].append(step)
        for migration, own in by_migration.items():
            self._progress.setdefault(migration, Progress()).steps = own
        for step in steps:
            self._progress[step.move].observe(step, now)

    def progress_of(self, migration: str, pods: Mapping[Uid, Pod]) -> Progress:
        """Return the progress by step of a migration; `pods`: existing pods, for their names."""
        progress = self._progress.get(migration, Progress())
        progress.name_pods(migration, pods)
        return progress

    def state_of(self, outcome: MoveOutcome) -> str:
        """Return a migration's state as a word: the outcome, or "moving" while in progress."""
        begun = outcome.id in self._progress and self._progress[outcome.id].began
        return "moving" if begun and outcome.outcome is Outcome.PLANNED else outcome.outcome.value

    def move_helped(self, move: str, effect: Effect) -> None:
        """Record the measured effect of a migration on response times, as far as known."""
        self._update(move, lambda known: attrs.evolve(known, effect=effect))

    def _update(self, move: str, now: Callable[[MoveOutcome], MoveOutcome]) -> Entry | None:
        """Replace the recorded outcome of a migration; return the decision if still recorded."""
        self.changes += 1
        entry = self._entries.get(self._placed_by.get(move, 0))
        if entry is not None:
            moves = tuple(now(known) if known.id == move else known for known in entry.moves)
            self._entries[entry.number] = attrs.evolve(entry, moves=moves)
        return entry

    def packing_found(self, told: Mapping[Uid, str]) -> None:
        """Record the last result of capacity packing for each unschedulable pod, for explanations
        of the pod.
        """
        self._packing = told

    def packing_came_to(self, uid: Uid, told: str) -> None:
        """Record the outcome of capacity packing for the pod as a sentence."""
        self._packing = {**self._packing, uid: told}

    def packing_for(self, uid: Uid) -> str | None:
        """Return the last result of capacity packing for the pod; None if none is recorded."""
        return self._packing.get(uid)

    def note_wait(self, uid: Uid, why: str, until: float) -> None:
        """Record why a new pod waits for capacity at the edge, and the latest end in seconds since
        the epoch.
        """
        now = self._clock.wall()
        self._waits = {of: each for of, each in self._waits.items() if each[1] > now}
        self._waits[uid] = why, until

    def reason_to_wait(self, uid: Uid) -> str:
        """Return what a new pod waits for, and how much longer at most; empty without a wait."""
        why, until = self._waits.get(uid, ("", 0.0))
        left = math.ceil(until - self._clock.wall())
        return f"waits for {why}, for at most {left} s" if left > 0 else ""

    def end_wait(self, uid: Uid) -> None:
        """Forget why a new pod waited."""
        self._waits.pop(uid, None)

    def moves_of(self, plan_ids: Container[str]) -> list[MoveOutcome]:
        """Return the recorded migrations with the given plan ids."""
        moves = (move for entry in self._entries.values() for move in entry.moves)
        return [move for move in moves if move.id.partition("/")[0] in plan_ids]

    def newest_first(self) -> Iterator[Entry]:
        return iter(reversed(self._entries.values()))

    def entry(self, number: int) -> Entry | None:
        """Return the recorded decision with the number; None if no longer in the record."""
        return self._entries.get(number)

    def basis(self, entry: Entry) -> Basis | None:
        """Return the input snapshot and edge shares of a decision; None if no longer recorded."""
        return self._bases.get(entry.number)

    def find_choice(self, uid: Uid, move: str | None = None) -> Chosen | None:
        """Return the node last chosen for the pod; `move`: id of the migration creating the pod."""
        entry = self._entries.get(self._placed_by.get(uid if move is None else move, 0))
        if entry is None:
            return None
        for choice in entry.pods:
            if choice.uid == uid:
                return Chosen(entry, uid, choice.node, choice.message or "")
        for made_for in entry.moves:
            replacement = made_for.replacement
            if (replacement and uid == replacement.uid) or (move and made_for.id == move):
                decided = made_for.move
                return Chosen(entry, decided.pod.uid, decided.target, move=decided)
        return None

    def moves(self) -> dict[str, list[tuple[float, MoveOutcome]]]:
        """Return each pod's migrations with decision times, by pod uid, oldest first.

        The migration that created a pod is among its migrations.
        """
        moves: dict[str, list[tuple[float, MoveOutcome]]] = defaultdict(list)
        for entry in self._entries.values():
            for move in entry.moves:
                for uid in dict.fromkeys(pod.uid for pod in move.pods):
                    moves[uid].append((entry.at, move))
        return moves

    def migration(self, key: str) -> tuple[Entry, MoveOutcome] | None:
        """Return a migration and its decision by the migration's key; None if no longer in the
        record.
        """
        for entry in self.newest_first():
            for outcome in entry.moves:
                if outcome.key == key:
                    return entry, outcome
        return None

    def _same_in_vain(self, choices: Sequence[PodChoice]) -> int | None:
        entry = self._entries.get(self._placed_by.get(choices[0].uid, 0))
        if entry is None or any(choice.node is not None for choice in entry.pods):
            return None
        same = {choice.uid for choice in choices} == {choice.uid for choice in entry.pods}
        return entry.number if same else None

    def _add(self, entry: Entry, basis: Basis) -> None:
        self._next += 1
        self.changes += 1
        self._entries[entry.number] = entry
        for key in _keys(entry):
            self._placed_by[key] = entry.number
        alike = self._numbers[entry.kind]
        alike[entry.number] = None
        if len(alike) > ENTRIES:
            self._drop(next(iter(alike)))
        self._bases[entry.number] = basis
        while len(self._bases) > 1 and (len(self._bases) > SNAPSHOTS or self._too_large()):
            self._bases.popitem(last=False)

    def _too_large(self) -> bool:
        sizes = (len(b.snapshot.nodes) + len(b.snapshot.pods) for b in self._bases.values())
        return sum(sizes) > SNAPSHOT_OBJECTS

    def _drop(self, number: int | None) -> None:
        entry = self._entries.pop(number, None) if number is not None else None
        if entry is None:
            return
        del self._numbers[entry.kind][entry.number]
        self._bases.pop(entry.number, None)
        for key in _keys(entry):
            if self._placed_by.get(key) == entry.number:
                del self._placed_by[key]


def _keys(entry: Entry) -> Iterator[str]:
    """Yield the lookup keys of a decision: uids of placed pods, and ids of migrations."""
    for choice in entry.pods:
        yield choice.uid
    for move in entry.moves:
        if move.id:
            yield move.id
        if move.replacement:
            yield move.replacement.uid
