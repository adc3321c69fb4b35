"""Many instances, spread over processes; what is done is kept, and not done again."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import msgspec

from kubedsm.solvers.available import SolverKind, solver_of
from kubedsm.terminal.whole_files import append_whole
from kubedsm_lab.replay.packing.attempts import Attempt, attempt
from kubedsm_lab.replay.packing.instances import PRIORITIES, Shape, seeds, shapes
from kubedsm_lab.replay.runner import spread

#: seconds for a programme that is solved to the end; calls have their own limits
_PATIENCE = 600.0

Case = tuple[Shape, int]


@attrs.frozen
class Plan:
    #: of each shape so many seeds
    seeds: int
    priorities: Sequence[int]
    #: seconds for a call
    limits: Sequence[float]

    def cases(self, jobs: int) -> list[Case]:
        """All shapes with one seed, then with the next: what is stopped is a smaller plan."""
        planned = list(shapes([1]))
        chosen = spread(partial(seeds, number=self.seeds), planned, jobs)
        return [
            (msgspec.structs.replace(shape, priorities=priorities), seed)
            for at_once in zip(*chosen, strict=True)
            for shape, seed in zip(planned, at_once, strict=True)
            for priorities in self.priorities
        ]


SHORT = Plan(seeds=2, priorities=(4,), limits=(1.0,))
FULL = Plan(seeds=100, priorities=PRIORITIES, limits=(1.0, 10.0, 20.0))


def attempts(
    cases: Sequence[Case], limits: Sequence[float], solver: SolverKind, jobs: int, kept: Path | None
) -> Iterator[Attempt]:
    """What became of each, those first that are in the file; the others are added to it.

    Raises OSError, and msgspec.DecodeError if the file has something else.
    """
    done = dict[Case, Attempt]()
    if kept is not None and kept.exists():
        lines = kept.read_bytes().splitlines()
        read = (msgspec.json.decode(line, type=Attempt) for line in lines)
        done = {(each.shape, each.seed): each for each in read}
    meant = {(seconds, True) for seconds in limits} | {(min(limits), False)}
    found = {case: _only(meant, done[case]) for case in cases if case in done}
    yield from (each for each in found.values() if each is not None)
    left = [case for case in cases if found.get(case) is None]
    for each in spread(partial(_attempt, limits=limits, solver=solver), left, jobs):
        if kept is not None:
            append_whole(kept, msgspec.json.encode(each) + b"\n")
        yield each


def _attempt(case: Case, limits: Sequence[float], solver: SolverKind) -> Attempt:
    return attempt(*case, limits, solver_of(solver, _PATIENCE))


def _only(meant: Collection[tuple[float, bool]], one: Attempt) -> Attempt | None:
    """The attempt with these calls alone: their seconds, and whether gaps were allowed.

    None if some of them were not made.
    """
    calls = tuple(call for call in one.calls if (call.seconds, call.gaps) in meant)
    whole = not one.calls or len(calls) == len(meant)
    return msgspec.structs.replace(one, calls=calls) if whole else None
