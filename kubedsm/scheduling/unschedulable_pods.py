"""Pods that no node takes, by kind: what may help one may help all that are alike.

What happens is asked about once for each kind, and rule that concerns it, however many pods wait.
Kinds that it may help wake up: their pods may be tried, in serving order and no more at once than
there may be room for; twice as many the next time. One of them that every node still rejects tells
the same of all others: the kind is asleep again, and nothing was lost on them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import attrs

from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Node, Pod, Uid
from kubedsm.plugins.plugin import Hint
from kubedsm.plugins.queueing_hints import (
    EVERY,
    Unschedulable,
    count_helped,
    is_concerned,
    room_for,
    still_unschedulable,
)
from kubedsm.plugins.scene import EquivalenceClass
from kubedsm.scheduling.priority_order import Place, ServingLine

#: how long a kind sleeps at most, in case a helpful change went unnoticed
FLUSH = 60.0
#: how many of its pods are tried then
FLUSHED = 16


@attrs.define(eq=False)
class _Kind:
    why: Unschedulable
    line: ServingLine = attrs.field(factory=ServingLine)
    #: how many of its pods may be tried now; 0 while it is asleep
    awake: int = 0

    @property
    def ready(self) -> int:
        return min(self.awake, len(self.line))


class UnschedulablePods:
    def __init__(self) -> None:
        self._kinds: dict[EquivalenceClass, _Kind] = {}
        self._kind_of: dict[Uid, _Kind] = {}
        self._by_hint: dict[Hint, dict[_Kind, None]] = {}
        self._awake: dict[_Kind, None] = {}
        #: until when each sleeps at most: the first one's end comes first
        self._asleep: dict[_Kind, float] = {}

    def __len__(self) -> int:
        """Return how many there are, those that may be tried among them."""
        return len(self._kind_of)

    def __iter__(self) -> Iterator[Uid]:
        return iter(self._kind_of)

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._kind_of

    @property
    def ready(self) -> int:
        """How many may be tried now."""
        return sum(kind.ready for kind in self._awake)

    @property
    def due(self) -> float | None:
        """When the first kind wakes up in any case."""
        return next(iter(self._asleep.values()), None)

    def rejected_by(self) -> Counter[str]:
        """How many pods each rule keeps waiting; a pod counts for each of its."""
        counts: Counter[str] = Counter()
        for kind in self._kinds.values():
            for rule in kind.why.rules:
                counts[rule] += len(kind.line)
        return counts

    def add(self, pod: Pod, rules: frozenset[str], now: float) -> None:
        """Every node rejects the pod by one of these rules, and with it all that are alike."""
        why = Unschedulable.of(pod, rules)
        kind = self._kinds.setdefault(why.candidate, _Kind(why))
        self._file(kind, why)
        kind.line.add(pod)
        self._kind_of[pod.uid] = kind
        kind.awake = 0
        self._awake.pop(kind, None)
        self._asleep.pop(kind, None)
        self._asleep[kind] = now + FLUSH

    def discard(self, uid: Uid) -> None:
        kind = self._kind_of.pop(uid, None)
        if kind is None:
            return
        kind.line.discard(uid)
        if not kind.line:
            del self._kinds[kind.why.candidate]
            self._awake.pop(kind, None)
            self._asleep.pop(kind, None)
            for hint in kind.why.hints:
                del self._by_hint[hint][kind]

    def differs(self, pod: Pod) -> bool:
        """Whether the pod, one of these, is of another kind now."""
        why = self._kind_of[pod.uid].why
        return Unschedulable.of(pod, why.rules) != why

    def help(self, change: Change, mirror: ClusterMirror) -> bool:
        """Wake those up that the change may help; whether there are any."""
        if not self._kinds:
            return False
        if change.known is not None:
            return self.wake_all()
        matters, woken = change.matters, False
        for hint, kinds in self._by_hint.items() if matters else ():
            for kind in kinds if is_concerned(hint, matters) else ():
                room = count_helped(hint, kind.why, change, mirror, more=kind.awake > 0)
                woken |= self._wake(kind, room)
        if change.node_before is None and change.node_after is not None:
            woken |= self._welcomed(change.node_after, mirror)
        return woken

    def _welcomed(self, node: Node, mirror: ClusterMirror) -> bool:
        woken = False
        for kind in list(self._kinds.values()):
            standing = still_unschedulable(kind.why, node, mirror)
            if standing is None:
                woken |= self._wake(kind, room_for(kind.why, mirror.free(node.name)))
            else:
                self._file(kind, standing)
        return woken

    def wake_all(self) -> bool:
        """Let all be tried; whether there are any."""
        for kind in self._kinds.values():
            self._wake(kind, EVERY)
        return bool(self._kinds)

    def wake_due(self, now: float) -> bool:
        """Let some be tried of the kinds that have slept for so long; whether there are any."""
        woken = False
        while (due := self.due) is not None and due <= now:
            woken |= self._wake(next(iter(self._asleep)), FLUSHED)
        return woken

    def first(self, most: int) -> Iterator[Sequence[Place]]:
        """Of each kind that is awake those that may be tried now, in serving order."""
        for kind in self._awake:
            yield kind.line.first(min(kind.awake, most))

    def tried(self, uids: Sequence[Uid]) -> None:
        """Let them go, to be decided on: if there is room for them, there may be for more."""
        for kind in {self._kind_of[uid] for uid in uids if uid in self._kind_of}:
            kind.awake *= 2
        for uid in uids:
            self.discard(uid)

    def _wake(self, kind: _Kind, more: int) -> bool:
        if more:
            kind.awake += more
            self._awake[kind] = None
            self._asleep.pop(kind, None)
        return bool(more)

    def _file(self, kind: _Kind, why: Unschedulable) -> None:
        for hint in kind.why.hints - why.hints:
            self._by_hint[hint].pop(kind, None)
        for hint in why.hints:
            self._by_hint.setdefault(hint, {})[kind] = None
        kind.why = why
