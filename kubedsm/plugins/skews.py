"""How far the spread constraints of a batch are from being broken, all of them as one table.

The rules judge one kind of pod at a time; what a pod that comes does to all others'
constraints would have to be asked of each of them. Here it is a few operations on arrays: one row
a constraint as it looks from its pods, one column a domain.

A pod keeps a constraint if the matching pods of its domain, itself included, are at most maxSkew
more than the least there are in a domain. (Without itself there may be one less of these, but then
its domain was the least.)
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubedsm.model.model import SpreadConstraint
from kubedsm.model.node_index import Mask
from kubedsm.model.residents import Selection
from kubedsm.model.selectors import selects
from kubedsm.plugins.scene import EquivalenceClass, Scene
from kubedsm.plugins.spread import Domains, domains_of

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
        nodes = (len(domains), len(scene.nodes))
        self._skew = np.array([c.max_skew for c, _ in found], dtype=np.int64)[:, None]
        self._codes = np.array([of.column.codes for of in domains], dtype=np.intp).reshape(nodes)
        self._counted = np.array([of.counted for of in domains], dtype=np.bool_).reshape(nodes)
        self._enough = np.array([of.enough for of in domains], dtype=np.bool_)
        shape = (len(domains), max((len(of.present) for of in domains), default=0))
        self._present = np.zeros(shape, dtype=np.bool_)
        self._matching = np.zeros(shape, dtype=np.int64)
        for row, of in enumerate(domains):
            self._present[row, : len(of.present)] = of.present
            self._matching[row, : len(of.present)] = of.matching(scene)
        self._least = np.zeros((len(domains), 1), dtype=np.int64)
        self._find_least(np.arange(len(domains)))
        #: how many pods that came have that constraint
        self._held = np.zeros(shape, dtype=np.int64)
        #: as long as nothing changes
        self._open: dict[EquivalenceClass, Mask] = {}
        self._upset: dict[EquivalenceClass, Mask] = {}

    def __bool__(self) -> bool:
        """Whether there are any constraints."""
        return bool(self._selections)

    def change(self, candidate: EquivalenceClass, node: int, by: int) -> None:
        """A pod came to that node (by = 1) or left it (by = -1)."""
        rows = self._covering_rows(candidate)
        rows = rows[self._counted[rows, node]]
        own = self._rows[candidate]
        if len(rows) or own:
            self._matching[rows, self._codes[rows, node]] += by
            self._find_least(rows)
            self._held[own, self._codes[own, node]] += by
            self._open.clear()
            self._upset.clear()

    def open(self, candidate: EquivalenceClass) -> Mask:
        """The nodes where its own constraints allow a pod; not to be changed."""
        known = self._open.get(candidate)
        if known is None:
            known = np.ones(self._codes.shape[1], dtype=np.bool_)
            labels = candidate.label_map()
            for row in self._rows[candidate]:
                newcomer = selects(self._selections[row].selector, labels)
                kept = self._matching[row] + newcomer - self._least[row] <= self._skew[row]
                known &= kept[self._codes[row]]
            self._open[candidate] = known
        return known

    def upset(self, candidate: EquivalenceClass) -> Mask:
        """The nodes where one more pod would break the constraints of some that came.

        Not to be changed.
        """
        known = self._upset.get(candidate)
        if known is None:
            known = np.zeros(self._codes.shape[1], dtype=np.bool_)
            rows = self._covering_rows(candidate)
            full = self._matching[rows] + 1 - self._least[rows] > self._skew[rows]
            full &= self._held[rows] > 0
            for at in np.flatnonzero(full.any(axis=1)):
                row = rows[at]
                known |= full[at][self._codes[row]] & self._counted[row]
            self._upset[candidate] = known
        return known

    def broken(self, candidate: EquivalenceClass, node: int) -> bool:
        """Whether such a pod that came to that node does not keep its constraints any more."""
        own = self._rows[candidate]
        skew = self._matching[own, self._codes[own, node]] - self._least[own, 0]
        return bool((skew > self._skew[own, 0]).any())

    @property
    def all_kept(self) -> bool:
        """Whether all pods that came keep their constraints."""
        return not ((self._held > 0) & (self._matching - self._least > self._skew)).any()

    def _find_least(self, rows: NDArray[np.intp]) -> None:
        among = np.where(self._present[rows], self._matching[rows], _ENDLESS)
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
