"""Nodes ranked for a kind of pod, and used up from the top: the rotating score cache.

A ranking is made once, and gives each node to one pod. It is dropped when other nodes would take
the pod than those that it ranks, or when more of it than a share is used up, which is meant to
keep it from being stale. Where nodes are level the first by name rank first, each time: small pods,
which leave the scores as they are, never get beyond that share of the names.

Source: the paper on the rotating score cache, whose authors' code is AdriftVin's
k8s-cache-scheduler. There keys and nodes are compared by hashes of 64 bits, here as they are, and
when it is full any entry goes.
"""

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from typing import Self

import attrs

from kubedsm.model.model import NodeName


class Why(StrEnum):
    """What became of a look into the cache."""

    HIT = "hit"
    #: nothing was known of such pods
    COLD = "cold"
    #: other nodes take such a pod now
    CHANGED = "changed"
    #: too much of the ranking was used up
    CONSUMED = "consumed"
    #: all of it was
    EXHAUSTED = "exhausted"


@attrs.frozen(slots=True)
class _Ranking:
    feasible: frozenset[NodeName]
    #: the same, best first
    ranked: tuple[NodeName, ...]
    popped: int = 0


@attrs.frozen(slots=True)
class ScoreCache:
    """Rankings by what pods have to be equal in to share one; looking something up makes another.

    refresh: a ranking of n nodes serves floor(refresh * n) + 1 pods; with 0 each pod has its own.
    """

    refresh: float = attrs.field(
        default=0.5, validator=(attrs.validators.ge(0.0), attrs.validators.lt(1.0))
    )
    most: int = attrs.field(default=1024, validator=attrs.validators.ge(1))
    #: the one used last comes last
    _rankings: Mapping[Hashable, _Ranking] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self._rankings)

    def take(
        self, key: Hashable, feasible: frozenset[NodeName]
    ) -> tuple[Self, NodeName | None, Why]:
        """The best node that is left; without one the ranking, if there is any, is dropped."""
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
        """With that ranking, best first; if it is full, without the one last used longest ago."""
        rankings = {known: of for known, of in self._rankings.items() if known != key}
        if len(rankings) >= self.most:
            del rankings[next(iter(rankings))]
        rankings[key] = _Ranking(frozenset(ranked), tuple(ranked))
        return attrs.evolve(self, rankings=rankings)
