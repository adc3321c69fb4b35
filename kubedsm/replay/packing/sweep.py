"""Many instances, spread over processes; what is done is kept, and not done again."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import msgspec

from kubedsm.replay.packing.attempts import Attempt, attempt
from kubedsm.replay.packing.instances import PRIORITIES, Shape, seeds, shapes
from kubedsm.replay.runner import spread
from kubedsm.solvers.available import SolverKind, solver_of

Case = tuple[Shape, int]


@attrs.frozen
class Plan:
    #: of each shape so many seeds
    seeds: int
    priorities: Sequence[int]
    #: seconds for a call
    limits: Sequence[float]

    def cases(self, jobs: int) -> list[Case]:
        planned = list(shapes(self.priorities))
        chosen = spread(partial(seeds, number=self.seeds), planned, jobs)
        return [(shape, seed) for shape, of in zip(planned, chosen, strict=True) for seed in of]


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
    found = [done[case] for case in cases if case in done and _whole(done[case], limits)]
    yield from found
    known = {(each.shape, each.seed) for each in found}
    left = [case for case in cases if case not in known]
    for each in spread(partial(_attempt, limits=limits, solver=solver), left, jobs):
        if kept is not None:
            with kept.open("ab") as file:
                file.write(msgspec.json.encode(each) + b"\n")
        yield each


def _attempt(case: Case, limits: Sequence[float], solver: SolverKind) -> Attempt:
    return attempt(*case, limits, solver_of(solver, max(limits)))


def _whole(one: Attempt, limits: Sequence[float]) -> bool:
    """Whether it was called with each of the limits."""
    return not one.calls or {call.seconds for call in one.calls} >= set(limits)
