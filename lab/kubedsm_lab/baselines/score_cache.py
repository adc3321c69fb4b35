"""Rotating score cache: one node ranking per pod class, consumed from the top.

A ranking is computed once, and assigns each node to one pod. The cache invalidates a ranking when
the feasible nodes differ, or when more than a configured proportion is consumed, which limits
staleness. Ties rank alphabetically: small pods, which leave the scores unchanged, never reach nodes
beyond that proportion.

Source: the paper on the rotating score cache and its authors' code, AdriftVin's
k8s-cache-scheduler. That code compares 64-bit hashes of keys and nodes, and a full cache evicts an
arbitrary entry. This one compares the values, and evicts the least recently used entry.
"""

from collections.abc import Hashable, Sequence
from enum import StrEnum

import attrs

from kubedsm.model.model import NodeName


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
