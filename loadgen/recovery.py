"""How long a service breaks its promise before its autoscaler has caught up: FIND, then HOLD.

FIND looks for a number of clients that is too much; HOLD keeps that up, window after window, while
the autoscaler adds pods, until windows are good again. As in the HPA benchmark of the score-cache
paper's authors (Table 4).
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
    """What a window has to keep."""

    #: seconds at the most
    p99: float = 1.0
    #: share of the requests at the most
    errors: float = 0.01


@attrs.frozen
class Window:
    """What clients saw for some time."""

    #: seconds from whatever all windows are counted from, and its length
    start: float
    seconds: float
    #: that ended in it
    requests: int
    #: seconds, by nearest rank; None of no requests
    p99: float | None
    #: answers other than 200, and no answers
    errors: int

    @classmethod
    def of(
        cls, start: float, seconds: float, requests: int, latencies: Sequence[float], errors: int
    ) -> "Window":
        """Latencies, in seconds, are of those requests of which they count."""
        p99 = nearest_rank(sorted(latencies), 99) if latencies else None
        return cls(start, seconds, requests, p99, errors)

    @property
    def end(self) -> float:
        return self.start + self.seconds

    def good(self, sla: Sla) -> bool:
        """One in which nothing ended is not: whoever waits has no service."""
        if self.p99 is None:
            return False
        return self.p99 <= sla.p99 and self.errors <= sla.errors * self.requests


@attrs.frozen
class Recovery:
    mode: Mode
    #: from HOLD's start to the end of the streak: the time to recover. 0: nothing to recover from;
    #: -1: longer than HOLD, a censored figure
    seconds: float


def clients_to_hold(stages: Sequence[tuple[int, Window]], sla: Sla) -> int | None:
    """Of FIND's (clients, window): the first that break the SLA, else the last; None of none."""
    broken = (clients for clients, window in stages if not window.good(sla))
    return next(broken, stages[-1][0] if stages else None)


def recovery(windows: Sequence[Window], sla: Sla, streak: int = 1) -> Recovery:
    """When the first `streak` good windows in a row after a bad one were over."""
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
    """The share of windows that are good; None of no windows."""
    return sum(window.good(sla) for window in windows) / len(windows) if windows else None
