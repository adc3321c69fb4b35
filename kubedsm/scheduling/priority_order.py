"""Pods in the order in which they are served, whatever the order in which they come and go."""

from bisect import bisect_left, insort
from collections.abc import Sequence

from kubedsm.model.model import Pod, Uid, serving_order

#: of two pods, the one with the lesser place is served first
Place = tuple[tuple[int, float, str, str], Uid]


class ServingLine:
    def __init__(self) -> None:
        self._places: dict[Uid, Place] = {}
        self._sorted: list[Place] = []

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._places

    def add(self, pod: Pod) -> None:
        """Let the pod in, or give it the place that it has by now."""
        self.discard(pod.uid)
        place = self._places[pod.uid] = serving_order(pod), pod.uid
        insort(self._sorted, place)

    def discard(self, uid: Uid) -> None:
        place = self._places.pop(uid, None)
        if place is not None:
            del self._sorted[bisect_left(self._sorted, place)]

    def first(self, most: int) -> Sequence[Place]:
        """The places of up to that many pods: of those that are served first."""
        return self._sorted[:most]
