"""Chaos sweep: every fault at every injection point of every workload, or a balanced sample.

A reference run lists the requests and events. Until the fault strikes, a run equals the reference,
so each fault finds its injection point.
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
from kubedsm_lab.chaos.incidents import STEPS, list_incidents
from kubedsm_lab.chaos.perturbations import DELIVERIES, PERTURBATIONS
from kubedsm_lab.chaos.process import INTERRUPTIONS, PROCESS
from kubedsm_lab.chaos.seam import CALL, WATCH, Moment
from kubedsm_lab.chaos.trace import Injection, Outcome, describe_outcome, normalize_violations, play
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.replay.runner import Workers, spread

Cell = tuple[str, str, str]
#: outcome of evictions only
_OF_EVICTIONS = "429-budget"
#: injections per task of a worker process
_CHUNK = 16
#: most seconds between swappable events
_SOON = 0.5


@attrs.frozen(slots=True)
class Verdict:
    """Result of a chaos run: whether the fault was injected, and the violations of guarantees."""

    injection: Injection
    struck: bool
    violations: tuple[str, ...]
    #: lines of the description
    length: int = 0


@cache
def reference(workload: str, seed: int, *, paced: bool = False) -> Outcome:
    """Return the outcome of a workload's chaos run without fault; raise RuntimeError if a guarantee
    is violated.
    """
    outcome = play(Injection(workload, None, seed, paced))
    if outcome.violations:
        raise RuntimeError(f"{outcome.injection.command}: {'; '.join(outcome.violations)}")
    return outcome


def list_injections(workloads: Iterable[str], seed: int, *, paced: bool = False) -> list[Injection]:
    """Return the chaos runs of every fault at every injection point that the runs without fault
    reached.
    """
    return [
        Injection(workload, fault, seed, paced)
        for workload in workloads
        for fault in _list_faults(reference(workload, seed, paced=paced).history)
        if fault.family != PROCESS or WORKLOADS[workload].unhurried
    ]


def _list_faults(history: Sequence[Moment]) -> Iterator[Fault]:
    for index, moment in enumerate(history):
        if moment.point in STEPS:
            for what, passing in list_incidents(moment.point):
                yield Fault(WORLD, moment.point, moment.number, what, passing)
        if moment.family == CALL:
            yield from _list_call_faults(moment)
            for what in INTERRUPTIONS:
                yield Fault(PROCESS, moment.point, moment.number, what)
        elif moment.family == WATCH:
            yield from _list_event_faults(moment, history[index + 1 :])


def _list_call_faults(moment: Moment) -> Iterator[Fault]:
    for what in (*OUTCOMES, *CRASHES):
        if what == _OF_EVICTIONS and "eviction" not in moment.point:
            continue
        for lasting in (False, True):
            yield Fault(CALL, moment.point, moment.number, what, lasting)


def _list_event_faults(moment: Moment, later: Sequence[Moment]) -> Iterator[Fault]:
    plural, _, kind = moment.point.partition(".")
    following = [m for m in later if m.family == WATCH and m.point.startswith(f"{plural}.")]
    next_one = following[0] if following else None
    again = any(m.point == f"{plural}.ADDED" and m.about == moment.about for m in following)
    for what in (*DELIVERIES, *PERTURBATIONS):
        if what == "swap" and (next_one is None or next_one.at > moment.at + _SOON):
            continue
        if what == "coalesce" and not (kind == "DELETED" and again):
            continue
        yield Fault(WATCH, moment.point, moment.number, what)


def choose_injections(found: Sequence[Injection], number: int, seed: int) -> list[Injection]:
    """Return a sorted random sample of chaos runs, `number` of the given ones.

    The sample is balanced over fault kinds at injection points, and over workloads within each.
    """
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
    """Execute a chaos run, compare the outcome with the same run without fault, and return the
    verdict.
    """
    usual = reference(injection.workload, injection.seed, paced=injection.paced)
    outcome = play(injection, usual)
    length = len(describe_outcome(outcome)) if outcome.violations else 0
    return Verdict(injection, outcome.struck, outcome.violations, length)


def run_sweep(
    planned: Sequence[Injection], workers: Workers, on_done: Callable[[], object]
) -> list[Verdict]:
    """Execute all chaos runs in parallel and return their verdicts; `on_done` is called after each
    run.
    """
    verdicts = []
    for verdict in spread(judge, planned, workers, _CHUNK):
        on_done()
        verdicts.append(verdict)
    return verdicts


@attrs.frozen
class Report:
    """Verdicts of all chaos runs in a sweep, and coverage of the injection points."""

    verdicts: Sequence[Verdict]
    #: all injections, the sample and the others
    found: Sequence[Injection]

    @property
    def broken(self) -> list[Verdict]:
        """Return the verdicts with violated guarantees, shortest history first."""
        wrong = [verdict for verdict in self.verdicts if verdict.violations]
        return sorted(wrong, key=lambda verdict: (verdict.length, verdict.injection))

    @property
    def failure_groups(self) -> list[list[Verdict]]:
        """Return the verdicts with violated guarantees, grouped by equal violations after removing
        run-specific names.
        """
        groups: defaultdict[frozenset[str], list[Verdict]] = defaultdict(list)
        for verdict in self.broken:
            groups[normalize_violations(verdict.violations)].append(verdict)
        return list(groups.values())

    @property
    def cells(self) -> frozenset[Cell]:
        """Return all possible combinations of fault family, injection point and kind of fault."""
        return frozenset(i.fault.cell for i in self.found if i.fault is not None)

    @property
    def covered(self) -> frozenset[Cell]:
        """Return the combinations of fault family, injection point and kind that a run has
        injected.
        """
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

    def fault_table(self) -> FittedTable:
        """Return a table of the numbers of chaos runs and of those with violated guarantees, by
        fault and workload.
        """
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
        title = "injections by fault and workload; in brackets: guarantees broken"
        return table(("fault", *workloads), rows, title=title, numbers=workloads)


def _table_cell(made: int, wrong: int) -> str:
    return f"{made} ({wrong})" if wrong else str(made or "")
