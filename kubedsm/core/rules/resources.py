"""NodeResourcesFit: the free room must hold all that the pod requests."""

from collections.abc import Iterator

import numpy as np

from kubedsm.core.rules.rejection import RejectedNodes
from kubedsm.core.rules.scene import EquivalenceClass, Scene
from kubedsm.core.world.model import Resources


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


def node_resources_fit(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    requests = candidate.pod_class.requests
    basic = ("pods", requests.pods), ("cpu", requests.cpu), ("memory", requests.memory)
    asked = [(name, amount) for name, amount in (*basic, *requests.other) if amount]
    if not asked or not len(scene.nodes):
        return
    short = np.stack([scene.room.column(name) < amount for name, amount in asked], axis=1)
    looks, which = np.unique(short, axis=0, return_inverse=True)
    for look, lacking in enumerate(looks.tolist()):
        if any(lacking):
            pairs = zip(asked, lacking, strict=True)
            reasons = tuple(_lack_of(name) for (name, _), lacks in pairs if lacks)
            yield RejectedNodes(which.ravel() == look, reasons)
