"""Which Events are the same again, or one of very many: what users read must stay readable.

The same of one object is one Event with a count. More than `SIMILAR` that differ in their words
alone are combined, and an object of which ever more is to be said has some of it left out. Figures
and words are those of client-go's EventCorrelator.
"""

import attrs

from kubedsm.process.backoff import TokenBucket

SIMILAR = 10
#: seconds in which Events count as similar, or as the same
WITHIN = 600.0
#: Events about one object at once, and seconds until there may be one more
BURST, REFILL = 25, 300.0
COMBINED = "(combined from similar events): "


@attrs.define
class Series:
    """What is one Event: `name` it has once it is written."""

    prefix: str
    #: on the clock
    last: float
    name: str = ""
    count: int = 0


@attrs.define
class _Object:
    bucket: TokenBucket = attrs.field(factory=lambda: TokenBucket(BURST, REFILL))
    #: by reason, and by what is said
    series: dict[tuple[str, str], Series] = attrs.field(factory=dict)


class EventSeries:
    def __init__(self) -> None:
        self._objects: dict[str, _Object] = {}

    def take(self, uid: str, reason: str, gist: str, times: int, now: float) -> Series | None:
        """Count it in with what has its gist; None if it is too much."""
        about = self._objects.setdefault(uid, _Object())
        if not about.bucket.take_now(now):
            return None
        about.series = {k: each for k, each in about.series.items() if now - each.last <= WITHIN}
        prefix, similar = "", sum(other == reason for other, _ in about.series)
        if similar >= SIMILAR and (reason, gist) not in about.series:
            gist = prefix = COMBINED
        series = about.series.setdefault((reason, gist), Series(prefix, now))
        series.count += times
        series.last = now
        return series

    def forget(self, uid: str) -> None:
        """The object is gone, or what was said of it is over."""
        self._objects.pop(uid, None)

    def __len__(self) -> int:
        return len(self._objects)
