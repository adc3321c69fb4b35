"""Deferrals of migrations: configured time windows, freeze periods, and budgets of migrations per
hour and day.

A budget counts the migrations that began within the last hour or day, by the wall clock. A group of
migrations begins as a whole, and is charged as a whole.
"""

import asyncio
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache

import attrs

from kubedsm.config.calendar import Calendar, format_time
from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.sections import BudgetSettings
from kubedsm.model.model import Workload

HOUR, DAY = 3600.0, 86_400.0
#: seconds after which the record of earlier migrations has probably been read
_RETRY = 5.0
#: the record of begun migrations has not been read yet
UNREAD = "the record of earlier migrations has not been read yet"


@lru_cache(maxsize=1000)
def _find_opening(calendar: Calendar, second: int) -> tuple[float, str]:
    """Return a calendar's next opening, once a second: many workloads have the same calendar."""
    return calendar.find_opening(second)


@attrs.frozen(slots=True)
class Deferral:
    """Reason why no migration of a workload may begin now, and the end of the deferral."""

    #: seconds since the epoch; inf if unknown
    until: float
    reason: str

    def __str__(self) -> str:
        end = f" until {format_time(self.until)}" if self.until < math.inf else ""
        return f"migrations are deferred{end}: {self.reason}"


@attrs.define(eq=False)
class Deferrals:
    """Deferrals of migrations by workload; without windows, freezes and budgets no migration is
    deferred.
    """

    _configuration: CurrentConfiguration
    #: wall clock, in seconds since the epoch
    _now: Callable[[], float]
    #: begun migrations of the last day: workload, and time in seconds since the epoch, ascending
    begun: list[tuple[Workload, float]] = attrs.field(factory=list, init=False)
    #: their times by workload, and all times under None
    _times: dict[Workload | None, list[float]] = attrs.field(factory=dict, init=False)
    #: False until the record of earlier migrations is read; True without a record
    known: bool = attrs.field(default=True, init=False)
    #: set when a migration begins
    changed: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    @property
    def _budget(self) -> BudgetSettings:
        return self._configuration.current.migration.budget

    def find(self, workload: Workload, more: Collection[Workload] = ()) -> Deferral | None:
        """Return the longest deferral of a migration of the workload; None if it may begin.

        `more`: workloads of migrations that would begin together with it.
        """
        now = self._now()
        found = [*self._find_closed(workload, now), *self._find_spent(workload, more, now)]
        return max(found, key=lambda deferral: deferral.until, default=None)

    def list_deferred(self, workloads: Iterable[Workload]) -> dict[Workload, Deferral]:
        """Return the deferrals of the workloads whose migrations may not begin now."""
        if not (self._configuration.current.has_calendar or self._budget.limited):
            return {}
        found = ((workload, self.find(workload)) for workload in workloads)
        return {workload: deferral for workload, deferral in found if deferral is not None}

    def is_closing(self, workloads: Iterable[Workload], within: float) -> bool:
        """Return True if migrations of a workload may begin now, but not at all times within some
        seconds: a window ends, or a freeze begins.
        """
        now, configuration = self._now(), self._configuration.current
        return configuration.has_calendar and any(
            not calendar.find_opening(now)[1] and not calendar.is_open_throughout(now, now + within)
            for calendar in set(map(configuration.calendar, workloads))
        )

    def count_left(self) -> int | None:
        """Return how many migrations the budget of the cluster permits now; None: no limit."""
        now, budget = self._now(), self._budget
        limits = ((budget.cluster_per_hour, HOUR), (budget.cluster_per_day, DAY))
        left = [
            max(0, most - len(self._list_times(now - period)))
            for most, period in limits
            if most is not None
        ]
        return min(left, default=None)

    def charge(self, workloads: Iterable[Workload]) -> None:
        """Count migrations that begin now against the budgets of the cluster and the workload."""
        now = self._now()
        recent = [(of, at) for of, at in self.begun if now - DAY < at <= now]
        self._replace([*recent, *((workload, now) for workload in workloads)])
        self.changed.set()

    def restore(self, begun: Iterable[tuple[Workload, float]]) -> None:
        """Add the migrations that former leaders began to the budget counts."""
        self._replace(sorted([*begun, *self.begun], key=lambda each: each[1]))
        self.known = True

    def _replace(self, begun: list[tuple[Workload, float]]) -> None:
        self.begun, self._times = begun, {None: [at for _, at in begun]}
        for workload, at in begun:
            self._times.setdefault(workload, []).append(at)

    def _find_closed(self, workload: Workload, now: float) -> Iterator[Deferral]:
        configuration = self._configuration.current
        if not configuration.has_calendar:
            return
        opening, reason = _find_opening(configuration.calendar(workload), int(now))
        if reason:
            yield Deferral(opening, reason)

    def _find_spent(
        self, workload: Workload, more: Collection[Workload], now: float
    ) -> Iterator[Deferral]:
        budget, together = self._budget, Counter(more)
        if not budget.limited:
            return
        if not self.known:
            yield Deferral(now + _RETRY, UNREAD)
        for most, period, name, of, further in (
            (budget.workload_per_hour, HOUR, "workload an hour", workload, together[workload]),
            (budget.workload_per_day, DAY, "workload a day", workload, together[workload]),
            (budget.cluster_per_hour, HOUR, "cluster an hour", None, together.total()),
            (budget.cluster_per_day, DAY, "cluster a day", None, together.total()),
        ):
            if most is None:
                continue
            times = self._list_times(now - period, of)
            excess = len(times) + max(1, further) - most
            if excess > 0:
                # The oldest of these migrations have to leave the period.
                until = times[excess - 1] + period if excess <= len(times) else math.inf
                yield Deferral(until, f"the budget of {most} per {name} is spent")

    def _list_times(self, after: float, workload: Workload | None = None) -> list[float]:
        times = self._times.get(workload, [])
        return times[bisect_right(times, after) :]
