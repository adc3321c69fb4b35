"""Load scenarios in the file format of DrStress.

A file is `{"apis": [{"name", "endpoint", "intervals": [{"api_call_period", "cycle_length"}]}]}`,
both in milliseconds: for `cycle_length`, one request every `api_call_period`. As in DrStress, the
first request of an interval comes one period after its start. So an interval shorter than its
period is silent. A period of 0 is rejected: DrStress would send as fast as answers come.
"""

import itertools
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from kubedsm.terminal.problems import Problem


class ScenarioError(Problem, ValueError):
    """Invalid scenario: file, place and reason in one line."""

    def __init__(self, reason: str, place: str = "", source: str = "") -> None:
        self.reason = reason
        self.place = place
        self.source = source
        super().__init__(": ".join(part for part in (source, place, reason) if part))


@contextmanager
def _at(place: str) -> Iterator[None]:
    try:
        yield
    except ScenarioError as error:
        inner = error.place
        joined = place + (inner if inner.startswith("[") else f".{inner}" if inner else "")
        raise ScenarioError(error.reason, joined, error.source) from None


def _milliseconds(_: object, attribute: "attrs.Attribute[float]", value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScenarioError("not a number of milliseconds", attribute.name)
    if not 0 < value < math.inf:
        flat_out = attribute.name == "api_call_period" and value == 0
        hint = "; for silence, give a period longer than cycle_length" if flat_out else ""
        raise ScenarioError(
            f"{value:g} is not a number of milliseconds above 0{hint}", attribute.name
        )


def _text(_: object, attribute: "attrs.Attribute[str]", value: object) -> None:
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise ScenarioError("not a line of text", attribute.name)


def _some(_: object, attribute: "attrs.Attribute[tuple[Any, ...]]", value: tuple[Any, ...]) -> None:
    if not value:
        raise ScenarioError("empty", attribute.name)


@attrs.frozen
class Interval:
    """One request every `api_call_period` ms for `cycle_length` ms."""

    api_call_period: float = attrs.field(validator=_milliseconds)
    cycle_length: float = attrs.field(validator=_milliseconds)

    @classmethod
    def of(cls, rate: float, seconds: float) -> "Interval":
        """Return an interval of that rate; less than one request in all is silence."""
        length = 1000 * seconds
        return cls(1000 / rate if rate else 2 * length, length)

    @property
    def rate(self) -> float:
        """Return requests a second, without the rounding error of the period."""
        silent = self.api_call_period > self.cycle_length
        return 0.0 if silent else round(1000 / self.api_call_period, 9)


@attrs.frozen
class Api:
    name: str = attrs.field(validator=_text)
    endpoint: str = attrs.field(validator=_text)
    intervals: tuple[Interval, ...] = attrs.field(validator=_some)

    @property
    def ends(self) -> tuple[float, ...]:
        """Return the end of each interval in seconds from the start of the scenario."""
        lengths = (interval.cycle_length for interval in self.intervals)
        return tuple(end / 1000 for end in itertools.accumulate(lengths))

    def rate(self, seconds: float) -> float:
        """Return requests a second at that moment; an interval excludes its end."""
        if seconds < 0:
            return 0.0
        for interval, end in zip(self.intervals, self.ends, strict=True):
            if seconds < end:
                return interval.rate
        return 0.0


@attrs.frozen
class Scenario:
    apis: tuple[Api, ...] = attrs.field(validator=_some)

    def __attrs_post_init__(self) -> None:
        for index, name in enumerate(self.services):
            if name in self.services[:index]:
                raise ScenarioError(f"{name!r} occurs twice", f"apis[{index}].name")

    @property
    def services(self) -> tuple[str, ...]:
        return tuple(api.name for api in self.apis)

    @property
    def duration(self) -> float:
        """Return the end of the last interval in seconds."""
        return max(api.ends[-1] for api in self.apis)

    def rate(self, service: str, seconds: float) -> float:
        """Return requests a second to the service at that moment; 0 outside the scenario.

        Raises ScenarioError for an unknown service.
        """
        for api in self.apis:
            if api.name == service:
                return api.rate(seconds)
        raise ScenarioError(f"no service {service!r} among {', '.join(self.services)}")


def load(path: str | Path) -> Scenario:
    """Read a file; - is standard input. Raises ScenarioError, which names the file."""
    if str(path) == "-":
        return loads(sys.stdin.buffer.read() if sys.stdin else b"", "standard input")
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ScenarioError(error.strerror or str(error), source=str(path)) from None
    return loads(text, str(path))


def loads(text: str | bytes, source: str = "scenario") -> Scenario:
    """Parse JSON. Raises ScenarioError, which names the source."""
    try:
        return _scenario(_decoded(text))
    except ScenarioError as error:
        raise ScenarioError(error.reason, error.place, source) from None


def dumps(scenario: Scenario) -> str:
    """Return JSON that `loads` reads as the same scenario, and DrStress as the same load."""
    return json.dumps(attrs.asdict(scenario), indent=2) + "\n"


def _decoded(text: str | bytes) -> object:
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        return json.loads(text)
    except UnicodeDecodeError:
        raise ScenarioError("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        if not error.doc.strip():
            raise ScenarioError("empty") from None
        where = f"line {error.lineno}, column {error.colno}"
        raise ScenarioError(f"not JSON: {error.msg}, {where}") from None
    except RecursionError:
        raise ScenarioError("nested too deeply") from None
    except ValueError:
        raise ScenarioError("a number with too many digits") from None


def _scenario(value: object) -> Scenario:
    apis = []
    for index, item in enumerate(_list_at(value, "apis")):
        with _at(f"apis[{index}]"):
            apis.append(_api(item))
    return Scenario(tuple(apis))


def _api(value: object) -> Api:
    intervals = []
    for index, item in enumerate(_list_at(value, "intervals")):
        with _at(f"intervals[{index}]"):
            period, length = _value_at(item, "api_call_period"), _value_at(item, "cycle_length")
            intervals.append(Interval(period, length))
    return Api(_value_at(value, "name"), _value_at(value, "endpoint"), tuple(intervals))


def _value_at(value: object, key: str) -> Any:
    if not isinstance(value, dict):
        raise ScenarioError("not an object")
    if key not in value:
        raise ScenarioError("missing", key)
    return value[key]


def _list_at(value: object, key: str) -> list[Any]:
    found = _value_at(value, key)
    if not isinstance(found, list):
        raise ScenarioError("not a list", key)
    return found
