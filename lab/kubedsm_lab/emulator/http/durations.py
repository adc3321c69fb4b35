"""How long ago, in the few characters that a column of `kubectl get` has room for."""

import datetime as dt

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


#: below this many seconds: the unit and its letter, and the smaller one shown beside it, if any
_STEPS = (
    (2 * _MINUTE, (1, "s"), None),
    (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
    (3 * _HOUR, (_MINUTE, "m"), None),
    (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
    (2 * _DAY, (_HOUR, "h"), None),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), None),
    (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
)


def human_duration(seconds: float) -> str:
    """Two units while the smaller one still says something, then one (90s, 5m30s, 3h, 2d4h, 1y).

    The steps are those of `duration.HumanDuration` in k8s.io/apimachinery.
    """
    whole = int(seconds)
    if whole < 0:
        # clocks a second apart are no error
        return "<invalid>" if whole < -1 else "0s"
    for limit, (unit, letter), smaller in _STEPS:
        if whole < limit:
            rest = whole % unit // smaller[0] if smaller else 0
            return f"{whole // unit}{letter}" + (f"{rest}{smaller[1]}" if smaller and rest else "")
    return f"{whole // _YEAR}y"


def age(timestamp: str | None, now: float) -> str:
    """The time since an RFC 3339 timestamp; `now` in seconds since the epoch."""
    if not timestamp:
        return "<unknown>"
    return human_duration(now - dt.datetime.fromisoformat(timestamp).timestamp())
