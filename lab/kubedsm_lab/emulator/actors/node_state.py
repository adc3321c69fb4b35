"""What is asked of a node and of a zone: heard of, Ready, and how fast nodes may be given up."""

from collections import defaultdict
from collections.abc import Iterable

from kubedsm_lab.emulator.actors.conditions import find, of
from kubedsm_lab.emulator.actors.pod_state import annotations_of, labels_of
from kubedsm_lab.emulator.api.resources import Object

#: a node annotated with "true" here is cut off: nothing comes from its kubelet, which runs on
DISCONNECTED = "emulator.kubedsm.io/disconnected"
Zone = tuple[str, str]

#: seconds from one node that is given up to the next: --node-eviction-rate, and the secondary one
_NORMAL, _SLOW = 10.0, 100.0
#: --unhealthy-zone-threshold; and --large-cluster-size-threshold, for a zone
_UNHEALTHY, _LARGE = 0.55, 50
#: more nodes than these must be lost for a zone to be disrupted in part
_FEW = 2


def is_ready_node(node: Object) -> bool:
    ready = find(of(node["status"]), "Ready")
    return ready is not None and ready["status"] == "True"


def is_disconnected(node: Object) -> bool:
    return annotations_of(node).get(DISCONNECTED) == "true"


def zone_of(node: Object) -> Zone:
    labels = labels_of(node)
    return (
        labels.get("topology.kubernetes.io/region", ""),
        labels.get("topology.kubernetes.io/zone", ""),
    )


def eviction_intervals(nodes: Iterable[Object]) -> dict[Zone, float | None]:
    """Seconds from one lost node of a zone that gets its NoExecute taint to the next.

    None: no node gets it. In no zone at all does one where nothing is healthy anywhere, for then it
    is rather the control plane that is cut off. Source: ComputeZoneState and handleDisruption of
    k8s.io/kubernetes/pkg/controller/nodelifecycle.
    """
    zones = defaultdict[Zone, list[bool]](list)
    for node in nodes:
        zones[zone_of(node)].append(is_ready_node(node))
    if not any(ready for of_zone in zones.values() for ready in of_zone):
        return dict.fromkeys(zones)
    return {zone: _interval(of_zone) for zone, of_zone in zones.items()}


def _interval(ready: list[bool]) -> float | None:
    lost = ready.count(False)
    if lost == len(ready) or lost <= _FEW or lost / len(ready) < _UNHEALTHY:
        return _NORMAL
    return _SLOW if len(ready) > _LARGE else None
