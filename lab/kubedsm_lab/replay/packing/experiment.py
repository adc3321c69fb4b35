"""`kubedsm replay --preset packing`: instances packed in several processes.

A file stores every attempt; attempts in the file are not repeated.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import click
import msgspec

from kubedsm.solvers.available import SolverKind, explain_missing, is_installed, solver_of
from kubedsm_lab.output_files import append_whole
from kubedsm_lab.replay.findings import Findings, Preset
from kubedsm_lab.replay.packing.attempts import Attempt, attempt
from kubedsm_lab.replay.packing.instances import PRIORITIES, SHAPES, Shape, seeds
from kubedsm_lab.replay.packing.tables import answer, rankings, sections
from kubedsm_lab.replay.runner import Workers, processors, progress, run_all, spread

_ORIGIN = "**Computed** on snapshots: nothing here was measured on a real cluster."
_METHOD = "Computed on snapshots: nothing is emulated, or measured on a cluster"
#: time limit in seconds of programs solved to optimality; calls have their own limits
_PATIENCE = 600.0

Case = tuple[Shape, int]


@attrs.frozen
class Plan:
    #: seeds of each shape
    seeds: int
    priorities: Sequence[int]
    #: time limits of calls, in seconds
    limits: Sequence[float]
    #: None: HiGHS if it is installed
    solver: SolverKind | None = None
    #: directory of the file of attempts
    out: Path | None = None

    def cases(self, workers: Workers) -> list[Case]:
        """Return the instances to pack as pairs (shape, seed), ordered by seed, so a prefix is a
        smaller plan.
        """
        draw = partial(seeds, number=self.seeds)
        chosen = run_all("drawing instances", draw, SHAPES, workers)
        return [
            (msgspec.structs.replace(shape, priorities=priorities), seed)
            for at_once in zip(*chosen, strict=True)
            for shape, seed in zip(SHAPES, at_once, strict=True)
            for priorities in self.priorities
        ]


def run(plan: Plan, workers: Workers) -> Findings:
    """Pack all instances of a plan and return the experiment's results. Raises OSError, and
    UsageError without the solver.
    """
    solver = plan.solver or ("highs" if is_installed("highs") else "off")
    if missing := explain_missing(solver):
        raise click.UsageError(missing)
    kept = None if plan.out is None else plan.out / f"calls-{solver}.jsonl"
    cases = plan.cases(workers)
    packing = attempts(cases, plan.limits, solver, workers, kept)
    try:
        done = list(progress("packing", packing, len(cases)))
    except msgspec.DecodeError as error:
        raise click.ClickException(f"{kept}: {error}") from None
    done.sort(key=lambda each: (each.shape, each.seed))
    solved_by = "the heuristic alone" if solver == "off" else f"the heuristic and {solver}"
    results = {"emulated": False, "solver": solver, "jobs": workers, "instances": done}
    return Findings(
        answer=answer(done),
        origin=_ORIGIN,
        method=f"{_METHOD}; {solved_by}, on {processors()} processors, {workers} calls at a time",
        sections=sections(done),
        rankings=rankings(done, min(plan.limits)),
        results=msgspec.json.encode(results) + b"\n",
    )


PRESET = Preset(
    Plan(seeds=2, priorities=(4,), limits=(1.0,)),
    Plan(seeds=100, priorities=PRIORITIES, limits=(1.0, 10.0, 20.0)),
    run,
)


def attempts(
    cases: Sequence[Case],
    limits: Sequence[float],
    solver: SolverKind,
    workers: Workers,
    kept: Path | None,
) -> Iterator[Attempt]:
    """Yield the packing results stored in the file, then compute the missing ones and append these
    to the file.

    Raises OSError, and msgspec.DecodeError for a file of other contents.
    """
    done = dict[Case, Attempt]()
    if kept is not None and kept.exists():
        lines = kept.read_bytes().splitlines()
        read = (msgspec.json.decode(line, type=Attempt) for line in lines)
        done = {(each.shape, each.seed): each for each in read}
    wanted = {(seconds, True) for seconds in limits} | {(min(limits), False)}
    found = {case: _select_calls(wanted, done[case]) for case in cases if case in done}
    yield from (each for each in found.values() if each is not None)
    left = [case for case in cases if found.get(case) is None]
    for each in spread(partial(_attempt_case, limits=limits, solver=solver), left, workers):
        if kept is not None:
            append_whole(kept, msgspec.json.encode(each) + b"\n")
        yield each


def _attempt_case(case: Case, limits: Sequence[float], solver: SolverKind) -> Attempt:
    return attempt(*case, limits, solver_of(solver, _PATIENCE))


def _select_calls(wanted: Collection[tuple[float, bool]], one: Attempt) -> Attempt | None:
    """Return the attempt with only the solver calls in `wanted` (seconds, gaps); None if a wanted
    call is missing.
    """
    calls = tuple(call for call in one.calls if (call.seconds, call.gaps) in wanted)
    whole = not one.calls or len(calls) == len(wanted)
    return msgspec.structs.replace(one, calls=calls) if whole else None
