"""Plugin: extension points of one scheduling rule.

Every node rejects an unschedulable pod by one plugin, the first that does. The pod is retried only
after a change that may make such a plugin accept a node: its queueing hint. A hint may be positive
in vain, never negative in vain. Source: "Scheduling Framework" in the Kubernetes documentation;
KEP-4247; EventsToRegister of kube-scheduler's plugins.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import attrs

from kubedsm.model.events import Change, Matter
from kubedsm.model.model import Node, NodeName, Pod, Resources, SchedulingRules
from kubedsm.model.node_index import Positions
from kubedsm.model.surroundings import Surroundings
from kubedsm.plugins.scene import EquivalenceClass, RejectedNodes, Scene


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
