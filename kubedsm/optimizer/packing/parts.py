"""What of a packing hangs together: parts of it can be carried out, or left, each by itself."""

from collections.abc import Iterable, Iterator

import attrs

from kubedsm.model.model import NodeName, Pod
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
    """The parts, no two of which touch the same node, nor wait for each other's legs."""
    legs, awaited, evicted = tuple(legs), tuple(awaited), tuple(evicted)
    nodes = _Joined()
    by_name = {leg.name: leg for leg in legs}
    for leg in legs:
        nodes.join(leg.source, leg.target, *(by_name[name].source for name in leg.needs))
    for move in awaited:
        nodes.join(move.target)
    for pod in evicted:
        nodes.join(*(node for node in (pod.node_name,) if node is not None))
    for number in dict.fromkeys(nodes.part.values()):
        here = {name for name, part in nodes.part.items() if part == number}
        yield Part(
            tuple(leg for leg in legs if leg.source in here),
            tuple(move for move in awaited if move.target in here),
            tuple(pod for pod in evicted if pod.node_name in here),
        )


class _Joined:
    def __init__(self) -> None:
        self.part: dict[NodeName, int] = {}

    def join(self, *nodes: NodeName) -> None:
        parts = {self.part.setdefault(node, len(self.part)) for node in nodes}
        for node, part in self.part.items():
            if part in parts:
                self.part[node] = min(parts)
