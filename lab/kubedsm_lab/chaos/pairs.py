"""Pairs of faults: the second near the recovery from the first, drawn by a covering array, and the
smallest run that breaks the same guarantee.

A trace, which is a run with the first fault alone, lists the injection points of the second.
"""

import heapq
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, islice

import attrs

from kubedsm_lab.chaos.faults import Fault
from kubedsm_lab.chaos.sweep import Verdict, judge, judge_outcome, list_next, reference, replay
from kubedsm_lab.chaos.trace import Injection, normalize_violations
from kubedsm_lab.chaos.workloads import WORKLOADS

#: requests and events of each injection point that count as near the recovery
_NEAREST = 2
#: injection points at which a run is simplified by one fault
_TRIES = 3
_GUARANTEE = re.compile(r"I\d:")


@attrs.frozen
class Trace:
    """Verdict on a run with the first fault alone, and pairs with a second fault near the recovery,
    one for each class of the second.
    """

    verdict: Verdict
    pairs: tuple[Injection, ...]


def count_traces(pairs: int) -> int:
    """Return the number of first faults for a number of pairs."""
    return pairs // 10 + min(pairs, 250)


def trace(injection: Injection) -> Trace:
    """Execute a run with one fault, and draw a second fault of each class near the recovery.

    A run that breaks a guarantee already has no pairs.
    """
    outcome = replay(injection)
    verdict = judge_outcome(outcome)
    if not verdict.struck or verdict.violations:
        return Trace(verdict, ())
    found = list(list_next(outcome, _NEAREST))
    random.Random(str(injection)).shuffle(found)
    return Trace(verdict, tuple({pair.cell[-1]: pair for pair in found}.values()))


def draw_covering(found: Sequence[Injection], number: int, seed: int) -> list[Injection]:
    """Return a sorted sample of chaos runs: a covering array by a greedy algorithm.

    Each combination of the faults' classes is drawn once before any is drawn twice. Among the runs
    of a combination, those come first whose pairs of factors were drawn least. Factors are the
    workload, and kind and class of injection points of each fault.
    """
    rng = random.Random(seed)
    drawn: Counter[tuple[object, ...]] = Counter()
    alike = defaultdict[tuple[tuple[object, ...], ...], list[tuple[float, Injection]]](list)
    for injection in found:
        alike[_list_combinations(injection)].append((rng.random(), injection))

    def rank(combination: tuple[object, ...], *pairs: tuple[object, ...]) -> tuple[int, int]:
        return drawn[combination], sum(drawn[pair] for pair in pairs)

    for runs in alike.values():
        runs.sort(reverse=True)
    waiting = [((0, 0), runs[-1][0], factors, runs) for factors, runs in alike.items()]
    heapq.heapify(waiting)
    chosen: list[Injection] = []
    while waiting and len(chosen) < number:
        known, _, factors, runs = heapq.heappop(waiting)
        if rank(*factors) == known:  # ranks only increase, so each is evaluated when it comes first
            chosen.append(runs.pop()[1])
            drawn.update(factors)
        if runs:
            heapq.heappush(waiting, (rank(*factors), runs[-1][0], factors, runs))
    return sorted(chosen)


def _list_combinations(injection: Injection) -> tuple[tuple[object, ...], ...]:
    """Return the classes of the faults, and all pairs of factors, each factor with its number."""
    classes = tuple(fault.fault_class for fault in injection.faults)
    factors = enumerate((injection.workload, *chain.from_iterable(classes)))
    return classes, *combinations(factors, 2)


def shrink(verdict: Verdict) -> Injection:
    """Return the simplest run that breaks a guarantee of the verdict, or the verdict's own run.

    One fault alone is simpler than two, then a workload with a shorter history, then an earlier
    second fault.
    """
    injection, wanted = verdict.injection, _normalize(verdict.violations)
    if len(injection.faults) == 1:
        return injection
    for simpler in chain(_list_halves(injection), _list_shorter(injection)):
        found = judge(simpler)
        if found.struck and wanted & _normalize(found.violations):
            return simpler
    return injection


def _list_halves(injection: Injection) -> Iterator[Injection]:
    without = attrs.evolve(injection, faults=())
    for fault in injection.faults:
        yield from _repeat_fault(without, fault, before=fault.at + 1)


def _list_shorter(injection: Injection) -> Iterator[Injection]:
    """Yield pairs of the same cells, in workloads with a shorter history first, and earlier ones of
    the same workload last.
    """
    first, second = injection.faults
    length = {
        name: len(reference(name, injection.seed, paced=injection.paced).history)
        for name in WORKLOADS
    }
    here = length[injection.workload]
    for name in sorted((name for name in WORKLOADS if length[name] < here), key=length.__getitem__):
        without = attrs.evolve(injection, workload=name, faults=())
        for begun in _repeat_fault(without, first):
            yield from _repeat_fault(begun, second)
    begun = attrs.evolve(injection, faults=(first,))
    yield from _repeat_fault(begun, second, before=second.at)


def _repeat_fault(
    injection: Injection, fault: Fault, before: int | None = None
) -> Iterator[Injection]:
    """Yield the run with a fault of the same cell added, at the first injection points, below
    number `before`.
    """
    alike: Iterable[Injection] = (
        added
        for added in list_next(replay(injection))
        if added.faults[-1].cell == fault.cell and (before is None or added.faults[-1].at < before)
    )
    return islice(alike, _TRIES)


def _normalize(violations: Iterable[str]) -> frozenset[str]:
    """Return the broken guarantees, and other violations without run-specific names."""
    guarantees = {text: _GUARANTEE.match(text) for text in violations}
    others = normalize_violations(text for text, guarantee in guarantees.items() if not guarantee)
    return others | {guarantee[0] for guarantee in guarantees.values() if guarantee}
