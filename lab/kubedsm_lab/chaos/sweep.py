"""Sweep: every fault at every injection point of every workload, or a fair sample of them.

A reference run shows the calls and events. Up to the moment at which its fault strikes, a run
equals its reference, so each fault finds its injection point.
"""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import attrs

from kubedsm.terminal.fitted_table import FittedTable, table
from kubedsm_lab.chaos.faults import CRASHES, OUTCOMES, WORLD, Fault
from kubedsm_lab.chaos.incidents import STEPS, incidents
from kubedsm_lab.chaos.perturbations import PERTURBATIONS
from kubedsm_lab.chaos.process import INTERRUPTIONS, PROCESS
from kubedsm_lab.chaos.seam import CALL, WATCH, Moment
from kubedsm_lab.chaos.trace import Injection, Outcome, play, trace_lines, without_particulars
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.replay.runner import spread

Cell = tuple[str, str, str]
#: response to evictions only
_OF_EVICTIONS = "429-budget"
#: injections for each task of a worker process
_CHUNK = 16
#: seconds within which the next event must follow to be swapped
_SOON = 0.5


@attrs.frozen(slots=True)
class Verdict:
    """Result of a run, without its history."""

    injection: Injection
    struck: bool
    violations: tuple[str, ...]
    #: lines of the trace
    length: int = 0


@cache
def reference(workload: str, seed: int, *, paced: bool = False) -> Outcome:
    """Play a run without a fault. Raises RuntimeError if the run violates an invariant."""
    outcome = play(Injection(workload, None, seed, paced))
    if outcome.violations:
        raise RuntimeError(f"{outcome.injection.command}: {'; '.join(outcome.violations)}")
    return outcome


def injections(workloads: Iterable[str], seed: int, *, paced: bool = False) -> list[Injection]:
    """Return every injection of the workloads."""
    return [
        Injection(workload, fault, seed, paced)
        for workload in workloads
        for fault in _list_faults(reference(workload, seed, paced=paced).history)
        if fault.family != PROCESS or WORKLOADS[workload].unhurried
    ]


def _list_faults(history: Sequence[Moment]) -> Iterator[Fault]:
    for index, moment in enumerate(history):
        if moment.point in STEPS:
            for what, passing in incidents(moment.point):
                yield Fault(WORLD, moment.point, moment.number, what, passing)
        if moment.family == CALL:
            yield from _faults_of_request(moment)
            for what in INTERRUPTIONS:
                yield Fault(PROCESS, moment.point, moment.number, what)
        elif moment.family == WATCH:
            yield from _faults_of_event(moment, history[index + 1 :])


def _faults_of_request(moment: Moment) -> Iterator[Fault]:
    for what in (*OUTCOMES, *CRASHES):
        if what == _OF_EVICTIONS and "eviction" not in moment.point:
            continue
        for lasting in (False, True):
            yield Fault(CALL, moment.point, moment.number, what, lasting)


def _faults_of_event(moment: Moment, later: Sequence[Moment]) -> Iterator[Fault]:
    plural, _, kind = moment.point.partition(".")
    following = [m for m in later if m.family == WATCH and m.point.startswith(f"{plural}.")]
    next_one = following[0] if following else None
    again = any(m.point == f"{plural}.ADDED" and m.about == moment.about for m in following)
    for what in PERTURBATIONS:
        if what == "swap" and (next_one is None or next_one.at > moment.at + _SOON):
            continue
        if what == "coalesce" and not (kind == "DELETED" and again):
            continue
        yield Fault(WATCH, moment.point, moment.number, what)


def draw_sample(found: Sequence[Injection], number: int, seed: int) -> list[Injection]:
    """Draw a sorted sample, balanced over cells and, within each cell, over workloads."""
    rng = random.Random(seed)
    cells: defaultdict[Cell, list[tuple[int, float, Injection]]] = defaultdict(list)
    of_workload: Counter[tuple[Cell, str]] = Counter()
    drawn = list(found)
    rng.shuffle(drawn)
    for injection in drawn:
        if injection.fault is not None:
            cell = injection.fault.cell
            of_workload[cell, injection.workload] += 1
            turn = of_workload[cell, injection.workload]
            cells[cell].append((turn, rng.random(), injection))
    in_turn = (
        (turn, injection)
        for cell in cells.values()
        for turn, (_, _, injection) in enumerate(sorted(cell))
    )
    return sorted(injection for _, injection in heapq.nsmallest(number, in_turn))


def judge(injection: Injection) -> Verdict:
    """Play an injection and compare the outcome with its reference run."""
    usual = reference(injection.workload, injection.seed, paced=injection.paced)
    outcome = play(injection, usual)
    length = len(trace_lines(outcome)) if outcome.violations else 0
    return Verdict(injection, outcome.struck, outcome.violations, length)


def sweep(
    planned: Sequence[Injection], jobs: int, on_done: Callable[[Verdict], object]
) -> list[Verdict]:
    """Play the injections; `on_done` receives each verdict."""
    verdicts = []
    for verdict in spread(judge, planned, jobs, _CHUNK):
        on_done(verdict)
        verdicts.append(verdict)
    return verdicts


@attrs.frozen
class Report:
    verdicts: Sequence[Verdict]
    #: all injections, drawn or not
    found: Sequence[Injection]

    @property
    def broken(self) -> list[Verdict]:
        """Return runs with violations, shortest trace first."""
        wrong = [verdict for verdict in self.verdicts if verdict.violations]
        return sorted(wrong, key=lambda verdict: (verdict.length, verdict.injection))

    @property
    def sorts(self) -> list[list[Verdict]]:
        """Return runs with violations, grouped by similar violations."""
        sorts: defaultdict[frozenset[str], list[Verdict]] = defaultdict(list)
        for verdict in self.broken:
            sorts[without_particulars(verdict.violations)].append(verdict)
        return list(sorts.values())

    @property
    def cells(self) -> frozenset[Cell]:
        """Return the cells: fault and injection point, without its number."""
        return frozenset(i.fault.cell for i in self.found if i.fault is not None)

    @property
    def covered(self) -> frozenset[Cell]:
        """Return the cells whose fault has struck."""
        return frozenset(
            v.injection.fault.cell
            for v in self.verdicts
            if v.struck and v.injection.fault is not None
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "emulated": True,
            "injections": len(self.verdicts),
            "violations": len(self.broken),
            "cells": len(self.cells),
            "cellsCovered": len(self.covered),
            "broken": [
                {"command": v.injection.command, "violations": v.violations} for v in self.broken
            ],
        }

    def table(self) -> FittedTable:
        """Return the table of runs by fault and workload, with numbers of violations."""
        workloads = sorted({v.injection.workload for v in self.verdicts})
        made: Counter[tuple[str, str]] = Counter()
        wrong: Counter[tuple[str, str]] = Counter()
        for verdict in self.verdicts:
            fault = verdict.injection.fault
            if fault is not None:
                key = (f"{fault.family} {fault.cell[2]}", verdict.injection.workload)
                made[key] += 1
                wrong[key] += bool(verdict.violations)
        rows = (
            (what, *(_table_cell(made[what, w], wrong[what, w]) for w in workloads))
            for what in sorted({what for what, _ in made})
        )
        title = "injections by fault and workload; in brackets: promises broken"
        return table(("fault", *workloads), rows, title=title, numbers=workloads)


def _table_cell(made: int, wrong: int) -> str:
    return f"{made} ({wrong})" if wrong else str(made or "")
