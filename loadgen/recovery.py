"""Time to recover of an autoscaled service: stages FIND and HOLD.

FIND raises the number of clients until the SLA breaks. HOLD keeps that number, window after window,
while the autoscaler adds pods, until windows keep the SLA again. As in the HPA benchmark of the
score-cache paper's authors (Table 4).
"""

from collections.abc import Sequence
from typing import Literal

import attrs

from loadgen.measures import nearest_rank

#: clients of FIND's stages, seconds of each
FIND = range(10, 101, 10)
FIND_SECONDS = 60.0
#: seconds of HOLD, and of each of its windows
HOLD_SECONDS = 900.0
WINDOW_SECONDS = 30.0

Mode = Literal["recovered", "no_degradation", "no_recovery_within_hold"]


@attrs.frozen
class Sla:
    """Limits of a good window."""

    #: seconds
    p99: float = 1.0
    #: share of the requests
    errors: float = 0.01


@attrs.frozen
class Window:
    """Results of the clients in a stretch of time."""

    #: start from a common origin, and length, in seconds
    start: float
    seconds: float
    #: requests that ended in the window
    requests: int
    #: seconds, by nearest rank; None without requests
    p99: float | None
    #: answers other than 200, and missing answers
    errors: int

    @classmethod
    def of(
        cls, start: float, seconds: float, requests: int, latencies: Sequence[float], errors: int
    ) -> "Window":
        """latencies: seconds of the requests whose latency counts."""
        p99 = nearest_rank(sorted(latencies), 99) if latencies else None
        return cls(start, seconds, requests, p99, errors)

    @property
    def end(self) -> float:
        return self.start + self.seconds

    def good(self, sla: Sla) -> bool:
        """Return whether the window keeps the SLA; a window without an answer does not."""
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
    """Return the first clients of FIND's stages that break the SLA, else the last; or None."""
    broken = (clients for clients, window in stages if not window.good(sla))
    return next(broken, stages[-1][0] if stages else None)


def recovery(windows: Sequence[Window], sla: Sla, streak: int = 1) -> Recovery:
    """Return the end of the first `streak` good windows in a row after a bad one."""
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
    """Return the share of good windows; None without windows."""
    return sum(window.good(sla) for window in windows) / len(windows) if windows else None
