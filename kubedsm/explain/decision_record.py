"""The last decisions, for when it is asked why a pod is where it is.

An entry is a few words a pod. What a decision was made on is kept too, of fewer of them: snapshots
are values, so that an explanation can be worked out when it is asked for, and costs nothing
before.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from kubedsm.explain.effects import Effect
from kubedsm.explain.entries import Entry, Kind, MoveOutcome, PodChoice
from kubedsm.model.model import NodeName, Share, Uid, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.suggestion import Move, Suggestion
from kubedsm.optimizer.placing.cloud import LookedAt
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.process.clock import Clock

#: so many entries, and of the last of them so many with the snapshot they were decided on
ENTRIES = 512
SNAPSHOTS = 32
#: nodes and pods in all those snapshots together: fewer are kept of a large cluster
SNAPSHOT_OBJECTS = 400_000


@attrs.frozen(slots=True)
class Basis:
    """What an entry was decided on."""

    snapshot: Snapshot
    shares_before: Mapping[Workload, Share]
    shares_after: Mapping[Workload, Share]
    #: see `Decision`
    plain: bool = False
    looked_at: LookedAt | None = None


class Chosen(NamedTuple):
    """What was chosen for a pod, or for the one whose place it took."""

    entry: Entry
    #: the pod of the entry's snapshot that was decided about
    uid: Uid
    node: NodeName | None
    #: why not, if it is none
    message: str = ""
    #: the move that the pod was made for
    move: Move | None = None


@attrs.define
class DecisionRecord:
    """The one owner of the last decisions."""

    _clock: Clock
    _next: int = attrs.field(default=1, init=False)
    _entries: OrderedDict[int, Entry] = attrs.field(factory=OrderedDict, init=False)
    _bases: OrderedDict[int, Basis] = attrs.field(factory=OrderedDict, init=False)
    #: where a pod was last placed, or why not: entries by its uid, or by that of its move
    _placed_by: dict[str, int] = attrs.field(factory=dict, init=False)
    _packing: Mapping[Uid, str] = attrs.field(factory=dict, init=False)

    def batch(self, snapshot: Snapshot, decision: Decision, messages: Mapping[Uid, str]) -> None:
        """Note a batch; `messages` say of its pods that fit nowhere why not.

        One that placed nothing takes the place of the earlier one about the same pods.
        """
        choices = [
            PodChoice(pod.uid, str(pod), node, tier) for pod, node, tier in decision.bindings
        ]
        choices += [
            PodChoice(uid, str(snapshot.pods[uid]), None, None, message)
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
            decision.score_before / NANO,
            decision.score_after / NANO,
            decision.proven,
            decision.certificates,
            pods=tuple(choices),
            looked_at=decision.looked_at,
        )
        before, after = decision.shares_before, decision.shares_after
        self._add(entry, Basis(snapshot, before, after, decision.plain, decision.looked_at))

    def suggestion(
        self, snapshot: Snapshot, suggestion: Suggestion, moves: Sequence[MoveOutcome]
    ) -> None:
        """Note a suggestion; one that only proposes the same again as the last one replaces it."""
        last = next((e for e in self.newest_first() if e.kind is Kind.SUGGESTION), None)
        if last is not None and last.moves == tuple(moves):
            self._drop(last.number)
        before, after = suggestion.before, suggestion.after
        entry = Entry(
            self._next,
            self._clock.wall(),
            Kind.SUGGESTION,
            before.qos / NANO,
            after.qos / NANO,
            suggestion.proven,
            suggestion.certificates,
            moves=tuple(moves),
        )
        self._add(entry, Basis(snapshot, before.shares, after.shares))

    def move_ended(self, ended: MoveOutcome) -> None:
        """Note how a move ended, of the pod that was decided on."""
        entry = self._changed(ended.id, lambda known: attrs.evolve(ended, move=known.move))
        if entry is not None and ended.replacement is not None:
            self._placed_by[ended.replacement.uid] = entry.number

    def move_helped(self, move: str, effect: Effect) -> None:
        """Note what is known now of what it brought."""
        self._changed(move, lambda known: attrs.evolve(known, effect=effect))

    def _changed(self, move: str, now: Callable[[MoveOutcome], MoveOutcome]) -> Entry | None:
        """What was noted of the move is another now; its entry, if that is still kept."""
        entry = self._entries.get(self._placed_by.get(move, 0))
        if entry is not None:
            moves = tuple(now(known) if known.id == move else known for known in entry.moves)
            self._entries[entry.number] = attrs.evolve(entry, moves=moves)
        return entry

    def packing_found(self, told: Mapping[Uid, str]) -> None:
        """Note what packing found for each pod that every node refuses."""
        self._packing = told

    def packing_came_to(self, uid: Uid, told: str) -> None:
        """Note what became of what packing found for the pod."""
        self._packing = {**self._packing, uid: told}

    def packing_for(self, uid: Uid) -> str:
        """What packing found last for the pod; empty if it was not about it."""
        return self._packing.get(uid, "")

    def moves_of(self, plan_ids: Container[str]) -> list[MoveOutcome]:
        """How the moves of these plans stand."""
        moves = (move for entry in self._entries.values() for move in entry.moves)
        return [move for move in moves if move.id.partition("/")[0] in plan_ids]

    def newest_first(self) -> Iterator[Entry]:
        return iter(reversed(self._entries.values()))

    def entry(self, number: int) -> Entry | None:
        """The one of that number, if it is still kept."""
        return self._entries.get(number)

    def basis(self, entry: Entry) -> Basis | None:
        """What the entry was decided on, if that is still kept."""
        return self._bases.get(entry.number)

    def chosen(self, uid: Uid, move: str | None = None) -> Chosen | None:
        """What was last chosen for the pod; `move` is the one under way that it was made for."""
        entry = self._entries.get(self._placed_by.get(uid if move is None else move, 0))
        if entry is None:
            return None
        for choice in entry.pods:
            if choice.uid == uid:
                return Chosen(entry, uid, choice.node, choice.message)
        for made_for in entry.moves:
            replacement = made_for.replacement
            if (replacement and uid == replacement.uid) or (move and made_for.id == move):
                decided = made_for.move
                return Chosen(entry, decided.pod.uid, decided.target, move=decided)
        return None

    def moves(self) -> dict[str, list[tuple[float, MoveOutcome]]]:
        """The moves of each pod, by uid, and the one that it was made for; oldest first.

        With their times, in seconds since the epoch.
        """
        moves: dict[str, list[tuple[float, MoveOutcome]]] = defaultdict(list)
        for entry in self._entries.values():
            for move in entry.moves:
                for uid in dict.fromkeys(pod.uid for pod in move.pods):
                    moves[uid].append((entry.at, move))
        return moves

    def _same_in_vain(self, choices: Sequence[PodChoice]) -> int | None:
        entry = self._entries.get(self._placed_by.get(choices[0].uid, 0))
        if entry is None or any(choice.node is not None for choice in entry.pods):
            return None
        same = {choice.uid for choice in choices} == {choice.uid for choice in entry.pods}
        return entry.number if same else None

    def _add(self, entry: Entry, basis: Basis) -> None:
        self._next += 1
        self._entries[entry.number] = entry
        for key in _keys(entry):
            self._placed_by[key] = entry.number
        if len(self._entries) > ENTRIES:
            self._drop(next(iter(self._entries)))
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
        self._bases.pop(entry.number, None)
        for key in _keys(entry):
            if self._placed_by.get(key) == entry.number:
                del self._placed_by[key]


def _keys(entry: Entry) -> Iterator[str]:
    """Under what an entry is found: the pods that it places, and its moves."""
    for choice in entry.pods:
        yield choice.uid
    for move in entry.moves:
        if move.id:
            yield move.id
        if move.replacement:
            yield move.replacement.uid
