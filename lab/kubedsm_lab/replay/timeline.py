"""What happened in a run, as values: enough to measure everything afterwards.

Times are seconds from the beginning of the scenario; what came before it is below 0.
"""

import math
from collections.abc import Mapping

import attrs

from kubedsm.model.model import NodeName, Share, Tier

#: from, until
Span = tuple[float, float]


@attrs.frozen
class Life:
    """One pod."""

    service: str
    created: float
    #: None if it never was
    bound: float | None = None
    #: of its node
    tier: Tier | None = None
    #: while it was Ready and not terminating
    served: tuple[Span, ...] = ()
    #: deleted; None if it outlived the run
    gone: float | None = None
    node: NodeName | None = None


@attrs.frozen
class MoveRecord:
    """One migration, from its first effect on the pod until the pod is gone or given back."""

    service: str
    began: float
    #: the end of the run if it was still in flight
    ended: float
    #: pods of the service that were Ready when it began
    ready_before: int
    taken_back: bool = False


@attrs.frozen
class Level:
    """A stretch of time in which nothing changed: the Ready pods of each service that has some."""

    since: float
    until: float
    shares: Mapping[str, Share]

    @property
    def seconds(self) -> float:
        return self.until - self.since


@attrs.frozen
class Timeline:
    end: float
    lives: tuple[Life, ...]
    #: `spec.replicas` of each service, from each of these moments on
    replicas: Mapping[str, tuple[tuple[float, int], ...]]
    moves: tuple[MoveRecord, ...] = ()

    @property
    def services(self) -> tuple[str, ...]:
        return tuple(self.replicas)

    def levels(self, since: float = 0.0) -> list[Level]:
        """From that moment to the end, without gaps."""
        changes: dict[float, list[tuple[str, int, int]]] = {since: []}
        for life in self.lives:
            on_edge = int(life.tier is Tier.EDGE)
            for start, stop in life.served:
                if stop <= since or start >= self.end or start >= stop:
                    continue
                changes.setdefault(max(start, since), []).append((life.service, 1, on_edge))
                if stop < self.end:
                    changes.setdefault(stop, []).append((life.service, -1, -on_edge))
        moments = sorted(changes)
        total = dict.fromkeys(self.services, 0)
        edge = dict(total)
        found = []
        for moment, until in zip(moments, [*moments[1:], self.end], strict=True):
            for service, more, more_on_edge in changes[moment]:
                total[service] += more
                edge[service] += more_on_edge
            shares = {name: Share(edge[name], number) for name, number in total.items() if number}
            found.append(Level(moment, until, shares))
        return found

    def placements(self) -> dict[str, list[tuple[float, int, int]]]:
        """Per service: from when on it had how many Ready pods on the edge, and in all."""
        found: dict[str, list[tuple[float, int, int]]] = {name: [] for name in self.services}
        for level in self.levels():
            for name, changes in found.items():
                share = level.shares.get(name, Share())
                if not changes or changes[-1][1:] != (share.edge, share.total):
                    changes.append((level.since, share.edge, share.total))
        return found

    def wanted(self, service: str, moment: float) -> int:
        """`spec.replicas` at that moment; 0 before there was any."""
        number = 0
        for since, replicas in self.replicas[service]:
            if since > moment:
                break
            number = replicas
        return number

    @property
    def beginning(self) -> float:
        """The first moment of which anything is known."""
        return min((life.created for life in self.lives), default=math.inf)
