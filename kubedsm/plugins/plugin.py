"""What a rule of scheduling is made of.

Hints: every node rejects a waiting pod by one rule, the first that does. Nothing can come of trying
the pod again before one of those rules may speak otherwise of some node. So each rule has a hint:
whether a change may make it accept a node that it rejected. A hint may say yes in vain, never no in
vain.

Source: the extension points of the Kubernetes documentation's "Scheduling Framework"; KEP-4247
(per-plugin callback functions for efficient requeueing in the scheduling queue), and the
EventsToRegister of kube-scheduler's plugins.
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
    """The cluster as it is after a change."""

    @property
    def surroundings(self) -> Surroundings: ...

    def node(self, name: NodeName) -> Node | None: ...

    def free(self, name: NodeName) -> Resources: ...


#: the nodes it rejects, in the order in which its own conditions are tried
Filter = Callable[[EquivalenceClass, Scene], Iterable[RejectedNodes]]
#: of each of these nodes 0..100; None if it has nothing to say
Score = Callable[[EquivalenceClass, Scene, Positions], list[int] | None]
#: None: the node that changed, or has capacity freed, now accepts the pod
Hint = Callable[[Change, EquivalenceClass, Cluster], bool] | None


@attrs.frozen(slots=True, kw_only=True, eq=False)
class Plugin:
    """A rule, under the name of kube-scheduler's plugin. Reasons are "" where there is none."""

    name: str
    #: the fields of `SchedulingRules` that it is about: a pod without any is not filtered by it
    demands: tuple[str, ...] = ()
    #: why the pod is not to be looked at yet
    pre_enqueue: Callable[[Pod], str] | None = None
    #: why a pod with these rules can go nowhere, whatever the nodes are
    pre_filter: Callable[[SchedulingRules, Surroundings], str] | None = None
    #: comes before the filters of all plugins
    first_filter: Filter | None = None
    filter: Filter | None = None
    #: the verdict depends on the pod class and the node alone
    static: bool = False
    #: the labels of the waiting pod decide as well as what it asks for
    by_labels: bool = False
    hint: Hint
    #: what the hint looks at: no other change needs to be shown to it
    hears: tuple[Matter, ...]
    #: what would have to change, for people; {lacking} is the room that the node lacks
    advice: str
    score: Score | None = None
    #: of the score, in kube-scheduler's default profile
    weight: int = 0


def never(_change: Change, _candidate: EquivalenceClass, _cluster: Cluster) -> bool:
    """The hint of a rule that is about the pod alone: only the pod itself can change that."""
    return False
