"""All rules, under the names of kube-scheduler's plugins and in the order in which it runs them.

The first that rejects a node gives the reasons. What a pod demands of no node in particular comes
before all of them. There is no NodeName here: a pod with spec.nodeName is bound already.
"""

from collections.abc import Callable, Iterator

from kubedsm.core.rules.node_rules import CONFLICT, TIER_RULE, named_nodes
from kubedsm.core.rules.pod_affinity import inter_pod_affinity
from kubedsm.core.rules.ports import node_ports
from kubedsm.core.rules.rejection import Refusal, Rejection
from kubedsm.core.rules.resources import node_resources_fit
from kubedsm.core.rules.scene import EquivalenceClass, Rule, Scene
from kubedsm.core.rules.spread import pod_topology_spread
from kubedsm.core.rules.volume_limits import node_volume_limits
from kubedsm.core.rules.volumes import (
    claims_refused,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from kubedsm.core.world.model import SchedulingRules
from kubedsm.core.world.surroundings import Surroundings

NOT_ALLOCATED = "pod has ResourceClaims, whose devices KubeDSM does not allocate"


def _node_unschedulable(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    yield scene.nodes.cordoned(candidate.rules.tolerations)


def _taint_toleration(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    yield from scene.nodes.tainted(candidate.rules.tolerations)


def _node_affinity(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    yield scene.nodes.not_affine(candidate.rules)


def _tier(_: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    yield scene.nodes.tierless()


def _named(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    refusal = scene.nodes.unnamed(candidate.rules)
    if refusal is not None:
        yield refusal


#: what a pod class and a node decide between them; nodes ruled out by name come first of all
STATIC_RULES: tuple[tuple[str, Rule], ...] = (
    ("NodeAffinity", _named),
    ("NodeUnschedulable", _node_unschedulable),
    ("TaintToleration", _taint_toleration),
    ("NodeAffinity", _node_affinity),
    (TIER_RULE, _tier),
)
#: what depends on the other pods, too
DYNAMIC_RULES: tuple[tuple[str, Rule], ...] = (
    ("NodePorts", node_ports),
    ("NodeResourcesFit", node_resources_fit),
    ("VolumeRestrictions", volume_restrictions),
    ("NodeVolumeLimits", node_volume_limits),
    ("VolumeBinding", volume_binding),
    ("VolumeZone", volume_zone),
    ("PodTopologySpread", pod_topology_spread),
    ("InterPodAffinity", inter_pod_affinity),
)


def _self_contradiction(rules: SchedulingRules, _: Surroundings) -> Rejection | None:
    if named_nodes(rules) != frozenset():
        return None
    return Rejection("NodeAffinity", (CONFLICT,), everywhere=True)


def _resource_claims(rules: SchedulingRules, _: Surroundings) -> Rejection | None:
    if not rules.resource_claims:
        return None
    return Rejection("DynamicResources", (NOT_ALLOCATED,), everywhere=True)


#: why a pod can go nowhere, whatever the nodes are
POD_RULES: tuple[Callable[[SchedulingRules, Surroundings], Rejection | None], ...] = (
    _self_contradiction,
    claims_refused,
    _resource_claims,
)
