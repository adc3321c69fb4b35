"""NodeResourcesFit, NodePorts and Tier: free capacity, free host ports, and a tier label.

Rejection messages are identical to kube-scheduler's.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import EVERY_ADDRESS, HostPort, NodeName, Resources
from kubedsm.model.node_index import NodeIndex
from kubedsm.model.quantities import format_amount
from kubedsm.plugins.plugin import (
    EquivalenceClass,
    Plugin,
    RejectedNodes,
    Rejection,
    Scene,
)

NO_TIER = "node(s) had no label that makes them edge or cloud"
#: usable bits of a signed 64-bit number
_BITS = 63


def _lack_of(name: str) -> str:
    return "Too many pods" if name == "pods" else f"Insufficient {name}"


def shortages(requests: Resources, free: Resources) -> tuple[str, ...]:
    """Return the resources that a node lacks for a pod; a zero request needs no free capacity."""
    short = []
    if requests.pods and requests.pods > free.pods:
        short.append("pods")
    if requests.cpu and requests.cpu > free.cpu:
        short.append("cpu")
    if requests.memory and requests.memory > free.memory:
        short.append("memory")
    if requests.other:
        room = dict(free.other)
        short += [name for name, amount in requests.other if amount > room.get(name, 0)]
    return tuple(map(_lack_of, short))


def too_little(requests: Resources, allocatable: Resources) -> tuple[str, ...]:
    """Return the resources of which a pod requests more than a node's allocatable amount, as text
    with that amount.
    """
    return tuple(
        format_amount(name, allocatable.amount(name))
        for name, amount in requests.items()
        if amount and amount > allocatable.amount(name)
    )


def larger_than_any(requests: Resources, nodes: NodeIndex) -> str:
    """Return an explanation for pods larger than every empty node; otherwise an empty string."""
    asked = [(name, amount) for name, amount in requests.items() if amount]
    enough = np.ones(len(nodes), dtype=np.bool_)
    for name, amount in asked:
        enough &= nodes.size(name) >= amount
    if enough.any() or not len(nodes):
        return ""
    most = {name: int(nodes.size(name).max()) for name, _ in asked}
    beyond = [
        f"the pod requests {format_amount(name, amount)},"
        f" the largest has {format_amount(name, most[name])}"
        for name, amount in asked
        if amount > most[name]
    ]
    together = " and ".join(format_amount(name, amount) for name, amount in asked if name != "pods")
    why = "; ".join(beyond) or f"none has {together} together"
    return f"No node is large enough: {why}."


def node_resources_fit(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    requests = candidate.pod_class.requests
    basic = ("pods", requests.pods), ("cpu", requests.cpu), ("memory", requests.memory)
    asked = [(name, amount) for name, amount in (*basic, *requests.other) if amount]
    # One bit per resource, for each node.
    bits = np.dtype(np.int64 if len(asked) <= _BITS else object)
    lacking = np.zeros(len(scene.nodes), dtype=bits)
    for bit, (name, amount) in enumerate(asked):
        lacking |= (scene.room.column(name) < amount).astype(bits) << bit
    for look in sorted({*lacking[lacking > 0].tolist()}):
        reasons = tuple(_lack_of(name) for bit, (name, _) in enumerate(asked) if look >> bit & 1)
        yield RejectedNodes(lacking == look, reasons)


#: not a kube-scheduler plugin
TIER = Plugin(
    name="Tier",
    filter=lambda _, scene: [RejectedNodes(scene.nodes.tierless, (NO_TIER,))],
    static=True,
    hint=None,
    hears=("room", "node"),
    advice="label the node with a tier",
)
NODE_RESOURCES_FIT = Plugin(
    name="NodeResourcesFit",
    filter=node_resources_fit,
    hint=None,
    hears=("room", "node"),
    advice="free {lacking} on the node",
)


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


def _port_freed(change: Change, candidate: EquivalenceClass, _: ClusterMirror) -> bool:
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


def unschedulable_message(rejections: Mapping[NodeName, Rejection]) -> str:
    """Return kube-scheduler's message about an unschedulable pod, for Events and the PodScheduled
    condition, from the nodes' rejections.
    """
    if not rejections:
        return "no nodes available to schedule pods"
    everywhere = next((r for r in rejections.values() if r.everywhere), None)
    # Reasons concerning only the pod are not counted.
    why = ", ".join(everywhere.reasons) if everywhere else count_reasons(rejections)
    return f"0/{len(rejections)} nodes are available: {why}."


def why_unschedulable(
    requests: Resources, rejections: Mapping[NodeName, Rejection], nodes: NodeIndex
) -> str:
    """Return kube-scheduler's message about an unschedulable pod, with an explanation if the pod is
    larger than every node.
    """
    said = unschedulable_message(rejections)
    if any(rejected.rule == NODE_RESOURCES_FIT.name for rejected in rejections.values()):
        said = f"{said} {larger_than_any(requests, nodes)}".rstrip()
    return said


def count_reasons(rejections: Mapping[NodeName, Rejection]) -> str:
    """Return the number of nodes by rejection reason as text, such as `2 Insufficient cpu, 1
    Insufficient memory`.
    """
    counts = Counter(reason for rejected in rejections.values() for reason in rejected.reasons)
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
