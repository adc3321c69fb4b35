"""Limits of concurrent binds and migrations, workload cooldowns, and restrictions of a dry run.

A workload whose replacements repeatedly are not Ready in time is left alone: each attempt starts a
pod, and deletes it after minutes.
"""

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
#: late replacements in a row until a workload is left alone, and for how many seconds it is
LATE_IN_A_ROW, LEFT_ALONE = 2, 3600.0
#: seconds after the cooldown until previous failures of a workload are forgotten
FORGOTTEN = 600.0


@attrs.frozen(slots=True)
class Limits:
    """Limits of concurrent binds and migrations, and deadlines of API calls in seconds."""

    binds_in_flight: int = 64
    #: from the bind call to a live read, if the watch has not shown the bind; the longest wait for
    #: the call is added
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


@attrs.frozen(slots=True)
class LeftAlone:
    """State of a workload whose pods are temporarily not migrated: end of the pause, and its
    reason.
    """

    until: float
    #: hash of the pod template, and `migration.deadline`: another one may be ready in time
    template: str
    deadline: float


class Cooldowns:
    """Cooldown periods of workloads after migrations, longer after repeated failures."""

    def __init__(self, configuration: CurrentConfiguration) -> None:
        self._configuration = configuration
        self._ends: dict[Workload, float] = {}
        self._failures: Counter[Workload] = Counter()
        #: replacements in a row that were not Ready in time
        self._late: Counter[Workload] = Counter()
        self._left_alone: dict[Workload, LeftAlone] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def begin(self, workload: Workload, now: float, *, failed: bool) -> bool:
        """Begin the cooldown period of a workload whose migration has ended; return False if the
        former cooldown continues.

        No migration begins during a cooldown: failures then belong to one attempt, and count once.
        """
        rests = now < self._ends.get(workload, now)
        self._ends = {of: end for of, end in self._ends.items() if now < end + FORGOTTEN}
        self._failures = Counter({of: n for of, n in self._failures.items() if of in self._ends})
        self._late = Counter({of: n for of, n in self._late.items() if of in self._ends})
        until = now + self._configuration.current.migration.cooldown
        if failed:
            self._failures[workload] += not (rests and self._failures[workload])
            until += BACK_OFF.delay_after(self._failures[workload] - 1)
        else:
            del self._failures[workload]
            del self._late[workload]
        self._ends[workload] = until
        return not rests

    def note_late(self, workload: Workload, template: str, now: float) -> bool:
        """Count a replacement pod that was not Ready in time; return True if the workload's pods
        are no longer migrated for a while.
        """
        self._late[workload] += 1
        if self._late[workload] < LATE_IN_A_ROW:
            return False
        deadline = self._configuration.current.migration.deadline
        self._left_alone[workload] = LeftAlone(now + LEFT_ALONE, template, deadline)
        return True

    def list_left_alone(self, now: float) -> dict[Workload, LeftAlone]:
        """Return the workloads whose pods are temporarily not migrated, except after
        `migration.deadline` was raised.
        """
        deadline = self._configuration.current.migration.deadline
        self._left_alone = {
            of: found
            for of, found in self._left_alone.items()
            if now < found.until and deadline <= found.deadline
        }
        return dict(self._left_alone)

    def end_left_alone(self, workload: Workload) -> None:
        """Permit migrations of the workload's pods again, because its pod template has changed."""
        del self._left_alone[workload]
        del self._late[workload]

    def list_resting(self, now: float) -> frozenset[Workload]:
        """Return the workloads in a cooldown period, which must not be migrated."""
        return frozenset(workload for workload, until in self._ends.items() if until > now)
