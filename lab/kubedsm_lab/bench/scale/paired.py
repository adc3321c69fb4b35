"""Two forms of one thing, run in turn, and the ratio of what they cost."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, TypeVar

import attrs

from kubedsm_lab.bench.instances import DisagreementError
from kubedsm_lab.bench.scale.running import RunningResult
from kubedsm_lab.bench.scale.world import Size
from kubedsm_lab.bench.telling import extrapolated, span

T = TypeVar("T")


@attrs.frozen(slots=True)
class Paired:
    """Milliseconds of CPU: medians over the rounds; the ratio is the median of the rounds' own."""

    what: str
    rounds: int
    ours: float
    beside: float
    ratio: float
    #: of how many things what is beside did how many, if its cost is scaled from these
    sampled: tuple[int, int] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "rounds": self.rounds,
            "ms": round(self.ours, 3),
            "besideMs": round(self.beside, 3),
            "ratio": round(self.ratio, 2),
            **({"besideSampled": list(self.sampled)} if self.sampled else {}),
        }


@attrs.frozen(slots=True)
class ScaleResult:
    size: Size
    paired: tuple[Paired, ...]
    running: RunningResult | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "nodes": self.size.nodes,
            "pods": self.size.pods,
            "paired": [pair.as_json() for pair in self.paired],
            "running": self.running.as_json() if self.running else None,
        }

    @property
    def sentences(self) -> list[str]:
        return [
            (
                "Beside: reading by kubernetes_asyncio's typed models; deciding and suggesting on a"
                " snapshot of which nothing was kept along. A ratio is the median of the"
                " rounds' own. A suggestion may take as long as it likes here: `kubedsm run` ends"
                " it after `suggester.budget`."
            ),
            *(
                f"Beside {pair.what}: {span(pair.beside / 1e3)}"
                f"{extrapolated(*pair.sampled, 'pods')}."
                for pair in self.paired
                if pair.sampled
            ),
            *(self.running.sentences if self.running else ()),
        ]


def spent(what: Callable[[], T]) -> tuple[T, float]:
    """What came of it, and the milliseconds of CPU of this process: others may be at work, too."""
    began = time.process_time()
    result = what()
    return result, 1000 * (time.process_time() - began)


def paired(
    what: str,
    rounds: int,
    ours: Callable[[], T],
    beside: Callable[[], T],
    between: Callable[[], object] = lambda: None,
) -> Paired:
    """Run both in turn, `between` before each.

    Raises DisagreementError if they do not come to the same.
    """
    costs = []
    for _ in range(rounds):
        between()
        mine, my_cost = spent(ours)
        between()
        theirs, their_cost = spent(beside)
        if mine != theirs:
            raise DisagreementError(f"{what}: both forms should come to the same")
        costs.append((my_cost, their_cost))
    return Paired(
        what,
        rounds,
        median(mine for mine, _ in costs),
        median(theirs for _, theirs in costs),
        median(theirs / mine for mine, theirs in costs),
    )
