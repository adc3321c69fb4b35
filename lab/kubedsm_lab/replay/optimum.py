"""Upper bound of the mean edge share of services: the best placement of the existing pods, by
`match`.

Migrations are free. The table of `match` has the count vectors that fit on the empty edge, computed
once. Removing a pod never makes the others fit less, so the maximal vectors represent all.
"""

from collections.abc import Iterable, Mapping

import attrs
import numpy as np

from kubedsm.model.model import Node, Pod
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds, build_table
from kubedsm.optimizer.matching.problem import PlacementProblem, group_kinds

#: large bounds, minutes on a small machine: no pod waits for this search
BOUNDS = Bounds(states=20_000_000, steps=1_000_000_000, loads=500_000)


@attrs.frozen(eq=False)
class Optimum:
    """Solver for the highest mean edge share that given numbers of pods per service permit; results
    are cached.
    """

    #: M x S: counts of each equivalence class that fit, without one more of any class
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
        """Compute the maximal combinations of pods that fit on the edge nodes; None above the
        exact-search limit.

        `samples` has one pod and `most` the greatest count of each service. The edge nodes run no
        other pods.
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
        packing = attrs.evolve(PlacementProblem.of(found, rows), counts=counts)
        table = build_table(packing, None, bounds)
        if table is None:
            return None
        return cls(_select_maximal(table.costs() < UNREACHABLE), kind_of)

    def share(self, counts: Mapping[str, int]) -> float:
        """Return the highest possible mean edge share for the given number of pods of
        each service.
        """
        key = tuple(sorted(counts.items()))
        if key not in self._known:
            self._known[key] = self._search_best(counts)
        return self._known[key]

    def _search_best(self, counts: Mapping[str, int]) -> float:
        values = np.zeros(len(self.maximal))
        for kind in range(self.maximal.shape[1]):
            # Edge pods of the services with the fewest pods have the greatest gain.
            numbers = sorted(n for name, n in counts.items() if self.kind_of.get(name) == kind)
            gains = [1 / number for number in numbers for _ in range(number)]
            worth = np.concatenate(([0.0], np.cumsum(gains)))
            values += worth[np.minimum(self.maximal[:, kind], len(gains))]
        return float(values.max()) / len(counts)


def _select_maximal(reached: "np.typing.NDArray[np.bool_]") -> Ints:
    """Return the reachable vectors of pod counts per equivalence class to which no further pod can
    be added.

    `reached` is a boolean array with one axis per equivalence class; the result is M x S.
    """
    kept = reached.copy()
    for axis in range(reached.ndim):
        one_more = np.zeros_like(reached)
        inner: list[slice] = [slice(None)] * reached.ndim
        outer = list(inner)
        inner[axis], outer[axis] = slice(None, -1), slice(1, None)
        one_more[tuple(inner)] = reached[tuple(outer)]
        kept &= ~one_more
    return np.argwhere(kept).astype(np.int64).reshape(-1, reached.ndim)
