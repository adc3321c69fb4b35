"""What a bound pod says of its tier, and what makes a scale-down take cloud pods first."""

from collections.abc import Callable, Mapping

import attrs

from kubedsm.model.change import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import DELETION_COST_ANNOTATION, Node, Pod, Tier

DELETION_COST: Mapping[str, str] = {Tier.EDGE: "100", Tier.CLOUD: "-100"}
TIER_LABEL = "kubedsm.io/tier"


@attrs.frozen(slots=True)
class TierMarks:
    labels: dict[str, str] = attrs.field(factory=dict)
    annotations: dict[str, str] = attrs.field(factory=dict)


def tier_marks(pod: Pod, tier: Tier | None) -> TierMarks:
    """What to write on the pod when it comes to a node of that tier, or its node comes to it.

    A deletion cost that its user chose stays: any but the one that we write for the tier which
    the pod is marked with. So does a label that it was made with: its owner may know it by that.
    """
    if tier is None:
        return TierMarks()
    made_with = pod.node_name is None and TIER_LABEL in pod.labels
    labels = {} if made_with else {TIER_LABEL: tier.value}
    ours = DELETION_COST.get(pod.labels.get(TIER_LABEL, ""))
    if pod.deletion_cost not in (None, ours):
        return TierMarks(labels)
    return TierMarks(labels, {DELETION_COST_ANNOTATION: DELETION_COST[tier]})


@attrs.define
class TierKeeper:
    """Notices when our pods on a node do not say its tier, once it is asked to for the first time.

    Until then another process sees to that.
    """

    _mirror: ClusterMirror
    _scheduler_name: str
    #: takes labels and annotations
    _on_wrong: Callable[[Pod, Mapping[str, str], Mapping[str, str]], None]
    _asked: bool = attrs.field(default=False, init=False)

    def mark_all(self) -> None:
        """Look at all nodes, and from now on at each whose tier changes."""
        self._asked = True
        for pod in self._mirror.pods():
            if pod.node_name is not None:
                self._mark(pod, self._mirror.node(pod.node_name))

    def observe(self, change: Change) -> None:
        before, after = change.node_before, change.node_after
        if self._asked and before and after and before.tier is not after.tier:
            for pod in self._mirror.pods():
                if pod.node_name == after.name:
                    self._mark(pod, after)

    def _mark(self, pod: Pod, node: Node | None) -> None:
        marked, tier = pod.labels.get(TIER_LABEL), None if node is None else node.tier
        ours = pod.scheduler_name == self._scheduler_name
        if ours and marked is not None and tier is not None and marked != tier:
            marks = tier_marks(pod, tier)
            self._on_wrong(pod, marks.labels, marks.annotations)
