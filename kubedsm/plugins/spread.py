"""PodTopologySpread: keeps pods matched by a constraint evenly spread over topology domains such as
zones.

Skew of a domain: matching pods including the candidate, minus the minimum over eligible domains (0
with fewer domains than minDomains). `Skews` represents the constraints of a batch as arrays, with
one row per constraint and one column per domain.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod, SpreadConstraint
from kubedsm.model.node_index import Column, Ints, Mask, Positions
from kubedsm.model.residents import Selection
from kubedsm.model.selectors import selects
from kubedsm.plugins.plugin import (
    MAX_NODE_SCORE,
    ClassIndex,
    EquivalenceClass,
    Plugin,
    RejectedNodes,
    Scene,
    node_labels,
)
from kubedsm.plugins.taints import tolerable_nodes

_HOSTNAME = "kubernetes.io/hostname"
UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{UNEVEN} (missing required label)"


@attrs.frozen(slots=True, eq=False)
class Domains:
    """Topology domains of one spread constraint: the domain of each node, and the nodes that
    count.
    """

    column: Column
    #: eligible nodes
    counted: Mask
    #: mask of existing domains, by code
    present: Mask
    #: minDomains is satisfied
    enough: bool
    #: selection of matching pods
    selection: Selection

    def matching(self, scene: Scene) -> Ints:
        """Return the number of pods matched by the spread constraint in each topology domain."""
        return self.column.sums(scene.residents.counts((self.selection,)), self.counted)

    def least(self, matching: Ints) -> int:
        return int(matching[self.present].min()) if self.enough else 0


def domains_of(
    candidate: EquivalenceClass, scene: Scene
) -> Iterator[tuple[SpreadConstraint, Domains]]:
    """Yield the spread constraints of an equivalence class, with their topology domains."""
    constraints = candidate.rules.spread
    columns, labelled = _label_columns(constraints, scene)
    for constraint, column in zip(constraints, columns, strict=True):
        counted = labelled & eligible(candidate, constraint, scene)
        present = column.sums(counted.astype("int64")) > 0
        enough = bool(present.sum() >= constraint.min_domains)
        yield constraint, Domains(column, counted, present, enough, _selection_of(constraint))


def _label_columns(
    constraints: Iterable[SpreadConstraint], scene: Scene
) -> tuple[list[Column], Mask]:
    """Return the label column of each constraint's topology key, and the mask of nodes that have
    all these labels.
    """
    columns = [scene.nodes.label(constraint.topology_key) for constraint in constraints]
    labelled = scene.nodes.every()
    for column in columns:
        labelled &= column.present
    return columns, labelled


def _selection_of(constraint: SpreadConstraint) -> Selection:
    # kube-scheduler counts no pod for a selector without requirements.
    return Selection(constraint.selector or None, (constraint.namespace,), living=True)


def pod_topology_spread(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    own = candidate.label_map
    for constraint, domains in domains_of(candidate, scene):
        column = domains.column
        yield RejectedNodes(~column.present, (NO_LABEL,))
        matching = domains.matching(scene)
        newcomer = selects(constraint.selector, own)
        skew = matching[column.codes] + newcomer - domains.least(matching)
        yield RejectedNodes(skew > constraint.max_skew, (UNEVEN,), mendable=True)


def eligible(candidate: EquivalenceClass, constraint: SpreadConstraint, scene: Scene) -> Mask:
    """Return the mask of nodes that count for the topology spread constraint, by its node affinity
    and taint policies.
    """
    nodes = scene.nodes.every()
    if constraint.honor_affinity:
        nodes &= scene.nodes.match_affinity(candidate.rules)
    if constraint.honor_taints:
        nodes &= tolerable_nodes(candidate, scene)
    return nodes


def spread_score(terms: Iterable[tuple[int, int, int]]) -> int:
    """Return PodTopologySpread's unnormalised score of a node; lower is better.

    terms: per constraint, matching pods in the node's domain, maxSkew, and number of domains.
    """
    total = sum(count * math.log(size + 2) + (max_skew - 1) for count, max_skew, size in terms)
    return math.floor(total + 0.5)


def scale_spread(scores: Sequence[int]) -> list[int]:
    """Normalise PodTopologySpread scores to 0..100; fewer matching pods score higher."""
    least, greatest = min(scores, default=0), max(scores, default=0)
    if not greatest:
        return [MAX_NODE_SCORE] * len(scores)
    return [MAX_NODE_SCORE * (greatest + least - score) // greatest for score in scores]


def _score_evenness(
    candidate: EquivalenceClass, scene: Scene, chosen: Positions
) -> list[int] | None:
    """Score nodes by how evenly preferred topology spread constraints would be met; nodes without a
    topology label score 0.
    """
    constraints = candidate.rules.preferences.spread
    if not constraints:
        return None
    columns, labelled = _label_columns(constraints, scene)
    usable = chosen[labelled[chosen]]
    terms = [
        _score_terms(candidate, constraint, column, usable, labelled, scene)
        for constraint, column in zip(constraints, columns, strict=True)
    ]
    raw = [spread_score(of_node) for of_node in zip(*terms, strict=True)]
    rated = dict(zip(usable.tolist(), scale_spread(raw), strict=True))
    return [rated.get(position, 0) for position in chosen.tolist()]


def _score_terms(
    candidate: EquivalenceClass,
    constraint: SpreadConstraint,
    column: Column,
    usable: Positions,
    labelled: Mask,
    scene: Scene,
) -> list[tuple[int, int, int]]:
    """Return, for each usable node, the number of matching pods in its domain, maxSkew, and the
    number of domains of the constraint.
    """
    counts = scene.residents.counts((_selection_of(constraint),))
    if constraint.topology_key == _HOSTNAME:
        matching, size = counts[usable], len(usable)
    else:
        codes = column.codes[usable]
        counted = labelled & eligible(candidate, constraint, scene)
        matching, size = column.sums(counts, counted)[codes], len({*codes.tolist()})
    return [(count, constraint.max_skew, size) for count in matching.tolist()]


def _spread_changed(change: Change, candidate: EquivalenceClass, cluster: ClusterMirror) -> bool:
    node_before, node_after = change.node_before, change.node_after
    if node_before is not None or node_after is not None:
        if node_before is None or node_after is None:
            return True  # domains may appear, or the minimum may increase
        seen = node_labels(candidate.rules)
        return node_before.taints != node_after.taints or any(
            node_before.labels.get(label) != node_after.labels.get(label) for label in seen
        )

    selections = [_selection_of(constraint) for constraint in candidate.rules.spread]

    def counted(pod: Pod | None) -> list[bool]:
        if pod is None or pod.terminating:
            return [False] * len(selections)
        return [s.covers(pod.namespace, pod.labels, cluster.surroundings) for s in selections]

    return counted(change.there_before) != counted(change.there_after)


POD_TOPOLOGY_SPREAD = Plugin(
    name="PodTopologySpread",
    demands=("spread",),
    filter=pod_topology_spread,
    by_labels=True,
    hint=_spread_changed,
    hears=("pod", "node"),
    advice="add matching pods in other domains, or raise maxSkew",
    score=_score_evenness,
    weight=2,
)


_ENDLESS = 2**62


class Skews:
    """Skews of all topology spread constraints of a batch of pods, updated as pods are placed;
    owned by `Settling`.
    """

    def __init__(self, candidates: Iterable[EquivalenceClass], scene: Scene) -> None:
        self._rows: dict[EquivalenceClass, list[int]] = {}
        found: dict[tuple[SpreadConstraint, bytes], int] = {}
        domains: list[Domains] = []
        self._selections: list[Selection] = []
        # Rows of each selection: constraints may share it, one for each topology key.
        alike: dict[Selection, list[int]] = {}
        for candidate in candidates:
            rows = self._rows.setdefault(candidate, [])
            for constraint, of in domains_of(candidate, scene):
                row = found.setdefault((constraint, of.counted.tobytes()), len(found))
                if row == len(domains):
                    domains.append(of)
                    self._selections.append(of.selection)
                    alike.setdefault(of.selection, []).append(row)
                rows.append(row)
        covering: dict[EquivalenceClass, list[int]] = {each: [] for each in self._rows}
        index = ClassIndex(self._rows, scene.surroundings)
        for selection, of_selection in alike.items():
            for covered in index.covered(selection):
                covering[covered] += of_selection
        #: rows of the constraints whose selectors match pods of each class
        self._covering = {c: np.array(of, dtype=np.intp) for c, of in covering.items()}
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
        #: number of placed pods with the constraint
        self._held = np.zeros(shape, dtype=np.int64)
        #: cached until the next change
        self._open: dict[EquivalenceClass, Mask] = {}
        self._upset: dict[EquivalenceClass, Mask] = {}

    def __bool__(self) -> bool:
        """Return True if the batch has any topology spread constraint."""
        return bool(self._selections)

    def change(self, candidate: EquivalenceClass, node: int, by: int) -> None:
        """Add a pod of the class at a node position to the topology-spread counts (by = 1), or
        remove one (by = -1).
        """
        rows = self._covering[candidate]
        rows = rows[self._counted[rows, node]]
        own = self._rows[candidate]
        if len(rows) or own:
            self._matching[rows, self._codes[rows, node]] += by
            self._find_least(rows)
            self._held[own, self._codes[own, node]] += by
            self._open.clear()
            self._upset.clear()

    def open(self, candidate: EquivalenceClass) -> Mask:
        """Return the nodes permitted by the candidate pod's topology spread constraints, as a
        read-only mask.
        """
        known = self._open.get(candidate)
        if known is None:
            known = np.ones(self._codes.shape[1], dtype=np.bool_)
            labels = candidate.label_map
            for row in self._rows[candidate]:
                newcomer = selects(self._selections[row].selector, labels)
                kept = self._matching[row] + newcomer - self._least[row] <= self._skew[row]
                known &= kept[self._codes[row]]
            self._open[candidate] = known
        return known

    def upset(self, candidate: EquivalenceClass) -> Mask:
        """Return the nodes where an additional pod violates other pods' topology spread
        constraints, as a read-only mask.
        """
        known = self._upset.get(candidate)
        if known is None:
            known = np.zeros(self._codes.shape[1], dtype=np.bool_)
            rows = self._covering[candidate]
            full = self._matching[rows] + 1 - self._least[rows] > self._skew[rows]
            full &= self._held[rows] > 0
            for at in np.flatnonzero(full.any(axis=1)):
                row = rows[at]
                known |= full[at][self._codes[row]] & self._counted[row]
            self._upset[candidate] = known
        return known

    def broken(self, candidate: EquivalenceClass, node: int) -> bool:
        """Return True if a pod of the class on this node currently violates its own spread
        constraints.
        """
        own = self._rows[candidate]
        skew = self._matching[own, self._codes[own, node]] - self._least[own, 0]
        return bool((skew > self._skew[own, 0]).any())

    @property
    def all_kept(self) -> bool:
        """True if every spread constraint of the batch is satisfied."""
        return not ((self._held > 0) & (self._matching - self._least > self._skew)).any()

    def _find_least(self, rows: NDArray[np.intp]) -> None:
        among = np.where(self._present[rows], self._matching[rows], _ENDLESS)
        least = among.min(axis=1, initial=_ENDLESS)
        self._least[rows, 0] = np.where(self._enough[rows], least, 0)
