"""Click parameter types that parse the option values of `loadgen`."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from loadgen.generators import PAPER_COEFFICIENTS
from loadgen.urls import url_problem

T = TypeVar("T")
_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_DURATION = re.compile(f"{_NUMBER}(ms|s|m|h)", re.ASCII)
_SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_SIZE = re.compile(f"{_NUMBER}(B|kB|KB|MB|GB)?", re.ASCII)
_BYTES: Mapping[str, int] = {"B": 1, "kB": 1000, "KB": 1000, "MB": 10**6, "GB": 10**9}
_CORES = re.compile(f"{_NUMBER}(m?)", re.ASCII)
_TOTALS = re.compile(f"{_NUMBER},{_NUMBER}", re.ASCII)
_NAMED_URL = re.compile(r"([^=/?#]+)=(.*)", re.DOTALL)


class Parsed(click.ParamType[T]):
    """Click parameter type that converts an option's text by a function; the function's ValueError
    becomes the error message.
    """

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            parsed: T = value
            return parsed
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _parse_duration(text: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration, such as 500ms, 90s or 2m")
    return float(match[1]) * _SECONDS[match[2]]


def _parse_span(text: str) -> float:
    seconds = _parse_duration(text)
    if not seconds:
        raise ValueError("0 seconds are too few")
    return seconds


def _parse_milliseconds(text: str) -> float:
    return _parse_duration(f"{text}ms" if text.isascii() and text.isdecimal() else text)


def _parse_size(text: str, unit: str = "B") -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size, such as 500B, 10KB or 1.5MB")
    return round(float(match[1]) * _BYTES[match[2] or unit])


def _parse_cores(text: str) -> float:
    match = _CORES.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} are not cores, such as 0.5 or 500m")
    return float(match[1]) / (1000 if match[2] else 1)


def _parse_services(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(f"{text!r} are not different names with commas between")
    if len(names) > len(PAPER_COEFFICIENTS):
        raise ValueError(f"{len(names)} names for the paper's {len(PAPER_COEFFICIENTS)} services")
    return names


def _parse_totals(text: str) -> Mapping[str, float]:
    match = _TOTALS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not cores and GB, such as 13,11")
    return {"cpu": float(match[1]), "memory": float(match[2]) * 1e9}


def _parse_url(text: str) -> str:
    problem = url_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


def _parse_endpoint(text: str) -> tuple[str | None, str]:
    match = _NAMED_URL.fullmatch(text)
    name, url = (match[1], match[2]) if match else (None, text)
    _parse_url(url.replace("{service}", "service"))
    return name, url


#: seconds from a number and its unit; a span is above 0; a number alone is in milliseconds
DURATION, SPAN = Parsed("duration", _parse_duration), Parsed("duration", _parse_span)
MILLISECONDS = Parsed("duration", _parse_milliseconds)
#: parameter of bytes with decimal unit prefixes; a number without a unit is in bytes, or in MB
SIZE, MEGABYTES = Parsed("size", _parse_size), Parsed("size", lambda text: _parse_size(text, "MB"))
#: written as a container's limit: 0.5, or 500m
CORES = Parsed("cores", _parse_cores)
#: identifiers of the paper's services, in their order
SERVICES = Parsed("names", _parse_services)
#: cores and GB (10^9 bytes), in the units of the paper's services
TOTALS = Parsed("cores,gb", _parse_totals)
URL = Parsed("url", _parse_url)
#: one endpoint URL for every service, or NAME=URL for a particular one
ENDPOINT = Parsed("[name=]url", _parse_endpoint)

output_option = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
csv_option = click.option(
    "--csv",
    "csv_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every request to this file.",
)
