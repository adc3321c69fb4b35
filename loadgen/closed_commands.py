"""The commands of clients that wait for their answers."""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from loadgen.closed import Clients, ClosedLoop
from loadgen.hpa import Plan, Played, play
from loadgen.hpa_report import hpa_report, line_of
from loadgen.load_commands import output_option, show
from loadgen.measures import RequestRecorder, Results
from loadgen.parameters import Span, Url
from loadgen.playing import outcomes_file
from loadgen.recovery import FIND, FIND_SECONDS, HOLD_SECONDS, WINDOW_SECONDS, Sla, Window
from loadgen.report import report
from loadgen.stopping import stopped_by_signals
from loadgen.transport import EndpointError, HttpTransport, TransportError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _common(command: _Command) -> _Command:
    """What each of them is told."""
    for option in (
        output_option,
        click.option(
            "--max-rate",
            type=click.FloatRange(0.001, 1e6),
            help="Requests a second of all clients together, at the most.  [no bound]",
        ),
        click.option(
            "--timeout",
            type=Span(),
            default="15s",
            show_default=True,
            help="A request is given up that long after it was sent.",
        ),
        click.option("--url", type=Url(), required=True, help="Where requests go."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("clients", type=click.IntRange(1, 10_000))
@click.option(
    "--duration", type=Span(), default="30s", show_default=True, help="In which requests are sent."
)
@click.option(
    "--csv",
    "csv_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every request to this file.",
)
@_common
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
    """Have so many CLIENTS send their next request as soon as they have an answer.

    A slow server slows them down, and what it would have been asked meanwhile is in no figure;
    `run` counts that too. Ctrl-C or SIGTERM ends it and shows the results so far.
    """
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


def _span(option: str, seconds: float, what: str) -> Callable[[_Command], _Command]:
    return click.option(option, type=Span(), default=f"{seconds:g}s", show_default=True, help=what)


@click.command()
@click.option(
    "--clients",
    type=click.IntRange(1, 10_000),
    help="HOLD so many, without FIND.  [what FIND finds]",
)
@_span("--find-time", FIND_SECONDS, "Of each number of clients that FIND tries.")
@_span("--hold-time", HOLD_SECONDS, "Of HOLD.")
@_span("--window", WINDOW_SECONDS, "Of each of HOLD's windows.")
@_span("--p99", Sla().p99, "The p99 that a good window has at the most.")
@click.option(
    "--errors",
    type=click.FloatRange(0, 100),
    default=100 * Sla().errors,
    show_default=True,
    help="The answers other than 200 that a good window has at the most, in percent.",
)
@click.option(
    "--streak",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Good windows in a row, after a bad one, that are a recovery.",
)
@_common
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
    """Overload a service, and see how long its autoscaler takes until it is well again.

    FIND tries 10, 20, .. 100 clients that wait for their answers, until a window is bad; HOLD goes
    on with so many, window after window. Ctrl-C or SIGTERM ends it and shows the results so far.
    """
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
            click.echo(line_of(number, seen, plan.sla), err=True)

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
