"""Every fault at every call and every event of every workload, or a fair choice of them.

A reference run shows which calls and events there are. Up to the moment at which its fault strikes
a run is the same as its reference, so that each fault finds its place.
"""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import attrs

from kubedsm_lab.chaos.faults import CRASHES, OUTCOMES, WORLD, Fault
from kubedsm_lab.chaos.incidents import STEPS, incidents
from kubedsm_lab.chaos.interruptions import INTERRUPTIONS, PROCESS
from kubedsm_lab.chaos.perturbations import PERTURBATIONS
from kubedsm_lab.chaos.seam import CALL, WATCH, Moment
from kubedsm_lab.chaos.story import Injection, Outcome, play
from kubedsm_lab.chaos.telling import told
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.replay.runner import spread

Cell = tuple[str, str, str]
#: what only an eviction is answered
_OF_EVICTIONS = "429-budget"
#: injections that a process takes at a time
_CHUNK = 16
#: seconds within which the event after one comes that can be swapped with it
_SOON = 0.5


@attrs.frozen(slots=True)
class Verdict:
    """What is kept of a run; the rest can be had again."""

    injection: Injection
    struck: bool
    violations: tuple[str, ...]
    #: lines that tell of it
    length: int = 0


@cache
def reference(workload: str, seed: int, *, paced: bool = False) -> Outcome:
    """The run without a fault. Raises RuntimeError if even that breaks a promise."""
    outcome = play(Injection(workload, None, seed, paced))
    if outcome.violations:
        raise RuntimeError(f"{outcome.injection.command}: {'; '.join(outcome.violations)}")
    return outcome


def injections(workloads: Iterable[str], seed: int, *, paced: bool = False) -> list[Injection]:
    """All that there are."""
    return [
        Injection(workload, fault, seed, paced)
        for workload in workloads
        for fault in _faults(reference(workload, seed, paced=paced).history)
        if fault.family != PROCESS or WORKLOADS[workload].unhurried
    ]


def _faults(history: Sequence[Moment]) -> Iterator[Fault]:
    for index, moment in enumerate(history):
        if moment.site in STEPS:
            for what, passing in incidents(moment.site):
                yield Fault(WORLD, moment.site, moment.number, what, passing)
        if moment.family == CALL:
            yield from _of_call(moment)
            for what in INTERRUPTIONS:
                yield Fault(PROCESS, moment.site, moment.number, what)
        elif moment.family == WATCH:
            yield from _of_event(moment, history[index + 1 :])


def _of_call(moment: Moment) -> Iterator[Fault]:
    for what in (*OUTCOMES, *CRASHES):
        if what == _OF_EVICTIONS and "eviction" not in moment.site:
            continue
        for lasting in (False, True):
            yield Fault(CALL, moment.site, moment.number, what, lasting)


def _of_event(moment: Moment, later: Sequence[Moment]) -> Iterator[Fault]:
    plural, _, kind = moment.site.partition(".")
    following = [m for m in later if m.family == WATCH and m.site.startswith(f"{plural}.")]
    next_one = following[0] if following else None
    again = any(m.site == f"{plural}.ADDED" and m.about == moment.about for m in following)
    for what in PERTURBATIONS:
        if what == "swap" and (next_one is None or next_one.at > moment.at + _SOON):
            continue
        if what == "coalesce" and not (kind == "DELETED" and again):
            continue
        yield Fault(WATCH, moment.site, moment.number, what)


def chosen(found: Sequence[Injection], number: int, seed: int) -> list[Injection]:
    """So many of them, drawn; sorted, in the end.

    Of each cell as many as of any other, and in each of each workload, however long that takes.
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
    """Play it beside its reference."""
    usual = reference(injection.workload, injection.seed, paced=injection.paced)
    outcome = play(injection, usual)
    length = len(told(outcome)) if outcome.violations else 0
    return Verdict(injection, outcome.struck, outcome.violations, length)


def sweep(
    planned: Sequence[Injection], jobs: int, on_done: Callable[[Verdict], object]
) -> list[Verdict]:
    """Play them all; `on_done` hears of each."""
    verdicts = []
    for verdict in spread(judge, planned, jobs, _CHUNK):
        on_done(verdict)
        verdicts.append(verdict)
    return verdicts
