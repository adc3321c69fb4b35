"""Limits of concurrent binds and migrations, workload cooldowns, and restrictions of a dry run."""

from collections import Counter
from collections.abc import Collection

import attrs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.sections import MigrationSettings
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Workload
from kubedsm.process.backoff import Doubling

#: additional cooldown of a workload after a failed or rolled back migration
BACK_OFF = Doubling(10.0, 300.0)
#: seconds after the cooldown until previous failures of a workload are forgotten
FORGOTTEN = 600.0


@attrs.frozen(slots=True)
class Limits:
    """Limits of concurrent binds and migrations, and deadlines of API calls in seconds."""

    binds_in_flight: int = 64
    request_timeout: float = 10.0
    #: from the bind call to a live read, if the watch has not shown the bind
    bind_deadline: float = 15.0
    #: until a pod's volumes are bound (kube-scheduler's bindTimeoutSeconds); None: never awaited
    volume_deadline: float | None = 600.0


#: a dry run awaits binds for ever, against repeated decisions: reservations remain until the pod is
#: deleted, or bound by another scheduler
DRY_RUN = Limits(bind_deadline=1e9, volume_deadline=None)


def suggest_only(configuration: Configuration) -> Configuration:
    """Return the configuration for a dry run: migrations and evictions are only suggested."""
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


@attrs.frozen(slots=True)
class Underway:
    """Running migration: workload, source and target node, as counted by the migration limits."""

    workload: Workload
    source: str
    target: str
    since: float
    #: the pod is evicted before creation of the replacement
    breaks_first: bool = False


def is_admissible(
    migration: Underway, running: Collection[Underway], limits: MigrationSettings
) -> bool:
    """Return True if the limits admit another migration in addition to the running migrations.

    A recreating migration relies on the other replicas of the workload, and therefore runs alone. A
    slow migration counts only for the limits within the same namespace.
    """
    slow = migration.since - limits.deadline
    quick = [u for u in running if u.since > slow]
    neighbours = [u for u in running if u.workload.namespace == migration.workload.namespace]
    same = [u for u in neighbours if u.workload == migration.workload]
    per_node = Counter(node for u in quick for node in {u.source, u.target})
    return (
        max(len(quick), len(neighbours)) < limits.max_concurrent
        and len(same) < limits.max_per_workload
        and not (same and (migration.breaks_first or any(u.breaks_first for u in same)))
        and max(per_node[migration.source], per_node[migration.target]) < limits.max_per_node
    )


class Cooldowns:
    """Cooldown periods of workloads after migrations, longer after repeated failures."""

    def __init__(self, configuration: CurrentConfiguration) -> None:
        self._configuration = configuration
        self._ends: dict[Workload, float] = {}
        self._failures: Counter[Workload] = Counter()

    def __len__(self) -> int:
        return len(self._ends)

    def begin(self, workload: Workload, now: float, *, failed: bool) -> None:
        """Begin the cooldown period of a workload whose migration has ended."""
        self._ends = {of: end for of, end in self._ends.items() if now < end + FORGOTTEN}
        self._failures = Counter({of: n for of, n in self._failures.items() if of in self._ends})
        until = now + self._configuration.current.migration.cooldown
        if failed:
            until += BACK_OFF.delay_after(self._failures[workload])
            self._failures[workload] += 1
        else:
            del self._failures[workload]
        self._ends[workload] = until

    def list_resting(self, now: float) -> frozenset[Workload]:
        """Return the workloads in a cooldown period, which must not be migrated."""
        return frozenset(workload for workload, until in self._ends.items() if until > now)
