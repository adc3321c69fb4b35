"""Computation of an autoscaled service's time to recover, from measurement windows of the stages
FIND (search for an overload) and HOLD (recovery).

FIND raises the number of clients until the SLA breaks. HOLD keeps that number, window after window,
while the autoscaler adds pods, until windows keep the SLA again. As in the HPA benchmark of the
score-cache paper's authors (Table 4).
"""

from collections.abc import Sequence
from typing import Literal

import attrs

from loadgen.measures import nearest_rank

#: concurrent clients of the stages of FIND, and seconds of each stage
FIND = range(10, 101, 10)
FIND_SECONDS = 60.0
#: seconds of HOLD, and of each measurement window
HOLD_SECONDS = 900.0
WINDOW_SECONDS = 30.0

Mode = Literal["recovered", "no_degradation", "no_recovery_within_hold"]


@attrs.frozen
class Sla:
    """Service-level objective of a measurement window: p99 and error rate."""

    #: seconds
    p99: float = 1.0
    #: maximum fraction of failed requests
    errors: float = 0.01


@attrs.frozen
class Window:
    """Requests, errors and p99 latency of all clients in one measurement window."""

    #: start from a common origin, and length, in seconds
    start: float
    seconds: float
    #: requests completed within the window
    requests: int
    #: 99th percentile in seconds, by nearest rank; None without requests
    p99: float | None
    #: responses other than 200, and absent responses
    errors: int

    @classmethod
    def of(
        cls, start: float, seconds: float, requests: int, latencies: Sequence[float], errors: int
    ) -> "Window":
        """Compute a window's measurements; `latencies` (seconds) are those included in the p99."""
        p99 = nearest_rank(sorted(latencies), 99) if latencies else None
        return cls(start, seconds, requests, p99, errors)

    @property
    def end(self) -> float:
        return self.start + self.seconds

    def good(self, sla: Sla) -> bool:
        """Return whether the window keeps the SLA; a window without responses does not."""
        if self.p99 is None:
            return False
        return self.p99 <= sla.p99 and self.errors <= sla.errors * self.requests


@attrs.frozen
class Recovery:
    mode: Mode
    #: time to recover, from HOLD's start to the end of the streak; 0: no bad window; -1: longer
    #: than HOLD (censored)
    seconds: float


def clients_to_hold(stages: Sequence[tuple[int, Window]], sla: Sla) -> int | None:
    """Return the number of clients for the recovery stage HOLD: the smallest number that violated
    the SLA in the search stage FIND.

    If none does, return the largest; None without windows.
    """
    broken = (clients for clients, window in stages if not window.good(sla))
    return next(broken, stages[-1][0] if stages else None)


def recovery(windows: Sequence[Window], sla: Sla, streak: int = 1) -> Recovery:
    """Return the service's recovery: the seconds until `streak` consecutive windows meet the SLA
    after a violation, or the mode without recovery.
    """
    bad, good = False, 0
    for window in windows:
        if not window.good(sla):
            bad, good = True, 0
        elif bad:
            good += 1
            if good == streak:
                return Recovery("recovered", window.end - windows[0].start)
    return Recovery("no_recovery_within_hold", -1.0) if bad else Recovery("no_degradation", 0.0)


def ok_rate(windows: Sequence[Window], sla: Sla) -> float | None:
    """Return the proportion (0..1) of measurement windows that meet the SLA; None
    without windows.
    """
    return sum(window.good(sla) for window in windows) / len(windows) if windows else None
