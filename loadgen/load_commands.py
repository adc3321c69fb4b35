"""Click definitions of the load commands; implementations are imported on execution."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from loadgen.parameters import (
    CORES,
    DURATION,
    ENDPOINT,
    MEGABYTES,
    MILLISECONDS,
    SIZE,
    SPAN,
    URL,
    csv_option,
    output_option,
)


@click.command()
@click.argument("scenario", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--endpoint",
    "--url",
    "endpoints",
    type=ENDPOINT,
    multiple=True,
    help="Target URL instead of the scenario's: for one service with NAME=, for every service "
    "without; {service} stands for the service's name. May be repeated.",
)
@click.option(
    "--arrivals",
    type=click.Choice(["uniform", "poisson"]),
    default="uniform",
    show_default=True,
    help="Arrival process: equal gaps, or a Poisson process.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of poisson arrivals.")
@click.option(
    "--max-connections",
    type=click.IntRange(1, 60_000),
    default=256,
    show_default=True,
    help="Concurrent requests; further ones wait, and their wait counts.",
)
@click.option(
    "--timeout",
    type=SPAN,
    default="30s",
    show_default=True,
    help="Timeout of a request, from when it is due.",
)
@click.option(
    "--closed-loop",
    is_flag=True,
    help="One client per service that waits for each response, as DrStress: slow responses lower"
    " the rate.",
)
@csv_option
@output_option
def run(**given: Any) -> None:
    """Send the requests of SCENARIO over HTTP on schedule.

    Response latencies are measured from each request's due time: a slow server does not slow the
    load down. Ctrl-C or SIGTERM ends the run and shows the results so far.
    """
    from loadgen import sending

    sending.run(**given)


_Command = TypeVar("_Command", bound=Callable[..., Any])


def _add_common_options(command: _Command) -> _Command:
    """Add the options of closed-loop clients to a command (decorator)."""
    for option in (
        output_option,
        click.option(
            "--max-rate",
            type=click.FloatRange(0.001, 1e6),
            help="Maximum request rate of all clients together.  [no bound]",
        ),
        click.option(
            "--timeout",
            type=SPAN,
            default="15s",
            show_default=True,
            help="Timeout of a request, from when it is sent.",
        ),
        click.option("--url", type=URL, required=True, help="Target URL."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("number", metavar="CLIENTS", type=click.IntRange(1, 10_000))
@click.option(
    "--duration",
    "seconds",
    type=SPAN,
    default="30s",
    show_default=True,
    help="Time during which the clients send requests.",
)
@csv_option
@_add_common_options
def closed(**given: Any) -> None:
    """Run CLIENTS that send a request after each response.

    A slow server slows the clients down, and no figure contains the requests prevented meanwhile;
    `run` counts these too. Ctrl-C or SIGTERM ends the run and shows the results so far.
    """
    from loadgen import sending

    sending.closed(**given)


def _span_option(option: str, name: str, seconds: int, what: str) -> Callable[[_Command], _Command]:
    return click.option(
        option, name, type=SPAN, default=f"{seconds:g}s", show_default=True, help=what
    )


@click.command()
@click.option(
    "--clients",
    type=click.IntRange(1, 10_000),
    help="Clients of HOLD, without FIND.  [result of FIND]",
)
@_span_option(
    "--find-time", "find_seconds", 60, "Duration of each number of clients that FIND tries."
)
@_span_option("--hold-time", "hold_seconds", 900, "Duration of HOLD.")
@_span_option("--window", "window_seconds", 30, "Duration of a window of HOLD.")
@_span_option("--p99", "p99", 1, "Maximum p99 of a good window.")
@click.option(
    "--errors",
    type=click.FloatRange(0, 100),
    default=1.0,
    show_default=True,
    help="Maximum percentage of responses other than 200 in a good window.",
)
@click.option(
    "--streak",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Consecutive good windows after a bad one that count as recovery.",
)
@_add_common_options
def hpa(**given: Any) -> None:
    """Overload a service, and measure the time until its autoscaler has restored it.

    FIND tries 10, 20, .. 100 clients with one request each, until a window is bad; HOLD continues
    with that number, window after window. Ctrl-C or SIGTERM ends the run and shows the results so
    far.
    """
    from loadgen import sending

    sending.hpa(**given)


@click.command()
@click.option("--host", default="0.0.0.0", show_default=True)  # noqa: S104 - a pod's own address
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port; 0 takes any.",
)
@click.option("--name", default="loadgen", show_default=True, help="Name in the responses.")
@click.option(
    "--service-time",
    type=DURATION,
    default="0s",
    show_default=True,
    help="Minimum service time of a request; its work may take longer.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Concurrent requests; further ones wait in order of arrival.",
)
@click.option("--cpu", type=MILLISECONDS, default="0s", help="CPU time of a request.")
@click.option(
    "--cpu-limit",
    type=CORES,
    default="0",
    help="Cores that all requests share, as under a CFS quota, such as 500m.  [no limit]",
)
@click.option(
    "--pi-decimals",
    type=click.IntRange(0, 1_000_000),
    default=0,
    help="Decimals of pi computed per request.",
)
@click.option(
    "--memory", type=MEGABYTES, default="0", help="Memory held while it runs; MB without unit."
)
@click.option("--net", type=SIZE, default="0", help="Size of a response; bytes without unit.")
@click.option("--disk", type=SIZE, default="0", help="Bytes written to disk per request.")
@click.option(
    "--call",
    "calls",
    multiple=True,
    type=URL,
    help="Downstream service to call for each request, concurrently with others. May be repeated.",
)
@click.option(
    "--drain",
    type=DURATION,
    default="500ms",
    show_default=True,
    help="Time after SIGTERM in which new requests are still accepted.",
)
def serve(**given: Any) -> None:
    """Serve requests over HTTP at the cost given by the options.

    /metrics is for Prometheus, /healthz and /readyz for a kubelet; every other path does a
    request's work. SIGTERM or Ctrl-C ends the server after all accepted requests are answered.
    """
    from loadgen import server

    server.serve(**given)
