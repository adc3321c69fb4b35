"""Run of a scenario: sends the load to HTTP endpoints, or to a substitute transport."""

import asyncio
import csv
import io
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import attrs
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from kubedsm.terminal.console import Console
from kubedsm.terminal.whole_files import whole_file
from loadgen.arrivals import Arrivals, schedule
from loadgen.driver import Driver, Limits, Load, ScenarioLoop
from loadgen.measures import Outcome, RequestRecorder, Results
from loadgen.scenario import Scenario, ScenarioError
from loadgen.transport import EndpointError, Transport, TransportError
from loadgen.urls import url_problem

#: refresh interval of the progress bar in seconds
_TICK = 0.25


@attrs.frozen
class Play:
    """Validated plan of a load run: scenario, URL of each service, distribution of arrivals, and
    request limits.

    Raises ScenarioError for a scenario without requests, EndpointError for an invalid URL.
    """

    scenario: Scenario
    #: endpoints by service
    urls: Mapping[str, str]
    arrivals: Arrivals = "uniform"
    seed: int = 0
    limits: Limits = attrs.field(factory=Limits)
    #: whether each service has one client that waits for each response
    closed_loop: bool = False

    def __attrs_post_init__(self) -> None:
        if not self.loaded:
            raise ScenarioError("no request is in it, every interval is silent")
        for service in self.loaded:
            problem = url_problem(self.urls[service])
            if problem is not None:
                raise EndpointError(f"endpoint of {service}: {problem}")

    @property
    def loaded(self) -> list[str]:
        """Return the names of the services to which the scenario sends requests."""
        return [api.name for api in self.scenario.apis if any(part.rate for part in api.intervals)]


async def unreachable(play: Play, transport: Transport) -> dict[str, str]:
    """Connect to each service's URL; return the error by name of each unreachable service. Raises
    EndpointError if all are unreachable.
    """

    async def contact(service: str) -> None:
        try:
            await transport.contact(play.urls[service])
        except TransportError as error:
            reasons[service] = f"{play.urls[service]}: {error}"

    reasons: dict[str, str] = {}
    async with asyncio.TaskGroup() as group:
        for service in play.loaded:
            group.create_task(contact(service))
    found = {service: reasons[service] for service in play.loaded if service in reasons}
    if len(found) == len(play.loaded):
        each = ", ".join(f"{service} at {reason}" for service, reason in found.items())
        raise EndpointError(f"nothing listens for {each}")
    return found


async def perform(
    play: Play,
    transport: Transport,
    stop: asyncio.Event,
    write: Callable[[Outcome], None] = lambda _: None,
) -> Results:
    """Send the scenario's requests until its end, or until `stop` is set; return the results.

    Each outcome is passed to `write`, whose exceptions end the run in an exception group.
    """
    scenario = play.scenario
    recorder = RequestRecorder(scenario.services, write)
    load: Load
    if play.closed_loop:
        load = ScenarioLoop(scenario, play.urls, transport, recorder, play.limits.timeout)
    else:
        arrivals = schedule(scenario, play.arrivals, play.seed)
        load = Driver(arrivals, play.urls, transport, recorder, play.limits)
    async with _progress_bar(load, recorder, scenario.duration):
        await load.drive(stop)
    interrupted = stop.is_set()
    seconds = min(load.elapsed, scenario.duration) if interrupted else scenario.duration
    return recorder.results(seconds, interrupted=interrupted)


@contextmanager
def outcomes_file(path: Path | None) -> Iterator[Callable[[Outcome], None]]:
    """Open a CSV file for request results during the block; yield the function that appends one row
    per completed request.
    """
    if path is None:
        yield lambda _: None
        return
    # A server may name itself in bytes that are no text.
    text = partial(io.TextIOWrapper, encoding="utf-8", errors="backslashreplace", newline="")
    with whole_file(path) as binary, text(binary) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["service", "due_s", "latency_ms", "status", "error", "served_by"])

        def write(outcome: Outcome) -> None:
            due, service = outcome.arrival
            latency = f"{1000 * outcome.latency:.3f}"
            ended = (outcome.status, outcome.error, outcome.served_by)
            rows.writerow([service, f"{due:.6f}", latency, *ended])

        yield write


@asynccontextmanager
async def _progress_bar(
    driver: Load, recorder: RequestRecorder, duration: float
) -> AsyncIterator[None]:
    """Display the progress of a load run on an interactive terminal during the block."""
    if not sys.stderr.isatty():
        yield
        return
    with Progress(
        TextColumn("{task.fields[sent]} requests, {task.fields[failed]} errors"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
    ) as progress:
        bar = progress.add_task("", total=duration, sent=0, failed=0)

        async def follow() -> None:
            while True:
                progress.update(
                    bar,
                    completed=min(driver.elapsed, duration),
                    sent=recorder.offered,
                    failed=recorder.failed,
                    refresh=True,
                )
                await asyncio.sleep(_TICK)

        async with asyncio.TaskGroup() as group:
            following = group.create_task(follow())
            yield
            following.cancel()
