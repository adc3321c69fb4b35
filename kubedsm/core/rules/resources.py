"""NodeResourcesFit: the free room must hold all that the pod requests."""

from collections.abc import Iterator

import numpy as np

from kubedsm.core.rules.rejection import RejectedNodes
from kubedsm.core.rules.scene import EquivalenceClass, Scene
from kubedsm.core.world.model import Resources


def shortages(requests: Resources, free: Resources) -> tuple[str, ...]:
    """What the free room lacks. A pod that asks for none of a resource needs no room of it."""
    short = []
    if requests.pods and requests.pods > free.pods:
        short.append("Too many pods")
    if requests.cpu and requests.cpu > free.cpu:
        short.append("Insufficient cpu")
    if requests.memory and requests.memory > free.memory:
        short.append("Insufficient memory")
    if requests.other:
        room = dict(free.other)
        short += [f"Insufficient {name}" for name, n in requests.other if n > room.get(name, 0)]
    return tuple(short)


def node_resources_fit(candidate: EquivalenceClass, scene: Scene) -> Iterator[RejectedNodes]:
    requests = candidate.pod_class.requests
    positions = np.flatnonzero(scene.room.short(requests))
    by_reasons: dict[tuple[str, ...], list[int]] = {}
    for position in positions.tolist():
        reasons = shortages(requests, scene.room.of(position))
        by_reasons.setdefault(reasons, []).append(position)
    for reasons, listed in by_reasons.items():
        yield RejectedNodes(scene.nodes.at(listed), reasons)
