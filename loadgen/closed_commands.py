"""What the commands of clients that wait for their answers are called with."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from loadgen.parameters import Span, Url, csv_option, output_option

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
@csv_option
@_common
def closed(**given: Any) -> None:
    """Have so many CLIENTS send their next request as soon as they have an answer.

    A slow server slows them down, and what it would have been asked meanwhile is in no figure;
    `run` counts that too. Ctrl-C or SIGTERM ends it and shows the results so far.
    """
    from loadgen import overloading

    overloading.closed(**given)


def _span(option: str, seconds: int, what: str) -> Callable[[_Command], _Command]:
    return click.option(option, type=Span(), default=f"{seconds:g}s", show_default=True, help=what)


@click.command()
@click.option(
    "--clients",
    type=click.IntRange(1, 10_000),
    help="HOLD so many, without FIND.  [what FIND finds]",
)
@_span("--find-time", 60, "Of each number of clients that FIND tries.")
@_span("--hold-time", 900, "Of HOLD.")
@_span("--window", 30, "Of each of HOLD's windows.")
@_span("--p99", 1, "The p99 that a good window has at the most.")
@click.option(
    "--errors",
    type=click.FloatRange(0, 100),
    default=1.0,
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
def hpa(**given: Any) -> None:
    """Overload a service, and see how long its autoscaler takes until it is well again.

    FIND tries 10, 20, .. 100 clients that wait for their answers, until a window is bad; HOLD goes
    on with so many, window after window. Ctrl-C or SIGTERM ends it and shows the results so far.
    """
    from loadgen import overloading

    overloading.hpa(**given)
