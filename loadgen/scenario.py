"""Load scenarios in the file format of DrStress.

A file is `{"apis": [{"name", "endpoint", "intervals": [{"api_call_period", "cycle_length"}]}]}`,
both in milliseconds: for `cycle_length`, one request every `api_call_period`. As in DrStress, the
first request of an interval follows one period after the start: an interval shorter than the period
is silent. A period of 0 is rejected: DrStress would send as fast as responses come.
"""

import itertools
import json
import math
import sys
from bisect import bisect_right
from functools import cached_property
from pathlib import Path

import msgspec

from kubedsm.terminal.problems import Problem


class ScenarioError(Problem, ValueError):
    """The scenario is invalid; the message names file, location and cause in one line."""

    def __init__(self, reason: str, place: str = "", source: str = "") -> None:
        self.reason = reason
        self.place = place
        self.source = source
        super().__init__(": ".join(part for part in (source, place, reason) if part))


def _check_text(name: str, value: str) -> None:
    if not value.isprintable() or not value.strip():
        raise ScenarioError("not a line of text", name)


class Interval(msgspec.Struct, frozen=True):
    """Interval of constant rate: one request every `api_call_period` ms for `cycle_length` ms."""

    api_call_period: float
    cycle_length: float

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not 0 < value < math.inf:
                flat_out = name == "api_call_period" and value == 0
                hint = "; for silence, give a period longer than cycle_length" if flat_out else ""
                reason = f"{value:g} is not a number of milliseconds above 0{hint}"
                raise ScenarioError(reason, name)

    @classmethod
    def of(cls, rate: float, seconds: float) -> "Interval":
        """Return an interval of `seconds` at `rate` requests per second; an interval shorter than
        the period between requests has none.
        """
        length = 1000 * seconds
        return cls(1000 / rate if rate else 2 * length, length)

    @property
    def rate(self) -> float:
        """Return the interval's requests per second, corrected for rounding of the period."""
        silent = self.api_call_period > self.cycle_length
        return 0.0 if silent else round(1000 / self.api_call_period, 9)


class Api(msgspec.Struct, frozen=True, dict=True):
    name: str
    endpoint: str
    intervals: tuple[Interval, ...]

    def __post_init__(self) -> None:
        _check_text("name", self.name)
        _check_text("endpoint", self.endpoint)
        if not self.intervals:
            raise ScenarioError("empty", "intervals")

    @cached_property
    def ends(self) -> tuple[float, ...]:
        """Return the end of each interval of the service's load, in seconds since the scenario's
        beginning.
        """
        lengths = (interval.cycle_length for interval in self.intervals)
        return tuple(end / 1000 for end in itertools.accumulate(lengths))

    def rate(self, seconds: float) -> float:
        """Return the requests per second at a time; an interval excludes its end."""
        at = bisect_right(self.ends, seconds)
        return self.intervals[at].rate if 0 <= seconds < self.ends[-1] else 0.0


class Scenario(msgspec.Struct, frozen=True):
    apis: tuple[Api, ...]

    def __post_init__(self) -> None:
        if not self.apis:
            raise ScenarioError("empty", "apis")
        for index, name in enumerate(self.services):
            if name in self.services[:index]:
                raise ScenarioError(f"{name!r} occurs twice", f"apis[{index}].name")

    @property
    def services(self) -> tuple[str, ...]:
        return tuple(api.name for api in self.apis)

    @property
    def duration(self) -> float:
        """Return the scenario's duration in seconds: the end of the last interval."""
        return max(api.ends[-1] for api in self.apis)

    def rate(self, service: str, seconds: float) -> float:
        """Return a service's requests per second at a time; 0 outside the scenario.

        Raises ScenarioError for an unknown service.
        """
        for api in self.apis:
            if api.name == service:
                return api.rate(seconds)
        raise ScenarioError(f"no service {service!r} among {', '.join(self.services)}")


def load(path: str | Path) -> Scenario:
    """Read a scenario file; - is standard input. Raises ScenarioError, which names the file."""
    if str(path) == "-":
        return loads(sys.stdin.buffer.read() if sys.stdin else b"", "standard input")
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ScenarioError(error.strerror or str(error), source=str(path)) from None
    return loads(text, str(path))


def loads(text: str | bytes, source: str = "scenario") -> Scenario:
    """Parse a scenario in JSON. Raises ScenarioError, which names the source."""
    if not text.strip():
        raise ScenarioError("empty", source=source)
    try:
        decoded = json.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
        return msgspec.convert(decoded, Scenario)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        place = [path.removeprefix(".").removesuffix("`")]
        if isinstance(error.__cause__, ScenarioError):
            reason = error.__cause__.reason
            place.append(error.__cause__.place)
        raise ScenarioError(reason, ".".join(filter(None, place)), source) from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"not JSON: {error}", source=source) from None


def dumps(scenario: Scenario) -> str:
    """Return the scenario as JSON in DrStress's format; `loads` restores an equal scenario."""
    return json.dumps(msgspec.to_builtins(scenario), indent=2) + "\n"
