"""What of a packing hangs together: parts of it can be carried out, or left, each by itself."""

from collections.abc import Iterable, Iterator

import attrs

from kubedsm.model.model import Pod
from kubedsm.optimizer.moving.migration_graph import connect_nodes
from kubedsm.optimizer.moving.suggestion import Leg, Move


@attrs.frozen(slots=True)
class Part:
    """As in `Packed`."""

    legs: tuple[Leg, ...]
    awaited: tuple[Move, ...]
    evicted: tuple[Pod, ...]

    @property
    def disruptions(self) -> int:
        """How often a pod has to go."""
        return len(self.legs) + len(self.evicted)


def parts_of(
    legs: Iterable[Leg], awaited: Iterable[Move], evicted: Iterable[Pod]
) -> Iterator[Part]:
    """Yield the parts: no two touch the same node, or wait for each other's legs."""
    legs, awaited, evicted = tuple(legs), tuple(awaited), tuple(evicted)
    by_name = {leg.name: leg for leg in legs}
    linked = [
        *([leg.source, leg.target, *(by_name[name].source for name in leg.needs)] for leg in legs),
        *([move.target] for move in awaited),
        *([pod.node_name] for pod in evicted if pod.node_name is not None),
    ]
    for nodes in connect_nodes(linked):
        yield Part(
            tuple(leg for leg in legs if leg.source in nodes),
            tuple(move for move in awaited if move.target in nodes),
            tuple(pod for pod in evicted if pod.node_name in nodes),
        )
