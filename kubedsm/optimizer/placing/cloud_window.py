"""How much of a large cloud is looked at for a batch: all of it, or some of its nodes in turn.

kube-scheduler looks at some of the nodes for each pod and goes on from there for the next one.
Here that goes for batches and for the cloud: the edge is small, and what is decided there counts.
"""

from collections.abc import Iterable

import attrs
import numpy as np

from kubedsm.model.model import Tier
from kubedsm.model.node_index import Mask, NodeIndex, nodes_to_find, window


@attrs.frozen(slots=True)
class LookedAt:
    """So many nodes of a cloud of so many, in turn, from that one on."""

    first: int
    number: int
    of: int

    @property
    def following(self) -> int:
        """Where to go on."""
        return (self.first + self.number) % self.of

    def __str__(self) -> str:
        return f"{self.number} of {self.of} cloud nodes looked at"

    def as_json(self) -> dict[str, int]:
        return {"lookedAt": self.number, "of": self.of}

    def nodes(self, index: NodeIndex) -> Mask:
        return index.at(np.roll(index.of_tier(Tier.CLOUD), -self.first)[: self.number])

    def others(self, index: NodeIndex) -> Mask:
        """The nodes of the cloud that were not looked at."""
        return index.at(index.of_tier(Tier.CLOUD)) & ~self.nodes(index)


@attrs.frozen(slots=True)
class Sampling:
    """What part of the cloud's nodes is enough, and where the search for them begins."""

    #: as `nodes_to_find` takes it
    percentage: int = 100
    start: int = 0

    def looked_at(self, index: NodeIndex, taking: Iterable[Mask]) -> LookedAt | None:
        """As few nodes as have enough for each kind of pod; None for the whole cloud.

        taking: of each kind, the nodes that take it. One that the whole cloud refuses is left out.
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
