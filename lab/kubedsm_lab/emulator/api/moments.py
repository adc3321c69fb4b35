"""The API's timestamps, whole seconds in RFC 3339, from and to seconds since the epoch."""

import datetime as dt
from functools import lru_cache


def rfc3339(wall: float) -> str:
    return _rendered(int(wall))


@lru_cache(maxsize=1024)
def _rendered(second: int) -> str:
    moment = dt.datetime.fromtimestamp(second, dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)
def seconds(timestamp: str) -> float:
    return dt.datetime.fromisoformat(timestamp.upper()).timestamp()
