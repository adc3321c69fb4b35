"""Monitoring server for the kubelet and Prometheus: /healthz, /livez, /readyz and /metrics.

A separate thread derives metrics from a value, concurrently with scheduling. Scrapes run one at a
time, and share a reading for a second.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Self

import structlog
from aiohttp import web
from prometheus_client import PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from kubedsm.app.assembly import Runtime
from kubedsm.observability.gauges import families
from kubedsm.observability.health import Health, alive, joining, readiness
from kubedsm.observability.instruments import Families, Instruments
from kubedsm.observability.reading import Leadership, read
from kubedsm.process.clock import Clock
from kubedsm.process.http_limits import METRICS, AddressUnavailableError, listen

log = structlog.get_logger()

ADDRESS = ("127.0.0.1", 10271)
#: grace period of unfinished requests at shutdown, in seconds
GRACE = 1.0
#: validity of a reading in seconds
FRESH = 1.0


@asynccontextmanager
async def probes_answered(address: tuple[str, int] | None) -> AsyncIterator[None]:
    """Serve health endpoints during startup: live, but not ready.

    Raise AddressUnavailableError as `Monitoring` does.
    """

    runner = _make_runner(_health_routes(lambda: alive({}), joining))
    try:
        await _start_listening(runner, address)
        yield
    finally:
        await runner.cleanup()


class Monitoring:
    """Context manager of the monitoring server (metrics and health checks) at `url`.

    Entering raises AddressUnavailableError. Without an address `ADDRESS` is used, if it is free.
    """

    def __init__(
        self,
        runtime: Runtime,
        instruments: Instruments,
        clock: Clock,
        address: tuple[str, int] | None = None,
        leadership: Callable[[], Leadership] = Leadership,
    ) -> None:
        self._runtime = runtime
        self._instruments = instruments
        self._clock = clock
        self._address = address
        self._leadership = leadership
        self._scraping = asyncio.Semaphore()
        self._last: tuple[float, bytes] | None = None
        ProcessCollector(registry=instruments.registry)
        PlatformCollector(registry=instruments.registry)
        health = _health_routes(
            lambda: alive(runtime.supervisor.list_failing()), self._check_readiness
        )
        self._runner = _make_runner([*health, web.get("/metrics", self._respond_metrics)])
        #: empty if the default address is unavailable
        self.url = ""

    async def __aenter__(self) -> Self:
        self.url, unavailable = await _start_listening(self._runner, self._address)
        if unavailable:
            log.warning("no metrics", error=unavailable)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def add_routes(self, app: web.Application) -> None:
        """Serve /readyz and /metrics in the application, too: for `kubedsm check` and `status`."""
        ready = _health_route("/readyz", self._check_readiness)
        app.add_routes([ready, web.get("/metrics", self._respond_metrics)])

    def _check_readiness(self) -> Health:
        return readiness(self._runtime, self._leadership())

    async def _respond_metrics(self, _: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        return web.Response(body=await self.scrape(), headers=headers)

    async def scrape(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        async with self._scraping:
            gauges = await self._format_gauges()
            return generate_latest(self._instruments.registry) + gauges

    async def _format_gauges(self) -> bytes:
        now = self._clock.monotonic()
        if self._last is None or now - self._last[0] >= FRESH:
            reading = read(self._runtime, self._leadership(), self._clock.wall())
            text = await asyncio.to_thread(
                lambda: generate_latest(Families(tuple(families(reading))))
            )
            self._last = now, text
        return self._last[1]


def _health_route(path: str, check: Callable[[], Health]) -> web.RouteDef:
    async def respond(request: web.Request) -> web.Response:
        health = check()
        text = health.text(verbose="verbose" in request.query)
        return web.Response(text=text, status=200 if health.well else 503)

    return web.get(path, respond)


def _health_routes(live: Callable[[], Health], ready: Callable[[], Health]) -> list[web.RouteDef]:
    probes = (("/healthz", live), ("/livez", live), ("/readyz", ready))
    return [_health_route(path, check) for path, check in probes]


def _make_runner(routes: Iterable[web.RouteDef]) -> web.AppRunner:
    app = web.Application()
    app.add_routes(routes)
    return web.AppRunner(app, access_log=None, shutdown_timeout=GRACE)


async def _start_listening(
    runner: web.AppRunner, address: tuple[str, int] | None
) -> tuple[str, str]:
    """Start the monitoring server; return its URL, or why the default address is unavailable."""
    try:
        return await listen(runner, *(address or ADDRESS), METRICS), ""
    except AddressUnavailableError as error:
        if address is not None:
            raise
        return "", str(error)
