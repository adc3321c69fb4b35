"""kube-scheduler's scoring with a rotating score cache: one node ranking per pod class, consumed
from the top.

A ranking is computed once, and assigns each node to one pod. The cache invalidates a ranking when
the feasible nodes differ, or when more than a configured proportion is consumed, which limits
staleness. Ties rank alphabetically: small pods, which leave the scores unchanged, never reach nodes
beyond that proportion.

All nodes are filtered for each pod, and scored only without a cached ranking. Unlike
kube-scheduler, the policy always evaluates all nodes: a rotating subset (percentageOfNodesToScore)
would invalidate every ranking.

Source: the paper on the rotating score cache and its authors' code, AdriftVin's
k8s-cache-scheduler. That code compares 64-bit hashes of keys and nodes, and a full cache evicts an
arbitrary entry. This one compares the values, and evicts the least recently used entry.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import attrs

from kubedsm.model.model import Node, NodeName, Pod
from kubedsm_lab.baselines.in_turn import NodeUsage
from kubedsm_lab.baselines.kube_scheduler import scores, total_scores

if TYPE_CHECKING:
    import random


class Why(StrEnum):
    """Result of a score-cache lookup: a hit, or the reason for the miss."""

    HIT = "hit"
    #: no ranking for the pod class
    COLD = "cold"
    #: feasible nodes have changed
    CHANGED = "changed"
    #: configured proportion of the ranking exhausted
    CONSUMED = "consumed"
    #: ranking completely exhausted
    EXHAUSTED = "exhausted"


@attrs.define
class _Ranking:
    feasible: frozenset[NodeName]
    #: nodes by descending score
    ranked: Sequence[NodeName]
    #: the best node serves the pod for which the ranking was computed
    popped: int = 1


@attrs.define
class ScoreCache:
    """Score cache: node rankings by pod class.

    A ranking of n nodes serves floor(refresh * n) + 1 pods; `refresh=0` disables reuse.
    """

    refresh: float = attrs.field(
        default=0.5, validator=(attrs.validators.ge(0.0), attrs.validators.lt(1.0))
    )
    most: int = attrs.field(default=1024, validator=attrs.validators.ge(1))
    #: rankings, least recently used first
    _rankings: dict[Hashable, _Ranking] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._rankings)

    def take(self, key: Hashable, feasible: frozenset[NodeName]) -> tuple[NodeName | None, Why]:
        """Return the next-best node for a pod class, and the outcome; on a miss, return None and
        remove the class's node ranking.
        """
        known = self._rankings.pop(key, None)
        if known is None:
            return None, Why.COLD
        if (why := self._why(known, feasible)) is not Why.HIT:
            return None, why
        self._rankings[key] = known
        known.popped += 1
        return known.ranked[known.popped - 1], why

    def _why(self, known: _Ranking, feasible: frozenset[NodeName]) -> Why:
        if known.feasible != feasible:
            return Why.CHANGED
        if known.popped == len(known.ranked):
            return Why.EXHAUSTED
        used_up = known.popped / len(known.ranked) > self.refresh
        return Why.CONSUMED if used_up else Why.HIT

    def seed(self, key: Hashable, ranked: Sequence[NodeName]) -> None:
        """Store a new ranking, whose best node is used up, for a pod class without one; a full
        cache evicts the least recently used ranking.
        """
        if len(self._rankings) >= self.most:
            del self._rankings[next(iter(self._rankings))]
        self._rankings[key] = _Ranking(frozenset(ranked), ranked)


@attrs.define
class CacheScheduler:
    """Scheduling policy that caches a ranking of nodes per pod class, and places each pod on the
    best remaining node.

    The cache key is the paper's equivalence class without schedulerName and runtime class: only one
    scheduler runs here, and admission has merged the runtime class into the pod. Replicas of two
    workloads with equal specs share one ranking, computed for the first of them.
    """

    cache: ScoreCache = attrs.field(factory=ScoreCache)
    #: cache lookups by outcome; pods with a single feasible node skip the lookup
    looks: Counter[Why] = attrs.field(factory=Counter, init=False)

    def __call__(
        self, pod: Pod, fitting: Sequence[Node], room: NodeUsage, _rng: "random.Random"
    ) -> Node:
        if len(fitting) == 1:
            return fitting[0]
        key, feasible = room.feasibility.equivalence(pod), frozenset(n.name for n in fitting)
        name, why = self.cache.take(key, feasible)
        self.looks[why] += 1
        if name is None:
            ranked = _ranked(pod, fitting, room)
            name = ranked[0]
            self.cache.seed(key, ranked)
        return room.nodes[name]


def _ranked(pod: Pod, fitting: Sequence[Node], room: NodeUsage) -> list[NodeName]:
    rated = zip(total_scores(scores(pod, fitting, room)), fitting, strict=True)
    return [node.name for _, node in sorted(rated, key=lambda each: (-each[0], each[1].name))]
