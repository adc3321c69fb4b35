"""NodePorts: no two pods of a node occupy one port of one of its addresses."""

from collections.abc import Iterable, Iterator

from kubedsm.core.model import EVERY_ADDRESS
from kubedsm.core.rules.rejection import Refusal
from kubedsm.core.rules.scene import EquivalenceClass, Scene

NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"


def _taken(ip: str, addresses: Iterable[str]) -> bool:
    return ip == EVERY_ADDRESS or any(other in (ip, EVERY_ADDRESS) for other in addresses)


def node_ports(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    taken: set[int] = set()
    for port in candidate.rules.ports:
        occupied = scene.residents.ports.get((port.protocol, port.port), {})
        taken.update(p for p, addresses in occupied.items() if _taken(port.ip, addresses))
    if taken:
        yield Refusal(scene.nodes.at(taken), (NO_FREE_PORTS,))
