"""Timeline of a run: lifetimes of pods, desired replicas and migrations, from which all measures
are computed.

Times are seconds from the beginning of the scenario; earlier moments are negative.
"""

import itertools
import math
from collections.abc import Mapping

import attrs

from kubedsm.model.model import NodeName, Share, Tier

#: interval: beginning and end
Span = tuple[float, float]


@attrs.frozen
class Life:
    """Lifetime of one pod: creation, bind, tier, and spans in which it was Ready."""

    service: str
    created: float
    #: None if never bound
    bound: float | None = None
    #: tier of the node
    tier: Tier | None = None
    #: while it was Ready and not terminating
    served: tuple[Span, ...] = ()
    #: deletion; None if the pod outlived the run
    gone: float | None = None
    node: NodeName | None = None

    @property
    def is_serving(self) -> bool:
        """Return whether the pod is Ready at present, as its last Ready interval has no end."""
        return bool(self.served) and self.served[-1][1] == math.inf


@attrs.frozen
class MoveRecord:
    """Recorded migration: from the first change of the pod until the pod is deleted or the
    migration rolled back.
    """

    service: str
    began: float
    #: the end of the run if it was still in flight
    ended: float
    #: Ready pods of the service at the beginning
    ready_before: int
    taken_back: bool = False
    #: evicted instead of detached: over when the service has all pods again
    recreates: bool = False
    #: seconds from the pod's creation to the beginning; infinite for pods older than the recording
    age: float = math.inf


@attrs.frozen
class Level:
    """Interval in which no pod changes, with the edge share of each service that has Ready pods."""

    since: float
    until: float
    shares: Mapping[str, Share]

    @property
    def seconds(self) -> float:
        return self.until - self.since


@attrs.frozen
class Timeline:
    """Recorded run: pods' lives, desired replicas of each service, and migrations."""

    end: float
    lives: tuple[Life, ...]
    #: `spec.replicas` of each service: moments of change and values
    replicas: Mapping[str, tuple[tuple[float, int], ...]]
    moves: tuple[MoveRecord, ...] = ()

    @property
    def services(self) -> tuple[str, ...]:
        return tuple(self.replicas)

    def changes(self, since: float) -> dict[float, list[tuple[Life, int]]]:
        """Return the pods that become Ready (1) and cease to be (-1), by time before the end.

        Pods that are Ready at `since`, which has an entry, become so then.
        """
        found: dict[float, list[tuple[Life, int]]] = {since: []}
        for life in self.lives:
            for start, stop in life.served:
                if stop <= since or start >= self.end or start >= stop:
                    continue
                found.setdefault(max(start, since), []).append((life, 1))
                if stop < self.end:
                    found.setdefault(stop, []).append((life, -1))
        return found

    def levels(self, since: float = 0.0) -> list[Level]:
        """Return the consecutive intervals between changes of Ready pods, from `since` to the end
        of the run.
        """
        changes = self.changes(since)
        total = dict.fromkeys(self.services, 0)
        edge = dict(total)
        found = []
        for moment, until in itertools.pairwise([*sorted(changes), self.end]):
            for life, more in changes[moment]:
                total[life.service] += more
                edge[life.service] += more * (life.tier is Tier.EDGE)
            shares = {name: Share(edge[name], number) for name, number in total.items() if number}
            found.append(Level(moment, until, shares))
        return found

    def placements(self) -> dict[str, list[tuple[float, int, int]]]:
        """Return each service's changes over time: (seconds, Ready pods at the edge, all Ready
        pods).
        """
        found: dict[str, list[tuple[float, int, int]]] = {name: [] for name in self.services}
        for level in self.levels():
            for name, changes in found.items():
                share = level.shares.get(name, Share())
                if not changes or changes[-1][1:] != (share.edge, share.total):
                    changes.append((level.since, share.edge, share.total))
        return found

    def wanted(self, service: str, moment: float) -> int:
        """Return the service's desired replicas at a time in seconds; 0 before the first known
        value.
        """
        number = 0
        for since, replicas in self.replicas[service]:
            if since > moment:
                break
            number = replicas
        return number

    @property
    def beginning(self) -> float:
        """Return the time in seconds at which the run's first pod was created."""
        return min((life.created for life in self.lives), default=math.inf)
