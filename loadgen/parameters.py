"""The kinds of values that the command's options take."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from loadgen.generators import PAPER_COEFFICIENTS
from loadgen.urls import url_problem


class Duration(click.ParamType[float]):
    """Seconds, from a number and its unit."""

    name = "duration"
    _syntax = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h)", re.ASCII)
    _seconds: Mapping[str, float] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        match = self._syntax.fullmatch(value)
        if match is None:
            self.fail(f"{value!r} is not a duration, such as 500ms, 90s or 2m", param, ctx)
        return float(match[1]) * self._seconds[match[2]]


class Span(Duration):
    """The same, above 0."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = super().convert(value, param, ctx)
        if not seconds:
            self.fail("0 seconds are too few", param, ctx)
        return seconds


class Milliseconds(Duration):
    """The same; a number alone is in milliseconds."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, str) and value.isascii() and value.isdecimal():
            value += "ms"
        return super().convert(value, param, ctx)


class Size(click.ParamType[int]):
    """Bytes, from a number and its unit, powers of 1000; a number alone is in `unit`."""

    name = "size"
    _syntax = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(B|kB|KB|MB|GB)?", re.ASCII)
    _bytes: Mapping[str, int] = {"B": 1, "kB": 1000, "KB": 1000, "MB": 10**6, "GB": 10**9}

    def __init__(self, unit: str = "B") -> None:
        self._unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = self._syntax.fullmatch(value)
        if match is None:
            self.fail(f"{value!r} is not a size, such as 500B, 10KB or 1.5MB", param, ctx)
        return round(float(match[1]) * self._bytes[match[2] or self._unit])


class Cores(click.ParamType[float]):
    """As a container's limit is written: 0.5, or 500m."""

    name = "cores"
    _syntax = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(m?)", re.ASCII)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = self._syntax.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} are not cores, such as 0.5 or 500m", param, ctx)
        return float(match[1]) / (1000 if match[2] else 1)


class Services(click.ParamType[tuple[str, ...]]):
    """Names for the paper's services, in their order."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in value.split(","))
        if not all(names) or len(set(names)) < len(names):
            self.fail(f"{value!r} are not different names with commas between", param, ctx)
        if len(names) > len(PAPER_COEFFICIENTS):
            self.fail(
                f"{len(names)} names for the paper's {len(PAPER_COEFFICIENTS)} services", param, ctx
            )
        return names


class Totals(click.ParamType[Mapping[str, float]]):
    """Cores and GB (10^9 bytes), in the units of the paper's services."""

    name = "cores,gb"
    _syntax = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?),([0-9]{1,9}(?:\.[0-9]{1,9})?)", re.ASCII)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Mapping[str, float]:
        if isinstance(value, Mapping):
            return value
        match = self._syntax.fullmatch(value)
        if match is None:
            self.fail(f"{value!r} is not cores and GB, such as 13,11", param, ctx)
        return {"cpu": float(match[1]), "memory": float(match[2]) * 1e9}


class Url(click.ParamType[str]):
    """Where requests can be sent."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        problem = url_problem(str(value))
        if problem is not None:
            self.fail(problem, param, ctx)
        return str(value)


class Endpoint(click.ParamType[tuple[str | None, str]]):
    """A URL for every service, or NAME=URL for one."""

    name = "[name=]url"
    _named = re.compile(r"([^=/?#]+)=(.*)", re.DOTALL)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str | None, str]:
        if isinstance(value, tuple):
            return value
        match = self._named.fullmatch(value)
        name, url = (match[1], match[2]) if match else (None, value)
        problem = url_problem(url.replace("{service}", "service"))
        if problem is not None:
            self.fail(problem, param, ctx)
        return name, url


output_option = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
csv_option = click.option(
    "--csv",
    "csv_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every request to this file.",
)
