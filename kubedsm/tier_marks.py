"""What a bound pod says of its tier, and what makes a scale-down take cloud pods first."""

from kubedsm.core.model import Tier

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
DELETION_COST = {Tier.EDGE: "100", Tier.CLOUD: "-100"}
TIER_LABEL = "kubedsm.io/tier"
