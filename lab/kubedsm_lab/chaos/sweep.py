"""Chaos sweep: every fault at every injection point of every workload, or a balanced sample.

A run without the fault lists the requests and events. Until the fault strikes, the run with the
fault is the same, so each fault finds its injection point. A second fault is found in the same way
by a run with the first (`kubedsm_lab.chaos.pairs`).
"""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, takewhile
from typing import Any

import attrs

from kubedsm.terminal.fitted_table import FittedTable, table
from kubedsm_lab.chaos.faults import CALL, CRASHES, OUTCOMES, PROCESS, WATCH, WORLD, Fault
from kubedsm_lab.chaos.incidents import STEPS, list_incidents
from kubedsm_lab.chaos.perturbations import DELIVERIES, PERTURBATIONS
from kubedsm_lab.chaos.process import INTERRUPTIONS
from kubedsm_lab.chaos.seam import Moment
from kubedsm_lab.chaos.trace import (
    BYSTANDER_NAMESPACE,
    RESTART,
    Cell,
    Injection,
    Outcome,
    describe_outcome,
    normalize_violations,
    play,
)
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.replay.runner import Workers, spread

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
    outcome = play(Injection(workload, (), seed, paced))
    if outcome.violations:
        raise RuntimeError(f"{outcome.injection.command}: {'; '.join(outcome.violations)}")
    return outcome


def list_injections(workloads: Iterable[str], seed: int, *, paced: bool = False) -> list[Injection]:
    """Return the chaos runs of every fault at every injection point that the runs without fault
    reached.
    """
    return [
        injection
        for workload in workloads
        for injection in list_next(reference(workload, seed, paced=paced))
    ]


def list_next(outcome: Outcome, nearest: int | None = None) -> Iterator[Injection]:
    """Yield the same run with one more fault, at every injection point after the last strike.

    With `nearest`, only the first requests and events of each injection point after the strike, and
    after the end of the faults: the retry, the next list, another replica that takes over. The
    bystander is left alone: its bind is the measure of the delay of pods that no fault concerns.
    The restart at the end, with which the run is compared, has no fault.
    """
    workload = WORKLOADS[outcome.injection.workload]
    since_strike = outcome.history[_find_strike(outcome) :]
    later = list(takewhile(lambda moment: moment.point != RESTART, since_strike))
    met: Counter[tuple[str, str, bool]] = Counter()
    for index, moment in enumerate(later):
        place = (moment.family, moment.point, moment.at >= outcome.ended)
        met[place] += 1
        concerns_bystander = moment.about.partition("/")[0] == BYSTANDER_NAMESPACE
        if not concerns_bystander and (nearest is None or met[place] <= nearest):
            for fault in _list_faults(moment, later[index + 1 :]):
                if fault.family != PROCESS or workload.unhurried:
                    yield outcome.injection.add_fault(fault)


def _find_strike(outcome: Outcome) -> int:
    """Return the index in the history after the first strike of the last fault; 0 without fault."""
    faults = outcome.injection.faults
    if not faults:
        return 0
    return 1 + next(n for n, moment in enumerate(outcome.history) if moment.tells_of(faults[-1]))


def _list_faults(moment: Moment, later: Sequence[Moment]) -> Iterator[Fault]:
    if moment.point in STEPS:
        for what, passing in list_incidents(moment.point):
            yield Fault(WORLD, moment.point, moment.number, what, passing)
    if moment.family == CALL:
        yield from _list_call_faults(moment)
        for what in INTERRUPTIONS:
            yield Fault(PROCESS, moment.point, moment.number, what)
    elif moment.family == WATCH:
        yield from _list_event_faults(moment, later)


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

    The sample is balanced over classes of faults, over fault kinds at injection points in each, and
    over workloads in each of these.
    """
    rng = random.Random(seed)
    cells: defaultdict[Cell, list[tuple[int, float, Injection]]] = defaultdict(list)
    of_workload: Counter[tuple[Cell, str]] = Counter()
    drawn = list(found)
    rng.shuffle(drawn)
    for injection in drawn:
        cell = injection.cell
        of_workload[cell, injection.workload] += 1
        turn = of_workload[cell, injection.workload]
        cells[cell].append((turn, rng.random(), injection))
    of_class: Counter[tuple[int, Cell]] = Counter()
    in_turn = []
    for of_cell in cells.values():
        for turn, (_, _, injection) in enumerate(sorted(of_cell)):
            in_class = turn, injection.fault_classes
            of_class[in_class] += 1
            in_turn.append((turn, of_class[in_class], injection))
    return sorted(injection for *_, injection in heapq.nsmallest(number, in_turn))


def judge(injection: Injection) -> Verdict:
    """Execute a chaos run, compare the outcome with the same run without fault, and return the
    verdict.
    """
    return judge_outcome(replay(injection))


def replay(injection: Injection) -> Outcome:
    """Execute a chaos run, and compare the outcome with the same run without fault."""
    usual = reference(injection.workload, injection.seed, paced=injection.paced)
    return play(injection, usual) if injection.faults else usual


def judge_outcome(outcome: Outcome) -> Verdict:
    """Return the verdict on a chaos run that was compared with the run without fault."""
    length = len(describe_outcome(outcome)) if outcome.violations else 0
    return Verdict(outcome.injection, outcome.struck, outcome.violations, length)


def run_sweep(
    planned: Sequence[Injection], workers: Workers, on_done: Callable[[Verdict], object]
) -> list[Verdict]:
    """Execute all chaos runs in parallel and return their verdicts; `on_done` is called with each
    verdict.
    """
    verdicts = []
    for verdict in spread(judge, planned, workers, _CHUNK):
        on_done(verdict)
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
        """Return all possible combinations of fault family, injection point and kind of fault; of
        two faults the pairs of classes.
        """
        return frozenset(injection.cell for injection in self.found)

    @property
    def covered(self) -> frozenset[Cell]:
        """Return the combinations that a run has injected."""
        return self.cells & {v.injection.cell for v in self.verdicts if v.struck}

    @property
    def classes(self) -> frozenset[Cell]:
        """Return the classes of faults in runs with two faults; none for single faults."""
        pairs = (injection.fault_classes for injection in self.found if len(injection.faults) > 1)
        return frozenset(chain.from_iterable(pairs))

    @property
    def summary(self) -> str:
        """Return the numbers of runs and of those with violated guarantees, and the coverage."""
        covered = f"{len(self.covered):,} of {len(self.cells):,}"
        what, coverage = "injections", f"{covered} cells"
        if self.classes:
            what = "pairs of faults"
            coverage = f"{len(self.classes)} classes, {covered} reachable pairs of classes"
        broken = f"{len(self.broken)} broke a guarantee"
        return f"{len(self.verdicts)} {what}, {broken}; {coverage} (emulated)"

    def as_json(self) -> dict[str, Any]:
        return {
            "emulated": True,
            "injections": len(self.verdicts),
            "faultClasses": len(self.classes),
            "violations": len(self.broken),
            "cells": len(self.cells),
            "cellsCovered": len(self.covered),
            "broken": [
                {"command": v.injection.command, "violations": v.violations} for v in self.broken
            ],
        }

    def fault_table(self) -> FittedTable:
        """Return a table of the numbers of chaos runs and of those with violated guarantees, by
        fault and workload; of pairs by the kinds of both faults.
        """
        by = "kind of the first and the second fault" if self.classes else "fault and workload"
        title = f"injections by {by}; in brackets: guarantees broken"
        made: Counter[tuple[str, str]] = Counter()
        wrong: Counter[tuple[str, str]] = Counter()
        for verdict in self.verdicts:
            first, last = verdict.injection.faults[0], verdict.injection.faults[-1]
            single = (first.title, verdict.injection.workload)
            key = (first.kind, last.kind) if self.classes else single
            made[key] += 1
            wrong[key] += bool(verdict.violations)
        columns = sorted({column for _, column in made})
        rows = (
            (row, *(_table_cell(made[row, c], wrong[row, c]) for c in columns))
            for row in sorted({row for row, _ in made})
        )
        return table(("fault", *columns), rows, title=title, numbers=columns)


def _table_cell(made: int, wrong: int) -> str:
    return f"{made} ({wrong})" if wrong else str(made or "")
