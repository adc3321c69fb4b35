"""The command `loadgen`: make scenarios, look at them."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from loadgen import generators
from loadgen.generators import PAPER_COEFFICIENTS, GeneratorError
from loadgen.scenario import Scenario, ScenarioError, dumps, load


class _Duration(click.ParamType[float]):
    """Seconds, from a number and its unit."""

    name = "duration"
    _syntax = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h)", re.ASCII)
    _seconds: Mapping[str, float] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        match = self._syntax.fullmatch(value)
        if match is None:
            self.fail(f"{value!r} is not a duration, such as 500ms, 90s or 2m", param, ctx)
        return float(match[1]) * self._seconds[match[2]]


class _Services(click.ParamType[tuple[str, ...]]):
    """Names for the paper's services, in their order."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in value.split(","))
        if not all(names) or len(set(names)) < len(names):
            self.fail(f"{value!r} are not different names with commas between", param, ctx)
        if len(names) > len(PAPER_COEFFICIENTS):
            self.fail(
                f"{len(names)} names for the paper's {len(PAPER_COEFFICIENTS)} services", param, ctx
            )
        return names


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
def loadgen() -> None:
    """Load scenarios in the file format of DrStress."""


@loadgen.group(no_args_is_help=False)
def generate() -> None:
    """Draw a scenario at random, from a seed."""


@generate.command("normal")
@click.argument("mean", type=float)
@click.argument("sigma", type=float)
@click.option("--cycles", type=click.IntRange(1, 100_000), default=12, show_default=True)
@click.option("--cycle-length", type=_Duration(), default="90s", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--services",
    type=_Services(),
    default=",".join(PAPER_COEFFICIENTS),
    show_default=True,
    help="What the paper's services A, B, C and D are called; fewer leave out the last ones.",
)
@click.option(
    "--endpoint",
    default="http://{service}/",
    show_default=True,
    help="Where requests go; {service} is the service's name.",
)
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="[stdout]")
def generate_normal(
    mean: float,
    sigma: float,
    *,
    cycles: int,
    cycle_length: float,
    seed: int,
    services: tuple[str, ...],
    endpoint: str,
    out: Path | None,
) -> None:
    """Demand about MEAN times what the edge of the paper's cluster holds, SIGMA its deviation.

    Every cycle each service's replicas are drawn anew, and 5 requests a second for each of them
    become its rate.
    """
    scenario = generators.normal(
        mean,
        sigma,
        seed=seed,
        cycles=cycles,
        cycle_seconds=cycle_length,
        coefficients=dict(zip(services, PAPER_COEFFICIENTS.values(), strict=False)),
        endpoint=endpoint,
    )
    if out is None:
        click.echo(dumps(scenario), nl=False)
    else:
        out.write_text(dumps(scenario), encoding="utf-8")


@loadgen.command()
@click.argument("scenario", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def show(scenario: Path, output: str) -> None:
    """The requests a second that SCENARIO offers each service, cycle by cycle."""
    shown = load(scenario)
    cycles = _cycles(shown)
    if output == "json":
        summary = {
            "services": shown.services,
            "duration": shown.duration,
            "cycles": [
                {"start": start, "end": end, "rates": rates} for start, end, rates in cycles
            ],
        }
        click.echo(json.dumps(summary, indent=2))
        return
    table = Table("cycle", "from s", "to s", title=f"{scenario}: requests a second")
    for service in shown.services:
        table.add_column(service, justify="right")
    for number, (start, end, rates) in enumerate(cycles, 1):
        table.add_row(
            str(number), f"{start:g}", f"{end:g}", *(f"{rate:g}" for rate in rates.values())
        )
    Console().print(table)


def _cycles(scenario: Scenario) -> list[tuple[float, float, dict[str, float]]]:
    """Start, end and every service's rate, wherever any rate may change."""
    ends = sorted({end for api in scenario.apis for end in api.ends})
    return [
        (start, end, {name: scenario.rate(name, start) for name in scenario.services})
        for start, end in zip([0.0, *ends], ends, strict=False)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; end the process with 0, 2 for wrong usage, or 1, and one line said why."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        return loadgen.main(arguments, prog_name="loadgen", standalone_mode=False) or 0
    except click.Abort:
        return _refuse("interrupted", 1)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "loadgen"
        reason = error.format_message().rstrip(".")
        return _refuse(f"{reason}. See {command} --help.", error.exit_code)
    except click.ClickException as error:
        return _refuse(error.format_message(), error.exit_code)
    except (ScenarioError, GeneratorError) as error:
        return _refuse(str(error), 1)
    except OSError as error:
        return _refuse(f"{error.filename or 'output'}: {error.strerror or error}", 1)


def _refuse(reason: str, code: int) -> int:
    click.echo(f"loadgen: error: {' '.join(reason.split())}", err=True)
    return code
