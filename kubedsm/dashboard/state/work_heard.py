"""What was done, counted as it is heard of, and how fast."""

from collections import Counter, deque
from collections.abc import Mapping

import attrs

from kubedsm.explain.entries import MoveOutcome, Outcome
from kubedsm.model.events import Change
from kubedsm.model.model import Node, NodeName, Pod, Tier, Uid
from kubedsm.process.clock import Clock

#: pods that were bound, of which it is kept how long they waited; seconds for which they are news
_LAST, NEWS = 500, 1.5
#: milliseconds by which the event loop is late, as far as they are told apart; looks of 10 seconds
_LATE = (0, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_LOOKS = 200


@attrs.define
class WorkHeard:
    """The one owner of these counts. Times are on the clock."""

    _clock: Clock
    batches: int = attrs.field(default=0, init=False)
    bound: int = attrs.field(default=0, init=False)
    moves_done: int = attrs.field(default=0, init=False)
    #: since when each pod has waited, of all schedulers'
    _since: dict[Uid, float] = attrs.field(factory=dict, init=False)
    #: of the last pods that were bound: when, where, and after how many seconds
    _bound: deque[tuple[float, NodeName | None, float]] = attrs.field(
        factory=lambda: deque(maxlen=_LAST), init=False
    )
    _late: deque[float] = attrs.field(factory=lambda: deque(maxlen=_LOOKS), init=False)

    def changed(self, change: Change) -> None:
        pod = change.pod_after
        if pod is not None and pod.waits_for_node:
            self._since.setdefault(pod.uid, self._clock.monotonic())
        elif gone := pod or change.pod_before:
            self._since.pop(gone.uid, None)

    def placed(self, pod: Pod) -> None:
        """The pod is seen where it was bound to."""
        now = self._clock.monotonic()
        self.bound += 1
        self._bound.append((now, pod.node_name, now - self._since.get(pod.uid, now)))

    def move_ended(self, ended: MoveOutcome) -> None:
        self.moves_done += ended.outcome is Outcome.COMPLETED

    def loop_late(self, seconds: float) -> None:
        self._late.append(seconds)

    @property
    def loop_lag(self) -> float | None:
        """Milliseconds, by which it was late at most, or a little more; None: not known."""
        if not self._late:
            return None
        worst = 1000 * max(self._late)
        return next((each for each in _LATE if each >= int(worst)), _LATE[-1])

    def latency(self, part: float) -> float | None:
        """Milliseconds within which that part of the last pods was bound."""
        if not self._bound:
            return None
        seconds = sorted(took for _, _, took in self._bound)
        return round(1000 * seconds[min(len(seconds) - 1, int(part * len(seconds)))], 1)

    def lately(self, nodes: Mapping[NodeName, Node]) -> Counter[Tier]:
        """How many pods were bound within the last moment, by tier."""
        since = self._clock.monotonic() - NEWS
        there = (nodes.get(node) for at, node, _ in self._bound if at > since and node)
        return Counter(node.tier for node in there if node is not None and node.tier)
