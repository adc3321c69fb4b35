"""Clients that wait for their answers: what is done, and what is shown of it."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import attrs

from kubedsm.terminal.echo import echo
from loadgen.closed import Clients, ClosedLoop
from loadgen.hpa import Plan, Played, play
from loadgen.hpa_report import hpa_report, line_of
from loadgen.measures import RequestRecorder, Results
from loadgen.playing import outcomes_file
from loadgen.recovery import FIND, Sla, Window
from loadgen.report import report
from loadgen.sending import show
from loadgen.stopping import stopped_by_signals
from loadgen.transport import EndpointError, HttpTransport, TransportError


def closed(
    clients: int,
    *,
    url: str,
    duration: float,
    timeout: float,
    max_rate: float | None,
    csv_path: Path | None,
    output: str,
) -> None:
    load = Clients(clients, duration, timeout, max_rate)

    async def sent() -> tuple[datetime, Results]:
        await _contact(url)
        with outcomes_file(csv_path) as write, stopped_by_signals() as stop:
            recorder, began = RequestRecorder([url], write), datetime.now(UTC)
            loop = ClosedLoop(url, url, HttpTransport, recorder, load)
            await loop.drive(stop)
            seconds = min(loop.elapsed, duration) if stop.is_set() else duration
            # Nothing was due at any moment of its own.
            results = recorder.results(seconds, interrupted=stop.is_set())
            return began, attrs.evolve(results, pacing=None)

    began, results = asyncio.run(sent())
    summary = {"clients": clients, "began": _moment(began), "url": url, **results.as_json()}
    show(summary if output == "json" else report(results, f"{clients} clients"))


def hpa(
    *,
    url: str,
    clients: int | None,
    find_time: float,
    hold_time: float,
    window: float,
    p99: float,
    errors: float,
    streak: int,
    timeout: float,
    max_rate: float | None,
    output: str,
) -> None:
    plan = Plan(
        url,
        FIND if clients is None else (clients,),
        find_time,
        hold_time,
        window,
        Sla(p99, errors / 100),
        streak,
        timeout,
        max_rate,
    )
    told = sys.stderr.isatty()

    def tell(number: int, seen: Window) -> None:
        if told:
            echo(line_of(number, seen, plan.sla), err=True)

    async def played() -> tuple[datetime, Played]:
        await _contact(url)
        with stopped_by_signals() as stop:
            return datetime.now(UTC), await play(plan, HttpTransport, stop, tell)

    began, found = asyncio.run(played())
    summary = {"began": _moment(began), **found.as_json()}
    show(summary if output == "json" else hpa_report(found))


def _moment(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds")


async def _contact(url: str) -> None:
    """Raises EndpointError if nothing listens there."""
    async with HttpTransport() as transport:
        try:
            await transport.contact(url)
        except TransportError as error:
            raise EndpointError(f"nothing listens at {url}: {error}") from error
