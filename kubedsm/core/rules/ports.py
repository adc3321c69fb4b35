"""NodePorts: no two pods of a node occupy one port of one of its addresses."""

from collections.abc import Iterable, Iterator

from kubedsm.core.rules.plugin import Cluster, Plugin
from kubedsm.core.rules.rejection import Refusal
from kubedsm.core.rules.scene import EquivalenceClass, Scene
from kubedsm.core.world.change import Change
from kubedsm.core.world.model import EVERY_ADDRESS

NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"


def taken(ip: str, addresses: Iterable[str]) -> bool:
    """Whether a port of that address cannot be had where these occupy it."""
    return ip == EVERY_ADDRESS or any(other in (ip, EVERY_ADDRESS) for other in addresses)


def node_ports(candidate: EquivalenceClass, scene: Scene) -> Iterator[Refusal]:
    full: set[int] = set()
    for port in candidate.rules.ports:
        occupied = scene.residents.ports.get((port.protocol, port.port), {})
        full.update(p for p, addresses in occupied.items() if taken(port.ip, addresses))
    if full:
        yield Refusal(scene.nodes.at(full), (NO_FREE_PORTS,))


def _port_freed(change: Change, candidate: EquivalenceClass, _: Cluster) -> bool:
    gone = change.gone
    return gone is not None and any(
        taken(wanted.ip, [port.ip])
        for wanted in candidate.rules.ports
        for port in gone.pod_class.rules.ports
        if (port.port, port.protocol) == (wanted.port, wanted.protocol)
    )


NODE_PORTS = Plugin(
    name="NodePorts",
    filter=node_ports,
    hint=_port_freed,
    advice="free the host port on the node",
)
