"""How far the spread constraints of a batch are from being broken, all of them as one table.

The rules judge one kind of pod at a time; what a pod that comes does to all others'
constraints would have to be asked of each of them. Here it is a few operations on arrays: one row
a constraint as it looks from its pods, one column a node.

A pod keeps a constraint if the matching pods of its domain, itself included, are at most maxSkew
more than the least there are in a domain. (Without itself there may be one less of these, but then
its domain was the least.)
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kubedsm.core.rules.residents import Selection
from kubedsm.core.rules.scene import EquivalenceClass, Scene
from kubedsm.core.rules.spread import Domains, domains_of
from kubedsm.core.world.model import SpreadConstraint
from kubedsm.core.world.node_index import Mask
from kubedsm.core.world.selectors import selects

_ENDLESS = 2**62


class Skews:
    """The nodes while pods of a batch come and go; `Settling` alone changes it."""

    def __init__(self, candidates: Iterable[EquivalenceClass], scene: Scene) -> None:
        self._surroundings = scene.surroundings
        self._rows: dict[EquivalenceClass, list[int]] = {}
        self._covering: dict[tuple[str, tuple[tuple[str, str], ...]], NDArray[np.intp]] = {}
        found: dict[tuple[SpreadConstraint, bytes], int] = {}
        domains: list[Domains] = []
        self._selections: list[Selection] = []
        for candidate in candidates:
            rows = self._rows.setdefault(candidate, [])
            for constraint, of in domains_of(candidate, scene):
                row = found.setdefault((constraint, of.counted.tobytes()), len(found))
                if row == len(domains):
                    domains.append(of)
                    self._selections.append(of.selection)
                rows.append(row)
        shape = (len(domains), len(scene.nodes))
        self._skew = np.array([c.max_skew for c, _ in found], dtype=np.int64)[:, None]
        self._codes = np.array([of.column.codes for of in domains], dtype=np.intp).reshape(shape)
        self._counted = np.array([of.counted for of in domains], dtype=np.bool_).reshape(shape)
        self._enough = np.array([of.enough for of in domains], dtype=np.bool_)
        self._matching = np.array(
            [of.matching(scene)[of.column.codes] for of in domains], dtype=np.int64
        ).reshape(shape)
        self._least = np.zeros((len(domains), 1), dtype=np.int64)
        self._find_least(np.arange(len(domains)))
        #: how many pods that came have that constraint, in the node's domain
        self._held = np.zeros(shape, dtype=np.int64)

    def __bool__(self) -> bool:
        """Whether there are any constraints."""
        return bool(self._selections)

    def change(self, candidate: EquivalenceClass, node: int, by: int) -> None:
        """A pod came to that node (by = 1) or left it (by = -1)."""
        rows = self._covering_rows(candidate)
        rows = rows[self._counted[rows, node]]
        self._matching[rows] += by * (self._codes[rows] == self._codes[rows, node, None])
        self._find_least(rows)
        own = self._rows[candidate]
        self._held[own] += by * (self._codes[own] == self._codes[own, node, None])

    def open(self, candidate: EquivalenceClass) -> Mask:
        """The nodes where its own constraints allow a pod."""
        own = self._rows[candidate]
        labels = candidate.label_map()
        newcomer = [selects(self._selections[row].selector, labels) for row in own]
        skew = self._matching[own] + np.array(newcomer, dtype=np.int64)[:, None] - self._least[own]
        kept: Mask = skew <= self._skew[own]
        allowed: Mask = np.logical_and.reduce(kept, axis=0)
        return allowed

    def upset(self, candidate: EquivalenceClass) -> Mask:
        """The nodes where one more pod would break the constraints of some that came."""
        rows = self._covering_rows(candidate)
        fuller = self._matching[rows] + 1 - self._least[rows] > self._skew[rows]
        upset: Mask = fuller & self._counted[rows] & (self._held[rows] > 0)
        any_pod: Mask = np.logical_or.reduce(upset, axis=0)
        return any_pod

    def broken(self) -> NDArray[np.bool_]:
        """Rows by nodes: where pods that came do not keep their constraints any more."""
        broken: NDArray[np.bool_] = (self._held > 0) & (self._matching - self._least > self._skew)
        return broken

    def rows_of(self, candidate: EquivalenceClass) -> Sequence[int]:
        return self._rows[candidate]

    def _find_least(self, rows: NDArray[np.intp]) -> None:
        among = np.where(self._counted[rows], self._matching[rows], _ENDLESS)
        least = among.min(axis=1, initial=_ENDLESS)
        self._least[rows, 0] = np.where(self._enough[rows], least, 0)

    def _covering_rows(self, candidate: EquivalenceClass) -> NDArray[np.intp]:
        """The constraints that look at such pods."""
        key = candidate.namespace, candidate.labels
        if key not in self._covering:
            labels = candidate.label_map()
            self._covering[key] = np.array(
                [
                    row
                    for row, selection in enumerate(self._selections)
                    if selection.covers(candidate.namespace, labels, self._surroundings)
                ],
                dtype=np.intp,
            )
        return self._covering[key]
