"""Limits of binds and migrations in flight, cooldowns of workloads, and limits of a dry run."""

from collections import Counter

import attrs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.sections import MigrationSettings
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Workload
from kubedsm.process.backoff import Doubling

#: added to the cooldown of a workload after a migration that failed or was rolled back
BACK_OFF = Doubling(10.0, 300.0)
#: seconds after its cooldown for which failures of a workload count
FORGOTTEN = 600.0


@attrs.frozen(slots=True)
class Underway:
    """Migration under way."""

    workload: Workload
    source: str
    target: str
    since: float
    #: the pod is evicted before its replacement exists
    breaks_first: bool = False


@attrs.frozen(slots=True)
class Limits:
    """Limits of API calls. Times are in seconds."""

    binds_in_flight: int = 64
    request_timeout: float = 10.0
    #: from the bind call to a live read, if the watch has not shown the bind
    bind_deadline: float = 15.0


#: a dry run waits for its binds for ever: reservations stay until the pod is bound by another
#: scheduler or deleted, so the same decision is not taken again
DRY_RUN = Limits(bind_deadline=1e9)


def suggest_only(configuration: Configuration) -> Configuration:
    """Return the configuration of a dry run: migrations and evictions are only suggested."""
    packing = "suggest" if configuration.packing_mode == "apply" else configuration.packing_mode
    suggester = configuration.suggester
    if suggester.mode == "apply":
        suggester = attrs.evolve(suggester, mode="suggest")
    return attrs.evolve(
        configuration,
        suggester=suggester,
        optimiser=attrs.evolve(configuration.optimiser, mode=packing),
        preemption="disabled",
    )


class MoveLimits:
    """Limits of concurrent migrations, in all, by node and by workload, and cooldowns."""

    def __init__(self, configuration: CurrentConfiguration) -> None:
        self._configuration = configuration
        self._underway: dict[str, Underway] = {}
        self._rests: dict[Workload, float] = {}
        self._failures: Counter[Workload] = Counter()

    def __len__(self) -> int:
        """Return the number of migrations under way."""
        return len(self._underway)

    @property
    def _limits(self) -> MigrationSettings:
        return self._configuration.current.migration

    @property
    def slow_after(self) -> float:
        """Return the seconds after which a migration is slow: others do not wait for it."""
        return self._limits.deadline

    def admit(self, move: str, underway: Underway) -> bool:
        """Admit the migration if the limits allow one more.

        A migration that evicts first relies on the workload's other pods, and so runs alone. A slow
        migration counts only for the limits of its own namespace.
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

    def mark_slow(self, move: str, at: float) -> None:
        """Count the migration as slow from then on: only its old pod still terminates."""
        underway = self._underway.get(move)
        if underway is not None:
            since = min(underway.since, at - self.slow_after)
            self._underway[move] = attrs.evolve(underway, since=since)

    def moving_each(self) -> list[Workload]:
        """Return the workload of each migration under way."""
        return [underway.workload for underway in self._underway.values()]

    def remove(self, move: str) -> None:
        self._underway.pop(move, None)

    def begin_cooldown(self, workload: Workload, now: float, *, failed: bool) -> None:
        """Begin the cooldown of a workload whose plan has ended."""
        self._rests = {of: end for of, end in self._rests.items() if now < end + FORGOTTEN}
        self._failures = Counter({of: n for of, n in self._failures.items() if of in self._rests})
        until = now + self._limits.cooldown
        if failed:
            until += BACK_OFF.delay_after(self._failures[workload])
            self._failures[workload] += 1
        else:
            del self._failures[workload]
        self._rests[workload] = until

    def resting(self, now: float) -> frozenset[Workload]:
        """Return the workloads in their cooldown."""
        return frozenset(workload for workload, until in self._rests.items() if until > now)
