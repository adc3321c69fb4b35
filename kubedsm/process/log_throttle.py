"""Log lines by cause: what fails for many, or again and again, is said once, then with a count."""

import re
from collections.abc import Callable

import attrs

from kubedsm.process.clock import Clock

#: seconds between two lines of one cause
PERIOD = 60.0
#: causes told apart; whatever comes beyond them shares one line
MOST_CAUSES = 100
#: of a message, as much as tells its cause
_TELLING = 300
#: times, amounts, and names that were made up
_VARIES = re.compile(r"(?<!\S)[^\s\d]*\d\S*")
#: an API server names what it is about before it says that a right is missing
_FORBIDDEN_NAME = re.compile(r'"[^"]*"(?= is forbidden\b)')


def cause_of(message: str, *names: str) -> str:
    """What such messages have in common, whatever they are about: `names`, numbers, times.

    Its first word stays: the status of an answer.
    """
    text = _FORBIDDEN_NAME.sub("…", message[:_TELLING])
    for name in filter(None, names):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", "…", text)
    first, space, rest = text.partition(" ")
    return first + space + _VARIES.sub("…", rest)


@attrs.define
class _Said:
    until: float
    #: so many more since
    more: int = 0


class SaidByCause:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str], _Said] = {}

    def log(
        self, say: Callable[..., object], event: str, error: Exception | str, **about: str
    ) -> None:
        """Have a logger's method say it, unless that cause was heard of a moment ago."""
        names = [name for value in about.values() for name in value.split("/")]
        more = self.more(event, cause_of(str(error), *names))
        if more is not None:
            counted = {"more": more} if more else {}
            say(event, **about, error=str(error), **counted)

    def more(self, event: str, cause: str) -> int | None:
        """How many like it were passed over since it was last said; None: pass over this one."""
        now = self._clock.monotonic()
        said = self._said.get((event, cause)) or self._begun((event, cause), now)
        if now < said.until:
            said.more += 1
            return None
        passed_over, said.more = said.more, 0
        said.until = now + PERIOD
        return passed_over

    def _begun(self, cause: tuple[str, str], now: float) -> _Said:
        if len(self._said) >= MOST_CAUSES:
            self._said = {c: said for c, said in self._said.items() if now < said.until}
        if len(self._said) >= MOST_CAUSES:
            cause = (cause[0], "any other")
        return self._said.setdefault(cause, _Said(until=now))
