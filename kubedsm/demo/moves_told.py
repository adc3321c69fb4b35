"""The moves of a run, each with what it is made for, in words."""

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from kubedsm.clock import Clock
from kubedsm.core.goals.objective import promised_pods
from kubedsm.core.moving.suggestion import Move, MoveKind
from kubedsm.core.world.model import Share, Uid
from kubedsm.demo.observer import Observer
from kubedsm.runtime.listener import Listener
from kubedsm.thinking.words import counted
from kubedsm.why.entries import MoveOutcome, Outcome

State = Literal["moving", "moved", "taken back", "failed"]
_ENDED: Mapping[Outcome, State] = {
    Outcome.COMPLETED: "moved",
    Outcome.TAKEN_BACK: "taken back",
    Outcome.FAILED: "failed",
}


@attrs.frozen(slots=True)
class MoveTold:
    """A move that has begun."""

    pod: str
    source: str
    target: str
    #: what it is made for
    why: str
    #: when it began: seconds from the start of the demo
    began: float
    state: State = "moving"
    #: why it did not end well
    reason: str = ""

    @property
    def where(self) -> str:
        return f"{self.pod} from {self.source} to {self.target}"

    def as_json(self) -> dict[str, object]:
        return {
            "pod": self.pod,
            "from": self.source,
            "to": self.target,
            "why": self.why,
            "at": round(self.began, 1),
            "state": self.state,
            "reason": self.reason or None,
        }


@attrs.define
class _Planned:
    told: MoveTold
    begun: bool = False


class MovesTold(Listener):
    """Hears from the scheduler what it moves, and why; sees on the cluster that it has begun."""

    def __init__(self, observer: Observer, promises: Mapping[str, float], clock: Clock) -> None:
        self._observer = observer
        self._promises = promises
        self._clock = clock
        self._started = clock.monotonic()
        self._planned: dict[Uid, _Planned] = {}

    def suggested(self, moves: Sequence[Move], mode: str, seconds: float) -> None:  # noqa: ARG002
        shares = self._observer.shares()
        for move in moves:
            self._plan(move, made_for(move, moves, shares, self._promises))

    def _plan(self, move: Move, why: str) -> _Planned:
        told = MoveTold(str(move.pod), move.source or "", move.target, why, self._now)
        planned = self._planned[move.pod.uid] = _Planned(told)
        return planned

    def move_ended(self, ended: MoveOutcome) -> None:
        move = ended.move
        known = self._planned.get(move.pod.uid)
        nothing_done = ended.outcome is Outcome.FAILED and not (known and known.begun)
        if ended.outcome not in _ENDED or nothing_done:
            self._planned.pop(move.pod.uid, None)
            return
        # Of one through the cloud the second leg is of another pod, of which nothing was suggested.
        known = known or self._plan(move, "")
        self._begin(known)
        known.told = attrs.evolve(known.told, state=_ENDED[ended.outcome], reason=ended.reason)

    @property
    def _now(self) -> float:
        return self._clock.monotonic() - self._started

    def _begin(self, planned: _Planned) -> None:
        if not planned.begun:
            planned.begun = True
            planned.told = attrs.evolve(planned.told, began=self._now)

    def begun(self) -> list[MoveTold]:
        """Those that have begun, oldest first."""
        for uid in self._observer.detached():
            if uid in self._planned:
                self._begin(self._planned[uid])
        told = [planned.told for planned in self._planned.values() if planned.begun]
        return sorted(told, key=lambda move: move.began)


def made_for(
    move: Move,
    beside: Sequence[Move],
    shares: Mapping[str, Share],
    promises: Mapping[str, float],
) -> str:
    """What the move is made for. `beside`: all moves of its suggestion; shares as they were."""
    if move.evens or move.room_for:
        return move.purpose
    to_edge = [
        other
        for other in beside
        if other.group == move.group and other.kind is MoveKind.CLOUD_TO_EDGE
    ]
    if move.kind is MoveKind.CLOUD_TO_EDGE:
        return _for_its_promise("its promise", move, shares, promises)
    if to_edge:
        names = sorted({other.pod.workload.name for other in to_edge})
        lacking = _for_its_promise("whose promise", to_edge[0], shares, promises)
        more = f", {lacking}" if len(names) == 1 and lacking.startswith("whose") else ""
        return f"to make room at the edge for {' and '.join(names)}{more}"
    if move.kind is MoveKind.EDGE_TO_EDGE:
        return "to join what is left of the edge's room"
    return ""


def _for_its_promise(
    whose: str, move: Move, shares: Mapping[str, Share], promises: Mapping[str, float]
) -> str:
    service = move.pod.workload.name
    share, promise = shares.get(service, Share()), promises.get(service)
    if promise is None:
        return ""
    wanted = promised_pods(promise, share.total)
    missing = wanted - share.edge
    if missing > 0:
        return f"{whose} lacks {counted(missing, 'pod')} of {wanted}"
    return "the edge has room for more than its promise"
