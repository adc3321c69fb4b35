"""The best mean edge share that any placement of the pods there are could have, migrations free.

The vectors of pods that fit on the empty edge are found once, by `match`'s table. Taking a pod
away never makes the others fit less, so the maximal ones among them stand for all.
"""

from collections.abc import Iterable, Mapping

import attrs
import numpy as np

from kubedsm.model.model import Node, Pod
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds, build_table
from kubedsm.optimizer.matching.problem import Packing, group_kinds

#: Minutes at most, and the memory of a small machine: no pod waits for it.
BOUNDS = Bounds(states=20_000_000, steps=1_000_000_000, loads=500_000)


@attrs.frozen(eq=False)
class Optimum:
    """Made by `of`; answers from memory when asked about the same counts again."""

    #: M x S: so many pods of each kind fit, and none more of any
    maximal: Ints
    kind_of: Mapping[str, int]
    _known: dict[tuple[tuple[str, int], ...], float] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls,
        edge: Iterable[Node],
        samples: Mapping[str, Pod],
        most: Mapping[str, int],
        bounds: Bounds = BOUNDS,
    ) -> "Optimum | None":
        """For a pod of each service, and the most of them there ever are; None beyond the bounds.

        The edge is taken to be empty but for these services.
        """
        nodes = list(edge)
        rows = NodeRows.of(nodes, {node.name: node.allocatable for node in nodes})
        found = group_kinds(samples.values(), rows)
        kind_of = {
            service: index
            for service, sample in samples.items()
            for index, kind in enumerate(found)
            if sample in kind.pods
        }
        counts = np.zeros(len(found), dtype=np.int64)
        for service, index in kind_of.items():
            counts[index] += most.get(service, 0)
        packing = attrs.evolve(Packing.of(found, rows), counts=counts)
        table = build_table(packing, None, bounds)
        if table is None:
            return None
        return cls(_maximal(table.costs() < UNREACHABLE), kind_of)

    def share(self, counts: Mapping[str, int]) -> float:
        """The greatest mean over services of their share on the edge.

        counts: pods of each service, at least one, none above the `most` this was made for.
        """
        key = tuple(sorted(counts.items()))
        if key not in self._known:
            self._known[key] = self._best(counts)
        return self._known[key]

    def _best(self, counts: Mapping[str, int]) -> float:
        values = np.zeros(len(self.maximal))
        for kind in range(self.maximal.shape[1]):
            # Whose pods of a kind count most for being on the edge: those with the fewest.
            numbers = sorted(n for name, n in counts.items() if self.kind_of.get(name) == kind)
            gains = [1 / number for number in numbers for _ in range(number)]
            worth = np.concatenate(([0.0], np.cumsum(gains)))
            values += worth[np.minimum(self.maximal[:, kind], len(gains))]
        return float(values.max()) / len(counts)


def _maximal(reached: "np.typing.NDArray[np.bool_]") -> Ints:
    """The vectors of a box that are reached while none with one more is."""
    kept = reached.copy()
    for axis in range(reached.ndim):
        one_more = np.zeros_like(reached)
        inner: list[slice] = [slice(None)] * reached.ndim
        outer = list(inner)
        inner[axis], outer[axis] = slice(None, -1), slice(1, None)
        one_more[tuple(inner)] = reached[tuple(outer)]
        kept &= ~one_more
    return np.argwhere(kept).astype(np.int64).reshape(-1, reached.ndim)
