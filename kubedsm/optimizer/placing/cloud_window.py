"""Sampling of a large cloud: how many nodes a batch examines, and where the search starts.

As kube-scheduler's percentageOfNodesToScore, but a batch at a time and for the cloud only.
"""

from collections.abc import Iterable

import attrs
import numpy as np

from kubedsm.model.model import Tier
from kubedsm.model.node_index import Mask, NodeIndex, nodes_to_find, window


@attrs.frozen(slots=True)
class LookedAt:
    """Window of cloud nodes in round-robin order."""

    first: int
    number: int
    of: int

    @property
    def following(self) -> int:
        """Start of the next window."""
        return (self.first + self.number) % self.of

    def __str__(self) -> str:
        return f"{self.number} of {self.of} cloud nodes looked at"

    def as_json(self) -> dict[str, int]:
        return {"lookedAt": self.number, "of": self.of}

    def nodes(self, index: NodeIndex) -> Mask:
        return index.at(np.roll(index.of_tier(Tier.CLOUD), -self.first)[: self.number])

    def others(self, index: NodeIndex) -> Mask:
        """Return the cloud nodes outside the window."""
        return index.at(index.of_tier(Tier.CLOUD)) & ~self.nodes(index)


@attrs.frozen(slots=True)
class Sampling:
    """Sampling percentage and start."""

    #: see `nodes_to_find`
    percentage: int = 100
    start: int = 0

    def looked_at(self, index: NodeIndex, taking: Iterable[Mask]) -> LookedAt | None:
        """Return the smallest window with enough nodes for each kind of pod.

        None for the whole cloud.

        taking: nodes that accept each kind. Kinds that the whole cloud rejects are ignored.
        """
        order = index.of_tier(Tier.CLOUD)
        wanted = nodes_to_find(len(order), self.percentage)
        if wanted >= len(order):
            return None
        number = 0
        for mask in taking:
            if mask[order].any():
                _, following = window(order, self.start, mask, wanted)
                number = max(number, (following - self.start) % len(order) or len(order))
        return LookedAt(self.start, number, len(order)) if 0 < number < len(order) else None


WHOLE_CLOUD = Sampling()
