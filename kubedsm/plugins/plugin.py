"""Scheduling plugin: extension points of one kube-scheduler rule, with their inputs and verdicts.

The first rejecting plugin determines the rejection of a node. An unschedulable pod is retried after
changes with a positive queueing hint of a rejecting plugin. False positives are permitted, false
negatives are not. Source: "Scheduling Framework" in the Kubernetes documentation;
KEP-4247; EventsToRegister of kube-scheduler's plugins.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self

import attrs

from kubedsm.model.events import Change, Matter
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod, PodAffinityTerm, PodClass, SchedulingRules
from kubedsm.model.node_index import FreeCapacity, Mask, NodeIndex, Positions
from kubedsm.model.residents import Residents, Selection
from kubedsm.model.surroundings import Surroundings
from kubedsm.plugins.storage import Storage


@attrs.frozen(slots=True)
class Rejection:
    """Rejection of a pod by a node: the name of the rejecting plugin, with its reasons."""

    rule: str
    reasons: tuple[str, ...]
    #: concerns only the pod: all nodes reject
    everywhere: bool = False


@attrs.frozen(slots=True, eq=False)
class RejectedNodes:
    """Nodes rejected by a plugin for identical reasons."""

    nodes: Mask
    reasons: tuple[str, ...]
    #: removable by arriving pods
    mendable: bool = False


@attrs.frozen(slots=True, cache_hash=True)
class EquivalenceClass:
    """Properties of a pod that decide its feasibility: pods with equal properties are
    interchangeable.

    Contains only labels referenced by selectors in the cluster.
    """

    pod_class: PodClass
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    rules: SchedulingRules = attrs.field(init=False, eq=False, repr=False)
    label_map: Mapping[str, str] = attrs.field(init=False, eq=False, repr=False)

    @rules.default
    def _rules(self) -> SchedulingRules:
        return self.pod_class.rules

    @label_map.default
    def _label_map(self) -> Mapping[str, str]:
        return dict(self.labels)

    def is_selected(self, term: PodAffinityTerm, surroundings: Surroundings) -> bool:
        """Return True if the affinity term selects pods of this class."""
        return Selection.of(term).covers(self.namespace, self.label_map, surroundings)


class ClassIndex:
    """Index of equivalence classes by label, to find the classes that a selection covers."""

    def __init__(self, classes: Iterable[EquivalenceClass], surroundings: Surroundings) -> None:
        self._classes = list(classes)
        self._surroundings = surroundings
        self._by_label: defaultdict[tuple[str, str], list[EquivalenceClass]] = defaultdict(list)
        for each in self._classes:
            for label in each.labels:
                self._by_label[label].append(each)
        self._known: dict[Selection, list[EquivalenceClass]] = {}

    def covered(self, selection: Selection) -> list[EquivalenceClass]:
        found = self._known.get(selection)
        if found is None:
            some = self._classes
            for key, operator, values in selection.selector or ():
                if operator == "In":
                    some = [each for v in {*values} for each in self._by_label[key, v]]
            found = self._known[selection] = [
                each
                for each in some
                if selection.covers(each.namespace, each.label_map, self._surroundings)
            ]
        return found


@attrs.frozen(slots=True, eq=False)
class Scene:
    """Cluster state as the input of scheduling plugins: nodes, free capacity, running pods,
    volumes.
    """

    nodes: NodeIndex
    room: FreeCapacity
    residents: Residents
    surroundings: Surroundings
    #: shared by the states of the same nodes and surroundings
    storage: Storage = attrs.field()

    @storage.default
    def _index_storage(self) -> Storage:
        return Storage(self.nodes, self.surroundings)

    @classmethod
    def bare(cls, nodes: NodeIndex, room: FreeCapacity) -> Self:
        """Construct a cluster state without running pods, from nodes and free capacity alone."""
        surroundings = Surroundings()
        return cls(nodes, room, Residents(nodes, surroundings, None), surroundings)


def node_labels(rules: SchedulingRules) -> Iterator[str]:
    """Yield the keys of the node labels that these scheduling rules refer to."""
    for label, _ in rules.node_selector:
        yield label
    for term in rules.node_affinity or ():
        for requirement in term.expressions:
            yield requirement.key
    for affinity in (*rules.affinity, *rules.anti_affinity):
        yield affinity.topology_key
    for constraint in (*rules.spread, *rules.preferences.spread):
        yield constraint.topology_key


#: Yields rejected nodes, in evaluation order.
Filter = Callable[[EquivalenceClass, Scene], Iterable[RejectedNodes]]
#: Returns 0..100 for each node; None if not applicable.
Score = Callable[[EquivalenceClass, Scene, Positions], list[int] | None]
#: None: evaluate the changed node, or the node with released capacity
Hint = Callable[[Change, EquivalenceClass, ClusterMirror], bool] | None


@attrs.frozen(slots=True, kw_only=True, eq=False)
class Plugin:
    """Scheduling plugin under kube-scheduler's name, which filters or scores nodes for a pod; empty
    reasons mean acceptance.
    """

    name: str
    #: relevant fields of `SchedulingRules`: pods without these rules are accepted
    demands: tuple[str, ...] = ()
    #: reason against scheduling the pod now
    pre_enqueue: Callable[[Pod], str] | None = None
    #: reason for rejection by all nodes
    pre_filter: Callable[[SchedulingRules, Surroundings], str] | None = None
    #: runs before all other filters
    first_filter: Filter | None = None
    filter: Filter | None = None
    #: the verdict depends only on pod class and node
    static: bool = False
    #: the verdict depends on the pod's labels
    by_labels: bool = False
    hint: Hint
    #: kinds of change evaluated by the hint
    hears: tuple[Matter, ...]
    #: remedy for operators; {lacking} is the missing capacity
    advice: str
    score: Score | None = None
    #: weight of the score in kube-scheduler's default profile
    weight: int = 0


def never(_change: Change, _candidate: EquivalenceClass, _cluster: ClusterMirror) -> bool:
    """Queueing hint that never requeues a pod, for plugins whose verdict depends only on the
    pod.
    """
    return False


#: scores as by kube-scheduler 1.36, here and in the plugins
MAX_NODE_SCORE = 100


def scale_scores(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    """Normalise node scores to a maximum of 100; with `reverse`, the highest score becomes 0 and
    lower scores count more.
    """
    greatest = max(scores, default=0)
    if not greatest:
        return [MAX_NODE_SCORE if reverse else score for score in scores]
    scaled = [MAX_NODE_SCORE * score // greatest for score in scores]
    return [MAX_NODE_SCORE - score for score in scaled] if reverse else scaled
