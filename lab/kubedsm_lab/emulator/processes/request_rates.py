"""Request rates of pods from Prometheus, for autoscalers, instead of the Prometheus adapter.

The adapter queries on demand. This module queries periodically for all workloads, so a request
waits for nothing. Outdated rates count as missing.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import structlog

from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle

log = structlog.get_logger()

#: metric names: the adapter's for http_requests_total, and the papers'
NAMES = ("http_requests_per_second", "requests_per_second")
#: seconds between queries, deadline of a query, and age limit of its result
PERIOD, _PATIENCE, _FRESH = 2.0, 5.0, 10.0
_QUERY = "sum by (namespace, app) (rate(http_requests_total[30s]))"


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    data: _Data


class RequestRates:
    """Custom metrics source for autoscalers: request rates, queried from Prometheus."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._clock = clock
        self._throttle = LogThrottle(clock)
        self._rates: dict[tuple[str, str], float] = {}
        self._asked = float("-inf")

    def __call__(self, namespace: str, workload: str, metric: str) -> float | None:
        """Return a workload's latest request rate per second; None if unknown or outdated."""
        if metric not in NAMES or self._clock.monotonic() - self._asked > _FRESH:
            return None
        return self._rates.get((namespace, workload))

    async def run(self) -> None:
        """Query the pods' request rates from Prometheus periodically, until cancelled."""
        timeout = aiohttp.ClientTimeout(total=_PATIENCE)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            while True:
                try:
                    query = {"query": _QUERY}
                    async with http.get(self._url, params=query, raise_for_status=True) as answer:
                        self._rates = rates(await answer.read())
                    self._asked = self._clock.monotonic()
                except (aiohttp.ClientError, OSError, ValueError) as error:
                    reason = str(error) or type(error).__name__
                    self._throttle.log(
                        log.warning, "no request rates", reason, prometheus=self._url
                    )
                await self._clock.sleep(PERIOD)


@asynccontextmanager
async def request_rates(url: str, clock: Clock) -> AsyncIterator[RequestRates]:
    """Query the pods' request rates from Prometheus periodically, during the block."""
    asked = RequestRates(url, clock)
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(asked.run())
        try:
            yield asked
        finally:
            asking.cancel()


def rates(answer: bytes) -> dict[tuple[str, str], float]:
    """Parse Prometheus' response; return requests per second by namespace and app.

    Raises ValueError.
    """
    series = msgspec.json.decode(answer, type=_Answer).data.result
    return {
        (one.metric.get("namespace", ""), one.metric.get("app", "")): float(one.value[1])
        for one in series
    }
