"""Plugin: extension points of one scheduling rule, with their inputs and verdicts.

Every node rejects an unschedulable pod by one plugin, the first that does. The pod is retried only
after a change that may make such a plugin accept a node: its queueing hint. A hint may be positive
in vain, never negative in vain. Source: "Scheduling Framework" in the Kubernetes documentation;
KEP-4247; EventsToRegister of kube-scheduler's plugins.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, Self

import attrs
import numpy as np

from kubedsm.model.events import Change, Matter
from kubedsm.model.model import Node, NodeName, Pod, PodClass, Resources, SchedulingRules
from kubedsm.model.node_index import Ints, Mask, NodeIndex, Positions, Room
from kubedsm.model.residents import Residents
from kubedsm.model.surroundings import UNLIMITED, Surroundings


@attrs.frozen(slots=True)
class Rejection:
    """Plugin that rejects a node, and its reasons."""

    rule: str
    reasons: tuple[str, ...]
    #: about the pod alone: all nodes reject
    everywhere: bool = False


@attrs.frozen(slots=True, eq=False)
class RejectedNodes:
    """Nodes that a plugin rejects for the same reasons."""

    nodes: Mask
    reasons: tuple[str, ...]
    #: arriving pods may remove the reason
    mendable: bool = False


@attrs.frozen(slots=True, cache_hash=True)
class EquivalenceClass:
    """Inputs of feasibility: pods with equal values are interchangeable.

    Namespace and labels are restricted to labels that some selector in the cluster uses.
    """

    pod_class: PodClass
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    rules: SchedulingRules = attrs.field(init=False, eq=False, repr=False)

    @rules.default
    def _rules(self) -> SchedulingRules:
        return self.pod_class.rules

    def label_map(self) -> Mapping[str, str]:
        return dict(self.labels)


@attrs.frozen(slots=True, eq=False)
class Scene:
    """Nodes, free capacity, running pods, and other objects."""

    nodes: NodeIndex
    room: Room
    residents: Residents
    surroundings: Surroundings
    _limits: dict[str, Ints] = attrs.field(factory=dict)

    @classmethod
    def bare(cls, nodes: NodeIndex, room: Room) -> Self:
        """Build a scene of nodes and capacity alone."""
        surroundings = Surroundings()
        return cls(nodes, room, Residents(nodes, surroundings, None), surroundings)

    def volume_limits(self, driver: str) -> Ints:
        """Return how many volumes of the CSI driver each node can attach."""
        limits = self._limits.get(driver)
        if limits is None:
            known = self.surroundings.csi_nodes or {}
            limits = np.full(len(self.nodes), UNLIMITED, dtype=np.int64)
            for name, position in self.nodes.positions.items():
                if (name,) in known:
                    limits[position] = known[name,].limit(driver)
            self._limits[driver] = limits
        return limits


def node_labels(rules: SchedulingRules) -> Iterator[str]:
    """Yield the node labels that these rules use."""
    for label, _ in rules.node_selector:
        yield label
    for term in rules.node_affinity or ():
        for requirement in term.expressions:
            yield requirement.key
    for affinity in (*rules.affinity, *rules.anti_affinity):
        yield affinity.topology_key
    for constraint in (*rules.spread, *rules.preferences.spread):
        yield constraint.topology_key


def speaks_of_others(pod_class: PodClass) -> bool:
    """Return whether the pod's verdict depends on more than its class and a node."""
    rules = pod_class.rules
    of_pods = rules.affinity or rules.anti_affinity or rules.spread
    return bool(of_pods or rules.ports or rules.claims or rules.disks or rules.resource_claims)


class Cluster(Protocol):
    """Cluster after a change."""

    @property
    def surroundings(self) -> Surroundings: ...

    def node(self, name: NodeName) -> Node | None: ...

    def free(self, name: NodeName) -> Resources: ...


#: Yields rejected nodes, in the order of its conditions.
Filter = Callable[[EquivalenceClass, Scene], Iterable[RejectedNodes]]
#: Returns 0..100 for each node; None if it does not apply.
Score = Callable[[EquivalenceClass, Scene, Positions], list[int] | None]
#: None: the node that changed, or has capacity freed, now accepts the pod
Hint = Callable[[Change, EquivalenceClass, Cluster], bool] | None


@attrs.frozen(slots=True, kw_only=True, eq=False)
class Plugin:
    """Plugin under kube-scheduler's name. Reasons are empty strings for acceptance."""

    name: str
    #: fields of `SchedulingRules` that it needs: it accepts pods without any
    demands: tuple[str, ...] = ()
    #: why the pod is not ready to be scheduled
    pre_enqueue: Callable[[Pod], str] | None = None
    #: why all nodes reject a pod with these rules
    pre_filter: Callable[[SchedulingRules, Surroundings], str] | None = None
    #: runs before all other filters
    first_filter: Filter | None = None
    filter: Filter | None = None
    #: the verdict depends on the pod class and the node alone
    static: bool = False
    #: whether the pod's labels matter
    by_labels: bool = False
    hint: Hint
    #: kinds of change that the hint needs
    hears: tuple[Matter, ...]
    #: remedy for people; {lacking} is the missing capacity
    advice: str
    score: Score | None = None
    #: weight of the score in kube-scheduler's default profile
    weight: int = 0


def never(_change: Change, _candidate: EquivalenceClass, _cluster: Cluster) -> bool:
    """Queueing hint of plugins about the pod alone."""
    return False


#: scores as by kube-scheduler 1.36, here and in the plugins
MAX_NODE_SCORE = 100


def scale_scores(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    """Scale scores so that the greatest is 100; reversed, so that it is 0."""
    greatest = max(scores, default=0)
    if not greatest:
        return [MAX_NODE_SCORE if reverse else score for score in scores]
    scaled = [MAX_NODE_SCORE * score // greatest for score in scores]
    return [MAX_NODE_SCORE - score for score in scaled] if reverse else scaled
