"""In which order nodes are taken where nothing else tells them apart, and how many are enough."""

from collections.abc import Iterable
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubedsm.model.model import Node

#: of fewer nodes all are looked at, and of more at least so many
_FEWEST_NODES = 100
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


def nodes_to_find(nodes: int, percentage: int) -> int:
    """After how many nodes that take a pod kube-scheduler looks at no more, of so many in all.

    percentage: its percentageOfNodesToScore; 0 is its own formula, from 50 % at 100 nodes down to
    5 %. Source: "Scheduler Performance Tuning" in the Kubernetes documentation, and
    numFeasibleNodesToFind.
    """
    if nodes < _FEWEST_NODES:
        return nodes
    percentage = min(percentage, 100) or max(5, 50 - nodes // 125)
    return max(_FEWEST_NODES, nodes * percentage // 100)


def window(
    order: NDArray[np.intp], start: int, feasible: NDArray[np.bool_], wanted: int
) -> tuple[NDArray[np.intp], int]:
    """The first nodes from the start on that take a pod, as many as wanted; where to go on.

    order: nodes by position, round and round; feasible: by position, which of them take the pod.
    Fewer are found only if there are no more; then each node was looked at once. kube-scheduler
    looks at 16 at a time, so that what it finds is not determined; here it is.
    """
    turned = np.roll(order, -start)
    hits = feasible[turned].nonzero()[0][:wanted]
    examined = int(hits[-1]) + 1 if 0 < len(hits) == wanted else len(order)
    return turned[hits], (start + examined) % max(1, len(order))
