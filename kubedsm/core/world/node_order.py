"""In which order nodes are taken where nothing else tells them apart."""

from collections.abc import Iterable
from itertools import zip_longest
from typing import NamedTuple

from kubedsm.core.world.model import Node

_REGION_LABEL = "topology.kubernetes.io/region"
_ZONE_LABEL = "topology.kubernetes.io/zone"


class Zone(NamedTuple):
    """What fails together: nodes without labels of either kind are one zone."""

    region: str = ""
    zone: str = ""


def zone_of(node: Node) -> Zone:
    return Zone(node.labels.get(_REGION_LABEL, ""), node.labels.get(_ZONE_LABEL, ""))


def zone_interleaved(nodes: Iterable[Node]) -> list[Node]:
    """The first node of each zone, then the second of each, and so on; zones as they first come.

    Source: the node tree of kube-scheduler ("Scheduler Performance Tuning" in the Kubernetes
    documentation).
    """
    zones: dict[Zone, list[Node]] = {}
    for node in nodes:
        zones.setdefault(zone_of(node), []).append(node)
    return [node for turn in zip_longest(*zones.values()) for node in turn if node is not None]
