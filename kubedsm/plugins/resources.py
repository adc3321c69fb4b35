"""NodeResourcesFit: the free room must hold all that the pod requests."""

from collections.abc import Iterator

import numpy as np

from kubedsm.model.model import Resources
from kubedsm.model.node_index import NodeIndex
from kubedsm.model.quantities import shown
from kubedsm.plugins.rejection import RejectedNodes
from kubedsm.plugins.scene import EquivalenceClass, Scene

#: of a number of 64, without its sign
_BITS = 63


def _lack_of(name: str) -> str:
    return "Too many pods" if name == "pods" else f"Insufficient {name}"


def shortages(requests: Resources, free: Resources) -> tuple[str, ...]:
    """What the free room lacks. A pod that asks for none of a resource needs no room of it."""
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
    """What the node has in all of that of which the pod requests more."""
    return tuple(
        shown(name, allocatable.amount(name))
        for name, amount in requests.items()
        if amount and amount > allocatable.amount(name)
    )


def larger_than_any(requests: Resources, nodes: NodeIndex) -> str:
    """That no node could take the pod if it were empty, in a sentence; nothing if one could."""
    asked = [(name, amount) for name, amount in requests.items() if amount]
    enough = np.ones(len(nodes), dtype=np.bool_)
    for name, amount in asked:
        enough &= nodes.size(name) >= amount
    if enough.any() or not len(nodes):
        return ""
    most = {name: int(nodes.size(name).max()) for name, _ in asked}
    beyond = [
        f"the pod requests {shown(name, amount)}, the largest has {shown(name, most[name])}"
        for name, amount in asked
        if amount > most[name]
    ]
    together = " and ".join(shown(name, amount) for name, amount in asked if name != "pods")
    why = "; ".join(beyond) or f"none has {together} together"
    return f"No node is large enough: {why}."


def node_resources_fit(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    requests = candidate.pod_class.requests
    basic = ("pods", requests.pods), ("cpu", requests.cpu), ("memory", requests.memory)
    asked = [(name, amount) for name, amount in (*basic, *requests.other) if amount]
    # For each node a bit a resource.
    bits = np.dtype(np.int64 if len(asked) <= _BITS else object)
    lacking = np.zeros(len(scene.nodes), dtype=bits)
    for bit, (name, amount) in enumerate(asked):
        lacking |= (scene.room.column(name) < amount).astype(bits) << bit
    for look in np.unique(lacking[lacking > 0]).tolist():
        reasons = tuple(_lack_of(name) for bit, (name, _) in enumerate(asked) if look >> bit & 1)
        yield RejectedNodes(lacking == look, reasons)
