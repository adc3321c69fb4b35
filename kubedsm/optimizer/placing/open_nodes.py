"""Which nodes the rules leave to the pods of a batch, while pods of it come and go.

All rules but two: room, and how even a spread is, change with every pod, and are known to the
owner. Of the others, what one more pod closes to the like of another is told by the two of them:
nothing, mostly, or the domains of its node that anti-affinity names. Where that is not all, the
rules are asked anew.
"""

from collections.abc import Iterable

import numpy as np

from kubedsm.model.model import NodeName, Pod, PodAffinityTerm, Uid
from kubedsm.model.node_index import MISSING, Ints, Mask, Positions
from kubedsm.model.residents import Selection, wishes_of
from kubedsm.model.surroundings import Surroundings
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility


class OpenNodes:
    """The cluster with the pods of the batch that are there; `Settling` alone changes it."""

    def __init__(
        self, feasibility: Feasibility, surroundings: Surroundings, batch: Iterable[Pod]
    ) -> None:
        #: pods that came, or went if it says False
        self._steps: list[tuple[Pod, NodeName, bool]] = []
        #: after the first so many of these
        self._known = feasibility
        self._taken = 0
        self._surroundings = surroundings
        self._alike: dict[EquivalenceClass, EquivalenceClass] = {}
        self._likes: dict[Uid, EquivalenceClass] = {}
        for pod in batch:
            like = feasibility.equivalence(pod)
            # One value for all that are equal: found faster.
            self._likes[pod.uid] = self._alike.setdefault(like, like)
        self._wishes = {term for like in self._alike for _, term in wishes_of(like.rules)}
        #: each after the first so many of the steps
        self._masks: dict[EquivalenceClass, tuple[Mask, int]] = {}
        self._indifferent: dict[EquivalenceClass, bool] = {}
        self._closing: dict[tuple[EquivalenceClass, EquivalenceClass], frozenset[str] | None] = {}

    def like(self, pod: Pod) -> EquivalenceClass:
        return self._likes[pod.uid]

    @property
    def feasibility(self) -> Feasibility:
        for pod, node, came in self._steps[self._taken :]:
            if came:
                self._known = self._known.with_pod(pod, node)
            else:
                self._known = self._known.without_pod(pod.uid)
        self._taken = len(self._steps)
        return self._known

    def of(self, pod: Pod) -> Mask:
        """The nodes open to the pod, if they have the room, and it is even; not to be changed."""
        like = self._likes[pod.uid]
        steps = len(self._steps)
        mask, seen = self._masks.get(like, (None, steps))
        if mask is not None and seen < steps:
            mask = self._after(mask, like, seen)
        if mask is None:
            mask = self.feasibility.otherwise_open(pod)
        self._masks[like] = mask, steps
        return mask

    def _after(self, mask: Mask, like: EquivalenceClass, seen: int) -> Mask | None:
        """What the steps since then have left of the mask; None if that is to be asked."""
        index = self._known.index
        for pod, node, came in self._steps[seen:]:
            keys = self._closed(self._likes[pod.uid], like)
            if keys is None or (keys and not came):
                return None
            for key in keys:
                codes = index.label(key).codes
                code = codes[index.positions[node]]
                if code != MISSING:
                    mask[codes == code] = False
        return mask

    def penalties(self, pod: Pod, nodes: Positions) -> Ints | None:
        """By position, how much less than the best of these nodes the pod likes each of them.

        None if there never is any difference.
        """
        like = self._likes[pod.uid]
        if like not in self._indifferent:
            self._indifferent[like] = self._known.indifferent(pod, self._wishes)
        if self._indifferent[like]:
            return None
        penalties = np.zeros(len(self._known.index), dtype=np.int64)
        penalties[nodes] = self.feasibility.penalties_at(pod, nodes)
        return penalties

    def put(self, pod: Pod, node: NodeName) -> None:
        self._steps.append((pod, node, True))

    def take(self, pod: Pod, node: NodeName) -> None:
        self._steps.append((pod, node, False))

    def _closed(self, comer: EquivalenceClass, like: EquivalenceClass) -> frozenset[str] | None:
        """By which labels of its node one that comes closes nodes to another, if that is all.

        None if it may be more, or if it may open some.
        """
        pair = comer, like
        if pair not in self._closing:
            self._closing[pair] = self._effect(comer, like)
        return self._closing[pair]

    def _effect(self, comer: EquivalenceClass, like: EquivalenceClass) -> frozenset[str] | None:
        theirs, own = comer.rules, like.rules
        if any(a and b for a, b in zip(_taken(comer), _taken(like), strict=True)):
            return None
        if own.affinity and all(self._about(term, comer) for term in own.affinity):
            return None
        near = [term.topology_key for term in own.anti_affinity if self._about(term, comer)]
        away = [term.topology_key for term in theirs.anti_affinity if self._about(term, like)]
        return frozenset((*near, *away))

    def _about(self, term: PodAffinityTerm, like: EquivalenceClass) -> bool:
        selection = Selection.of(term)
        return selection.covers(like.namespace, like.label_map(), self._surroundings)


def _taken(like: EquivalenceClass) -> tuple[object, ...]:
    """What it takes of a node beside room."""
    return like.rules.ports, like.rules.claims, like.rules.disks
