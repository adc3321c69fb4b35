"""What the commands that send a scenario, or check this machine, are called with."""

from pathlib import Path
from typing import Any

import click

from loadgen.parameters import Duration, Endpoint, Span, csv_option, output_option


@click.command()
@click.argument("scenario", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--endpoint",
    "--url",
    "endpoints",
    type=Endpoint(),
    multiple=True,
    help="Where requests go instead of where the scenario says: for one service with NAME=, for "
    "every one without; {service} is the service's name. May be repeated.",
)
@click.option(
    "--arrivals",
    type=click.Choice(["uniform", "poisson"]),
    default="uniform",
    show_default=True,
    help="Equal gaps, or those of independent users.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of poisson arrivals.")
@click.option(
    "--max-connections",
    type=click.IntRange(1, 60_000),
    default=256,
    show_default=True,
    help="Requests under way at once; others wait, and their time counts.",
)
@click.option(
    "--timeout",
    type=Span(),
    default="30s",
    show_default=True,
    help="A request is given up that long after it was due.",
)
@csv_option
@output_option
def run(**given: Any) -> None:
    """Send the requests of SCENARIO over HTTP, each when it is due, and measure the answers.

    A slow server does not slow the load down, and latencies count from when a request was due.
    Ctrl-C or SIGTERM ends the run and shows the results so far.
    """
    from loadgen import sending

    sending.run(**given)


@click.command()
@click.option("--rate", type=click.FloatRange(1, 10_000), default=200.0, show_default=True)
@click.option("--duration", type=Duration(), default="30s", show_default=True, help="Of each run.")
@click.option("--delay", type=Duration(), default="50ms", show_default=True)
@click.option("--stall", type=Duration(), default="5s", show_default=True)
@output_option
def check(**given: Any) -> None:
    """Measure a local server whose latency is known, to see that this machine measures rightly.

    The first server answers everything after a fixed delay, the second one stalls once. Exit code
    1 if the rate, the median or the p99 is not what it must be.
    """
    from loadgen import sending

    sending.check(**given)
