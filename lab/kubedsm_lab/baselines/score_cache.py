"""Rotating score cache: one node ranking per pod class, consumed from the top.

A ranking is computed once, and assigns each node to one pod. The cache invalidates a ranking when
the feasible nodes differ, or when more than a configured proportion is consumed, which limits
staleness. Ties rank alphabetically: small pods, which leave the scores unchanged, never reach nodes
beyond that proportion.

Source: the paper on the rotating score cache and its authors' code, AdriftVin's
k8s-cache-scheduler. That code compares 64-bit hashes of keys and nodes, and a full cache evicts an
arbitrary entry. This one compares the values, and evicts the least recently used entry.
"""

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from typing import Self

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


@attrs.frozen(slots=True)
class _Ranking:
    feasible: frozenset[NodeName]
    #: nodes by descending score
    ranked: tuple[NodeName, ...]
    popped: int = 0


@attrs.frozen(slots=True)
class ScoreCache:
    """Immutable score cache: node rankings by pod class; a lookup returns the updated cache.

    A ranking of n nodes serves floor(refresh * n) + 1 pods; `refresh=0` disables reuse.
    """

    refresh: float = attrs.field(
        default=0.5, validator=(attrs.validators.ge(0.0), attrs.validators.lt(1.0))
    )
    most: int = attrs.field(default=1024, validator=attrs.validators.ge(1))
    #: rankings, least recently used first
    _rankings: Mapping[Hashable, _Ranking] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self._rankings)

    def take(
        self, key: Hashable, feasible: frozenset[NodeName]
    ) -> tuple[Self, NodeName | None, Why]:
        """Look up the next-best node for a pod class; on a miss, remove the class's node ranking.

        Returns the updated cache, the node (None on a miss) and the outcome.
        """
        others = dict(self._rankings)
        known = others.pop(key, None)
        why = self._why(known, feasible)
        if known is None or why is not Why.HIT:
            return attrs.evolve(self, rankings=others), None, why
        others[key] = attrs.evolve(known, popped=known.popped + 1)
        return attrs.evolve(self, rankings=others), known.ranked[known.popped], why

    def _why(self, known: _Ranking | None, feasible: frozenset[NodeName]) -> Why:
        if known is None:
            return Why.COLD
        if known.feasible != feasible:
            return Why.CHANGED
        if known.popped == len(known.ranked):
            return Why.EXHAUSTED
        used_up = known.popped / len(known.ranked) > self.refresh
        return Why.CONSUMED if used_up else Why.HIT

    def seed(self, key: Hashable, ranked: Sequence[NodeName]) -> Self:
        """Store a new ranking for the pod class; a full cache evicts the least recently used
        ranking.
        """
        rankings = {known: of for known, of in self._rankings.items() if known != key}
        if len(rankings) >= self.most:
            del rankings[next(iter(rankings))]
        rankings[key] = _Ranking(frozenset(ranked), tuple(ranked))
        return attrs.evolve(self, rankings=rankings)
