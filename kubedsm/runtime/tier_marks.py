"""What a bound pod says of its tier, and what makes a scale-down take cloud pods first."""

from collections.abc import Mapping

import attrs

from kubedsm.core.world.model import DELETION_COST_ANNOTATION, Pod, Tier

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
