"""Implementation of the commands that generate load: run, closed and hpa."""

import asyncio
import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm.terminal.fitted_table import table
from loadgen.arrivals import Arrivals
from loadgen.driver import Clients, ClosedLoop, Limits
from loadgen.hpa import Plan, Played, hpa_report, line_of, play
from loadgen.measures import Latency, Measures, RequestRecorder, Results
from loadgen.playing import Play, outcomes_file, perform, unreachable
from loadgen.recovery import FIND, Sla, Window
from loadgen.scenario import Scenario, ScenarioError, load
from loadgen.stopping import stop_by_signals
from loadgen.transport import EndpointError, HttpTransport, TransportError

#: output columns without an interactive terminal
WIDTH = 120
#: ms of delay above which the generator is measured instead of the server
LATE = 20.0


def run(
    scenario: Path,
    *,
    endpoints: tuple[tuple[str | None, str], ...],
    arrivals: Arrivals,
    seed: int,
    max_connections: int,
    timeout: float,
    closed_loop: bool,
    csv_path: Path | None,
    output: str,
) -> None:
    if closed_loop and arrivals != "uniform":
        raise click.UsageError("--closed-loop excludes --arrivals: responses pace the requests")
    read = load(scenario)
    urls = _endpoint_urls(read, endpoints)
    limits = Limits(max_connections, timeout)
    try:
        planned = Play(read, urls, arrivals, seed, limits, closed_loop)
    except ScenarioError as error:
        raise ScenarioError(error.reason, source=str(scenario)) from None
    except EndpointError as error:
        raise EndpointError(f"{scenario}: {error}") from None
    began, results = asyncio.run(_perform_play(planned, csv_path))
    summary = {
        "scenario": str(scenario),
        "began": began.isoformat(timespec="milliseconds"),
        "arrivals": "closed loop" if closed_loop else arrivals,
        "seed": seed,
        "endpoints": urls,
        **results.as_json(),
    }
    show(summary if output == "json" else report(results, str(scenario)))


async def _perform_play(play: Play, csv_path: Path | None) -> tuple[datetime, Results]:
    async with HttpTransport() as transport:
        for service, reason in (await unreachable(play, transport)).items():
            echo(f"loadgen: warning: nothing listens for {service} at {reason}", err=True)
        with outcomes_file(csv_path) as write, stop_by_signals() as stop:
            return datetime.now(UTC), await perform(play, transport, stop, write)


def _endpoint_urls(
    scenario: Scenario, endpoints: Iterable[tuple[str | None, str]]
) -> dict[str, str]:
    """Return the URL of each service; an option for one service overrides the general one."""
    urls = {api.name: api.endpoint for api in scenario.apis}
    for name, url in sorted(endpoints, key=lambda endpoint: endpoint[0] is not None):
        if name is not None and name not in urls:
            raise click.BadParameter(
                f"no service {name!r} among {', '.join(urls)}", param_hint="'--endpoint'"
            )
        for service in urls if name is None else [name]:
            urls[service] = url.replace("{service}", service)
    return urls


def closed(*, url: str, csv_path: Path | None, output: str, **given: Any) -> None:
    """Send load with closed-loop clients to one URL and print the results; `given` are the fields
    of `Clients`.
    """
    load = Clients(**given)

    async def send_load() -> tuple[datetime, Results]:
        await _require_listener(url)
        with outcomes_file(csv_path) as write, stop_by_signals() as stop:
            recorder, began = RequestRecorder([url], write), datetime.now(UTC)
            loop = ClosedLoop(url, HttpTransport, recorder, load)
            await loop.drive(stop)
            seconds = min(loop.elapsed, load.seconds) if stop.is_set() else load.seconds
            return began, recorder.results(seconds, interrupted=stop.is_set())

    began, results = asyncio.run(send_load())
    summary = {
        "clients": load.number,
        "began": began.isoformat(timespec="milliseconds"),
        "url": url,
        **results.as_json(),
    }
    show(summary if output == "json" else report(results, f"Clients: {load.number}"))


def hpa(*, clients: int | None, p99: float, errors: float, output: str, **given: Any) -> None:
    """Run the autoscaler benchmark against one URL and print the results; `given` are the fields of
    `Plan`.
    """
    find = FIND if clients is None else (clients,)
    plan = Plan(find=find, sla=Sla(p99, errors / 100), **given)
    told = sys.stderr.isatty()

    def tell(number: int, seen: Window) -> None:
        if told:
            echo(line_of(number, seen, plan.sla), err=True)

    async def play_stages() -> tuple[datetime, Played]:
        await _require_listener(plan.url)
        with stop_by_signals() as stop:
            return datetime.now(UTC), await play(plan, HttpTransport, stop, tell)

    began, found = asyncio.run(play_stages())
    summary = {"began": began.isoformat(timespec="milliseconds"), **found.as_json()}
    show(summary if output == "json" else hpa_report(found))


async def _require_listener(url: str) -> None:
    """Raise EndpointError unless a server listens at the URL."""
    async with HttpTransport() as transport:
        try:
            await transport.contact(url)
        except TransportError as error:
            raise EndpointError(f"nothing listens at {url}: {error}") from error


def show(shown: dict[str, Any] | RenderableType) -> None:
    if isinstance(shown, dict):
        echo(json.dumps(shown, indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else WIDTH).print(shown)


def report(results: Results, title: str) -> RenderableType:
    headings = ("requests", "errors", "offered", "achieved", "mean", "p50", "p95", "p99", "max")
    services = results.services
    rows = [_table_row(name, measures) for name, measures in services.items()]
    if len(services) > 1:
        rows.append(_table_row("all", results.total))
    shown = table(
        ("service", *headings),
        rows,
        title=f"{title} (rates in requests/s, latency in ms)",
        numbers=headings,
        least=("mean", "offered", "max", "p50", "p99", "achieved"),
        look="compact",
        above_line=len(services),
    )
    return Group(shown, *(Text(line) for line in _list_remarks(results)))


def _table_row(name: str, measures: Measures) -> list[str]:
    return [
        name,
        str(measures.requests),
        str(sum(measures.errors.values())),
        f"{measures.offered:.2f}",
        f"{measures.achieved:.2f}",
        *_latency_cells(measures.latency),
    ]


def _latency_cells(latency: Latency | None) -> list[str]:
    if latency is None:
        return ["-"] * 5
    shown = (latency.mean, latency.p50, latency.p95, latency.p99, latency.max)
    return [f"{milliseconds:.1f}" for milliseconds in shown]


def _list_remarks(results: Results) -> list[str]:
    lines = [
        f"{name}: {', '.join(f'{count} {kind}' for kind, count in measures.errors.items())}"
        for name, measures in results.services.items()
        if measures.errors
    ]
    if results.interrupted:
        lines.append(f"Stopped after {results.seconds:.1f} s.")
    if results.total.unfinished:
        lines.append(
            f"Requests without an answer when the run was stopped: {results.total.unfinished}, the "
            f"oldest for {results.oldest_unfinished:.1f} s; no latency above contains them."
        )
    pacing = results.pacing
    if pacing is not None:
        lines.append(
            f"Pacing: 99 % of the requests were at hand within {pacing.p99:.1f} ms of when they "
            f"were due, all within {pacing.max:.1f} ms."
        )
        if pacing.p99 > LATE:
            lines.append("So the generator itself was late; latencies include its delay.")
    return lines
