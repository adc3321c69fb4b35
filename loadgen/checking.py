"""Self-test of the load generator against a server with known behaviour."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
from aiohttp import web

from loadgen.measures import Results
from loadgen.playing import Play, perform
from loadgen.scenario import Api, Interval, Scenario
from loadgen.transport import HttpTransport

#: relative to the schedule's rate
PACING_TOLERANCE = 0.01
#: tolerance in seconds of the median above the artificial delay: both processes share this machine
LATENCY_TOLERANCE = 0.01
#: tolerance relative to the theoretical p99 with the stall
STALL_TOLERANCE = 0.1
#: fraction of the experiment: a shorter stall affects less than one percent of the requests
SHORTEST_STALL = 0.02
#: beginning of the stall as a part of the duration
_STALL_BEGINS = 1 / 3


@attrs.frozen
class KnownServer:
    """Artificial service that responds after `delay`; requests in the stall begin at its end."""

    #: seconds
    delay: float
    stall: float = 0.0
    stall_begins: float = 0.0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Return the URL on loopback. The stall is positioned relative to the first request."""
        loop = asyncio.get_running_loop()
        first: float | None = None

        async def answer(_: web.BaseRequest) -> web.Response:
            nonlocal first
            now = loop.time()
            first = now if first is None else first
            begins = first + self.stall_begins
            waits = begins + self.stall - now if begins <= now < begins + self.stall else 0.0
            await asyncio.sleep(waits + self.delay)
            return web.Response(text="ok\n")

        runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
        finally:
            await runner.cleanup()


@attrs.frozen
class Check:
    rate: float = 200.0
    #: seconds
    duration: float = 30.0
    delay: float = 0.05
    stall: float = 5.0

    @property
    def expected_p99(self) -> float:
        """Return the theoretical p99 of the measurement with the stall, in seconds.

        Each request waits for the remainder of the stall. The slowest hundredth of all requests are
        due in its first duration / 100 seconds.
        """
        return self.stall - self.duration / 100 + self.delay


@attrs.frozen
class Finding:
    what: str
    expected: str
    measured: str
    holds: bool


@attrs.frozen
class Checked:
    steady: Results
    stalled: Results
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "findings": [attrs.asdict(finding) for finding in self.findings],
            "steady": self.steady.as_json(),
            "stalled": self.stalled.as_json(),
        }


async def run_check(check: Check, stop: asyncio.Event) -> Checked:
    """Measure without and with the stall; `stop` shortens the runs."""
    steady = await _measure_server(KnownServer(check.delay), check, stop)
    stalling = KnownServer(check.delay, check.stall, check.duration * _STALL_BEGINS)
    stalled = await _measure_server(stalling, check, stop)
    return Checked(steady, stalled, findings(check, steady, stalled))


async def _measure_server(server: KnownServer, check: Check, stop: asyncio.Event) -> Results:
    async with server.listening() as url, HttpTransport() as transport:
        intervals = (Interval.of(check.rate, check.duration),)
        play = Play(Scenario((Api("server", url, intervals),)), {"server": url})
        return await perform(play, transport, stop)


def findings(check: Check, steady: Results, stalled: Results) -> tuple[Finding, ...]:
    pace, offered = steady.total.achieved, steady.total.offered
    median = steady.total.latency.p50 / 1000 if steady.total.latency else 0.0
    p99 = stalled.total.latency.p99 / 1000 if stalled.total.latency else 0.0
    errors = sum(sum(results.total.errors.values()) for results in (steady, stalled))
    return (
        Finding(
            "requests a second",
            f"{offered:g} within {PACING_TOLERANCE:.0%}",
            f"{pace:.2f}",
            offered > 0 and abs(pace / offered - 1) <= PACING_TOLERANCE,
        ),
        Finding(
            "median latency",
            f"{1000 * check.delay:g} ms, at most {1000 * LATENCY_TOLERANCE:g} ms more",
            f"{1000 * median:.1f} ms",
            check.delay <= median <= check.delay + LATENCY_TOLERANCE,
        ),
        Finding(
            f"p99 latency with a stall of {check.stall:g} s",
            f"{1000 * check.expected_p99:.0f} ms within {STALL_TOLERANCE:.0%}",
            f"{1000 * p99:.1f} ms",
            abs(p99 / check.expected_p99 - 1) <= STALL_TOLERANCE,
        ),
        Finding("errors", "0", str(errors), errors == 0),
    )
