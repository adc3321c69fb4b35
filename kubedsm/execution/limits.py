"""How much may be under way, of moves also where, and when a workload may be moved again."""

from collections import Counter

import attrs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.sections import MigrationSettings
from kubedsm.model.model import Workload
from kubedsm.process.backoff import Doubling

#: seconds that a workload rests more after a move that failed or was taken back, twice as long
#: each time, whatever the cooldown
BACK_OFF = Doubling(10.0, 300.0)
#: seconds after its rest that a workload's failures are remembered
FORGOTTEN = 600.0


@attrs.frozen(slots=True)
class Underway:
    workload: Workload
    source: str
    target: str
    #: when it began, on the clock
    since: float
    #: the pod is evicted before its replacement is there
    breaks_first: bool = False


@attrs.frozen(slots=True)
class Limits:
    """How much is under way at once, and how long it may take, in seconds."""

    binds_in_flight: int = 64
    request_timeout: float = 10.0
    #: from asking for a bind until it is read live, if the watch has not shown it
    bind_deadline: float = 15.0


class MoveLimits:
    def __init__(self, configuration: CurrentConfiguration) -> None:
        self._configuration = configuration
        self._underway: dict[str, Underway] = {}
        self._rests: dict[Workload, float] = {}
        self._failures: Counter[Workload] = Counter()

    def __len__(self) -> int:
        """Return how many moves are under way."""
        return len(self._underway)

    @property
    def _limits(self) -> MigrationSettings:
        return self._configuration.current.migration

    @property
    def slow_after(self) -> float:
        """Seconds after which a move is not waited for."""
        return self._limits.deadline

    def admit(self, move: str, underway: Underway) -> bool:
        """Count the move in, if the limits leave room for it.

        A move that breaks before it makes counts on the workload's other pods: it goes alone. One
        that takes longer than its deadline counts on those of its own namespace only.
        """
        slow = underway.since - self.slow_after
        running = self._underway.values()
        quick = [u for u in running if u.since > slow]
        neighbours = [u for u in running if u.workload.namespace == underway.workload.namespace]
        same = [u for u in neighbours if u.workload == underway.workload]
        per_node = Counter(node for u in quick for node in {u.source, u.target})
        full = (
            max(len(quick), len(neighbours)) >= self._limits.max_concurrent
            or len(same) >= self._limits.max_per_workload
            or (same and (underway.breaks_first or any(u.breaks_first for u in same)))
            or any(
                per_node[node] >= self._limits.max_per_node
                for node in (underway.source, underway.target)
            )
        )
        if not full:
            self._underway[move] = underway
        return not full

    def leaving(self, move: str, until: float) -> None:
        """Count the move as one that takes long from then on: only its old pod has yet to go."""
        underway = self._underway.get(move)
        if underway is not None:
            since = min(underway.since, until - self.slow_after)
            self._underway[move] = attrs.evolve(underway, since=since)

    def moving(self) -> frozenset[Workload]:
        """The workloads of which a move is under way."""
        return frozenset(self.moving_each())

    def moving_each(self) -> list[Workload]:
        """Return the workload of each move under way."""
        return [underway.workload for underway in self._underway.values()]

    def leave(self, move: str) -> None:
        self._underway.pop(move, None)

    def rest(self, workload: Workload, now: float, *, failed: bool) -> None:
        """Leave the workload alone for a while, since a plan that moved it has ended."""
        self._rests = {of: end for of, end in self._rests.items() if now < end + FORGOTTEN}
        self._failures = Counter({of: n for of, n in self._failures.items() if of in self._rests})
        until = now + self._limits.cooldown
        if failed:
            until += BACK_OFF.after(self._failures[workload])
            self._failures[workload] += 1
        else:
            del self._failures[workload]
        self._rests[workload] = until

    def resting(self, now: float) -> frozenset[Workload]:
        """The workloads that are left alone."""
        return frozenset(workload for workload, until in self._rests.items() if until > now)
