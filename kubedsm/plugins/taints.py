"""NodeUnschedulable and TaintToleration: nodes reject pods without matching tolerations."""

from collections.abc import Iterable, Iterator

import numpy as np

from kubedsm.model.model import Taint, Toleration
from kubedsm.model.node_index import Mask, Positions
from kubedsm.plugins.plugin import EquivalenceClass, Plugin, RejectedNodes, Scene, scale_scores

CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
UNSCHEDULABLE = "node(s) were unschedulable"
PREFERS_NO_PODS = "PreferNoSchedule"
_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")


def is_tolerated(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def node_unschedulable(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    cordoned_off = scene.nodes.unschedulable
    if cordoned_off.any() and not is_tolerated(candidate.rules.tolerations, CORDONED):
        yield RejectedNodes(cordoned_off, (UNSCHEDULABLE,))


def first_untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> str:
    """Return the reason of the first untolerated taint; empty if all taints are tolerated."""
    for taint in taints:
        if taint.effect in _KEEPS_PODS_AWAY and not is_tolerated(tolerations, taint):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def taint_toleration(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    """Yield the nodes with untolerated taints, grouped by the first untolerated taint."""
    by_reason: dict[str, list[int]] = {}
    taints = scene.nodes.taints
    for code, of_node in enumerate(taints.values):
        reason = first_untolerated(candidate.rules.tolerations, of_node or ())
        if reason:
            by_reason.setdefault(reason, []).append(code)
    for reason, codes in by_reason.items():
        yield RejectedNodes(np.isin(taints.codes, codes), (reason,))


def tolerable_nodes(candidate: EquivalenceClass, scene: Scene) -> Mask:
    """Return the mask of nodes without taints that the pod does not tolerate."""
    mask = scene.nodes.every()
    for rejected in taint_toleration(candidate, scene):
        mask &= ~rejected.nodes
    return mask


def count_disliked(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> int:
    """Return the number of PreferNoSchedule taints that the tolerations do not tolerate."""
    listed = tuple(tolerations)
    return sum(t.effect == PREFERS_NO_PODS and not is_tolerated(listed, t) for t in taints)


def _score_taints(candidate: EquivalenceClass, scene: Scene, chosen: Positions) -> list[int] | None:
    tolerations, taints = candidate.rules.tolerations, scene.nodes.taints
    table = [count_disliked(tolerations, of_node or ()) for of_node in taints.values]
    disliked = np.array(table, dtype=np.int64)[taints.codes[chosen]]
    return scale_scores(disliked.tolist(), reverse=True) if disliked.any() else None


NODE_UNSCHEDULABLE = Plugin(
    name="NodeUnschedulable",
    filter=node_unschedulable,
    static=True,
    hint=None,
    hears=("room", "node"),
    advice="uncordon the node",
)
TAINT_TOLERATION = Plugin(
    name="TaintToleration",
    filter=taint_toleration,
    static=True,
    hint=None,
    hears=("room", "node"),
    advice="remove the taint, or add a toleration to the pod",
    score=_score_taints,
    weight=3,
)
