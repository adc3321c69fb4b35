"""Command line of `loadgen`: generate, show and send load scenarios."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm.terminal.fitted_table import table
from kubedsm.terminal.running import Commands, raise_file_limit, run
from kubedsm.terminal.whole_files import write_whole
from loadgen import generators
from loadgen.generators import (
    PAPER_CLUSTER_TOTAL,
    PAPER_COEFFICIENTS,
    PAPER_EDGE_TOTAL,
    PAPER_REQUESTS,
)
from loadgen.parameters import DURATION, SERVICES, TOTALS
from loadgen.scenario import Scenario, dumps, load


def _format_totals(amounts: Mapping[str, float]) -> str:
    """Format CPU and memory totals as an option value, in the notation that the type
    TOTALS parses.
    """
    return f"{amounts['cpu']:g},{amounts['memory'] / 1e9:g}"


cycles_option = click.option(
    "--cycles", type=click.IntRange(1, 100_000), default=12, show_default=True
)
cycle_length_option = click.option(
    "--cycle-length", "cycle_seconds", type=DURATION, default="90s", show_default=True
)
services_option = click.option(
    "--services",
    type=SERVICES,
    default=",".join(PAPER_COEFFICIENTS),
    show_default=True,
    help="What the paper's services A, B, C and D are called; fewer leave out the last ones.",
)
endpoint_option = click.option(
    "--endpoint",
    default="http://{service}/",
    show_default=True,
    help="Where requests go; {service} is the service's name.",
)
out_option = click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="[stdout]"
)


#: modules of the commands, imported on execution
MODULES = dict.fromkeys(("closed", "hpa", "run", "serve"), "loadgen.load_commands")


@click.group(
    cls=Commands,
    modules=MODULES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="kubedsm", prog_name="loadgen", help="The version.")
def loadgen() -> None:
    """Generate load: scenarios in DrStress's file format, and a service that takes the load."""


@loadgen.group()
def generate() -> None:
    """Generate a load scenario for the paper's services."""


@generate.command("normal")
@click.argument("mean", type=float)
@click.argument("sigma", type=float)
@cycles_option
@cycle_length_option
@click.option("--seed", type=int, default=0, show_default=True)
@services_option
@endpoint_option
@out_option
def generate_normal(services: tuple[str, ...], out: Path | None, **given: Any) -> None:
    """Generate random demand: MEAN times the capacity of the paper's edge, deviation SIGMA.

    In each cycle the replicas of each service are drawn again; each replica stands for 5 requests a
    second.
    """
    coefficients = dict(zip(services, PAPER_COEFFICIENTS.values(), strict=False))
    _write_scenario(generators.normal(coefficients=coefficients, **given), out)


@generate.command("wavy")
@click.argument("base", type=float)
@click.argument("waves", metavar="SERVICES", type=int)
@cycles_option
@cycle_length_option
@click.option(
    "--max-step",
    type=click.IntRange(1),
    help="Most replicas by which a service changes from one cycle to the next.  [any number]",
)
@click.option(
    "--edge",
    "edge_total",
    type=TOTALS,
    default=_format_totals(PAPER_EDGE_TOTAL),
    show_default=True,
    help="What the edge has for the services: cores and GB.",
)
@click.option(
    "--cluster",
    "cluster_total",
    type=TOTALS,
    default=_format_totals(PAPER_CLUSTER_TOTAL),
    show_default=True,
    help="What edge and cloud have together.",
)
@services_option
@endpoint_option
@out_option
def generate_wavy(
    base: float, waves: int, services: tuple[str, ...], out: Path | None, **given: Any
) -> None:
    """Generate demand of BASE times the edge's capacity, and waves of the first SERVICES services.

    One service after another ramps up linearly to what the cluster holds, at most 10 replicas, and
    back; the others stay at their base. No part is random, so there is no seed.
    """
    requests = dict(zip(services, PAPER_REQUESTS.values(), strict=False))
    _write_scenario(generators.wavy(base, waves, requests=requests, **given), out)


def _write_scenario(scenario: Scenario, out: Path | None) -> None:
    if out is None:
        echo(dumps(scenario), nl=False)
    else:
        write_whole(out, dumps(scenario))


@loadgen.command()
@click.argument("scenario", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def show(scenario: Path, output: str) -> None:
    """Print each service's requests per second in SCENARIO.

    One line per cycle.
    """
    shown = load(scenario)
    cycles = _list_cycles(shown)
    if output == "json":
        summary = {
            "services": shown.services,
            "duration": shown.duration,
            "cycles": [
                {"start": start, "end": end, "rates": rates} for start, end, rates in cycles
            ],
        }
        echo(json.dumps(summary, indent=2))
        return
    rows = (
        (str(number), f"{start:g}", f"{end:g}", *(f"{rate:g}" for rate in rates.values()))
        for number, (start, end, rates) in enumerate(cycles, 1)
    )
    headings = ("cycle", "from s", "to s", *shown.services)
    title = f"{scenario}: requests a second"
    Console().print(
        table(headings, rows, title=title, numbers=headings[1:], least=("to s", "from s"))
    )


def _list_cycles(scenario: Scenario) -> list[tuple[float, float, dict[str, float]]]:
    """Return the scenario's intervals of constant request rates: start and end in seconds, and
    requests per second by service.
    """
    ends = sorted({end for api in scenario.apis for end in api.ends})
    return [
        (start, end, {name: scenario.rate(name, start) for name in scenario.services})
        for start, end in zip([0.0, *ends], ends, strict=False)
    ]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the `loadgen` command line; exit with 0 on success, 2 for invalid arguments, or 1 after
    printing the error in one line.
    """
    # Each client has a connection; the usual soft limit allows 1,024 files.
    raise_file_limit()
    run(loadgen, "loadgen", arguments)
