"""`kubedsm replay --preset packing`: the sweep, and what is written of it."""

import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import click
import msgspec
from rich.progress import Progress

from kubedsm.solvers.available import SolverKind, installed, lacking
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm.terminal.whole_files import folder_for
from kubedsm_lab.replay.files import put, put_page
from kubedsm_lab.replay.packing.attempts import Attempt
from kubedsm_lab.replay.packing.sweep import FULL, SHORT, Plan, attempts
from kubedsm_lab.replay.packing.tables import COMPUTED, SECTIONS, answer
from kubedsm_lab.replay.provenance import Provenance, told, typed
from kubedsm_lab.replay.runner import processors
from kubedsm_lab.replay.sections import as_markdown

_COMPUTED = "**Computed** on snapshots: nothing here was measured on a real cluster."


def plan(seeds: int | None, seconds: Sequence[float], *, full: bool) -> Plan:
    usual = FULL if full else SHORT
    return attrs.evolve(usual, seeds=seeds or usual.seeds, limits=seconds or usual.limits)


def run(
    planned: Plan, solver: SolverKind | None, jobs: int | None, out: Path | None, output: str
) -> None:
    """Raises OSError, and UsageError if the solver that is asked for is not installed."""
    if solver is None:
        solver = usual_solver()
    if missing := lacking(solver):
        raise click.UsageError(missing)
    jobs = jobs or processors()
    kept = None
    if out is not None:
        folder_for(out)
        kept = out / f"calls-{solver}.jsonl"
    done = carried_out(planned, solver, jobs, kept)
    made = as_markdown(SECTIONS, done, about(solver, jobs))
    made = told(answer(done), Provenance(typed(), _COMPUTED), made)
    if output == "json":
        sys.stdout.buffer.write(as_json(done, solver, jobs) + b"\n")
        sys.stdout.buffer.flush()
    else:
        echo(made, nl=False)
    if out is not None:
        put(out, _reproducible(done) + b"\n", made)
        put_page(out, "kubedsm replay --preset packing", made)


def usual_solver() -> SolverKind:
    return "highs" if installed("highs") else "off"


def carried_out(
    plan: Plan, solver: SolverKind, jobs: int, kept: Path | None = None
) -> list[Attempt]:
    """kept: a file of what was packed before, to which all else is added."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        drawing = progress.add_task("drawing instances", total=None)
        cases = plan.cases(jobs)
        progress.remove_task(drawing)
        task = progress.add_task("packing", total=len(cases))
        done = []
        try:
            for each in attempts(cases, plan.limits, solver, jobs, kept):
                done.append(each)
                progress.advance(task)
        except msgspec.DecodeError as error:
            raise click.ClickException(f"{kept}: {error}") from None
    return sorted(done, key=lambda each: (each.shape, each.seed))


def about(solver: SolverKind, jobs: int) -> str:
    asked = "the heuristic alone" if solver == "off" else f"the heuristic and {solver}"
    return f"{COMPUTED}; {asked}, on {processors()} processors, {jobs} calls at a time"


def as_json(done: Sequence[Attempt], solver: SolverKind, jobs: int) -> bytes:
    """All of it; under `calls` of each stands what depends on the time that the machine took."""
    return msgspec.json.encode(
        {"emulated": False, "solver": solver, "jobs": jobs, "instances": done}
    )


def _reproducible(done: Sequence[Attempt]) -> bytes:
    """What is the same wherever and whenever it is computed."""
    instances = [
        {name: value for name, value in msgspec.to_builtins(each).items() if name != "calls"}
        for each in done
    ]
    return msgspec.json.encode({"emulated": False, "instances": instances})
