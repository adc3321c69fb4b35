"""Curves of a panel, queried from Prometheus."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from prometheus_api_client import PrometheusConnect

Values = npt.NDArray[np.float64]

#: seconds that one query may take, and points of a curve
_TIMEOUT, _POINTS = 30, 180


@attrs.frozen(eq=False)
class Curve:
    """Series of a response: values at the requested times, NaN for missing ones."""

    name: str
    labels: Mapping[str, str]
    values: Values

    @property
    def last(self) -> float:
        known = self.values[~np.isnan(self.values)]
        return float(known[-1]) if known.size else float("nan")


class Prometheus:
    """Client for the time from `start` to `end`, seconds since the epoch.

    `scraped_every`: seconds. Queries raise `requests.RequestException` without a Prometheus, and
    `PrometheusApiClientException` for a refused query.
    """

    def __init__(
        self, url: str, start: float, end: float, scraped_every: float, chosen: Mapping[str, str]
    ) -> None:
        self._server = PrometheusConnect(url, timeout=_TIMEOUT)
        self._end = end
        self._step = max(1, round((end - start) / _POINTS))
        #: seconds since the epoch
        self.times: Values = np.arange(round(start), round(end) + 1, self._step, dtype=np.float64)
        rate = max(4 * scraped_every, self._step + scraped_every)
        self._variables = {
            **chosen,
            "__rate_interval": f"{rate:.0f}s",
            "__range": f"{max(1, round(end - start))}s",
        }

    def query_panel(self, panel: Mapping[str, Any]) -> list[list[Curve]]:
        """Return the series of each query."""
        return [self._query_curves(target) for target in panel["targets"]]

    def _query_curves(self, target: Mapping[str, Any]) -> list[Curve]:
        query = fill_variables(target["expr"], self._variables)
        if target.get("instant"):
            found = self._server.custom_query(query, params={"time": self._end})
            series = [(one["metric"], [one["value"]]) for one in found]
        else:
            between = (datetime.fromtimestamp(self.times[at], UTC) for at in (0, -1))
            found = self._server.custom_query_range(query, *between, step=str(self._step))
            series = [(one["metric"], one["values"]) for one in found]
        return [
            Curve(series_name(target, labels), labels, self._align(points))
            for labels, points in series
        ]

    def _align(self, points: list[tuple[float, str]]) -> Values:
        values = np.full(len(self.times), np.nan)
        for at, value in points:
            index = round((at - self.times[0]) / self._step)
            values[min(index, len(values) - 1)] = float(value)
        return values


def fill_variables(query: str, variables: Mapping[str, str]) -> str:
    """Replace Grafana's variables in a query. Raises KeyError for an unknown one."""
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda found: variables[found[1] or found[2]], query)


def series_name(target: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Return the legend's name of a series."""
    if form := target.get("legendFormat"):
        return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form)
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
