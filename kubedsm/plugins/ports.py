"""NodePorts: a host port of an address has one pod."""

from collections.abc import Iterator

from kubedsm.model.events import Change
from kubedsm.model.model import EVERY_ADDRESS, HostPort
from kubedsm.plugins.plugin import Cluster, Plugin
from kubedsm.plugins.scene import EquivalenceClass, RejectedNodes, Scene

NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"


def ports_clash(wanted: HostPort, held: HostPort) -> bool:
    return (wanted.port, wanted.protocol) == (held.port, held.protocol) and (
        wanted.ip == held.ip or EVERY_ADDRESS in (wanted.ip, held.ip)
    )


def node_ports(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    residents = scene.residents
    full: set[int] = set()
    for wanted in candidate.rules.ports:
        for held, users in residents.ports.items():
            if ports_clash(wanted, held):
                full.update(residents.where(users).tolist())
    if full:
        yield RejectedNodes(scene.nodes.at(full), (NO_FREE_PORTS,))


def _port_freed(change: Change, candidate: EquivalenceClass, _: Cluster) -> bool:
    return change.gone is not None and any(
        ports_clash(wanted, held)
        for wanted in candidate.rules.ports
        for held in change.gone.pod_class.rules.ports
    )


NODE_PORTS = Plugin(
    name="NodePorts",
    demands=("ports",),
    filter=node_ports,
    hint=_port_freed,
    hears=("pod",),
    advice="free the host port on the node",
)
