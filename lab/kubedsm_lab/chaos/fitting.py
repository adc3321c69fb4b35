"""What fits where, literally, and whether a cluster has come to rest as it should by that.

Only what the workloads of this room ask for is looked at: cores, memory, labels.
"""

from collections.abc import Iterator, Sequence

from kubedsm.kube.wire import decoding
from kubedsm.model.model import Resources
from kubedsm_lab.emulator.actors import conditions
from kubedsm_lab.emulator.actors.pod_state import (
    is_active,
    is_finished,
    labels_of,
    node_of,
    requests_of,
)
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Object,
)


def free(api: ApiServer, node: str) -> Resources:
    """What the pods on the node have left of it."""
    there = api.list(PODS, fields=f"spec.nodeName={node}")
    held = (requests_of(pod) for pod in there if not is_finished(pod))
    return decoding.node(api.get(NODES, "", node)).allocatable - sum(held, Resources())


def nodes_for(api: ApiServer, pod: Object) -> list[str]:
    """The nodes that the pod could go to now."""
    wanted, selected = requests_of(pod), pod["spec"].get("nodeSelector", {}).items()
    return [
        node["metadata"]["name"]
        for node in api.list(NODES)
        if _takes_pods(node)
        and selected <= labels_of(node).items()
        and _within(wanted, free(api, node["metadata"]["name"]))
    ]


def out_of_place(api: ApiServer, pods: Sequence[Object], namespace: str) -> Iterator[str]:
    """Pods that wait though they fit somewhere, and workloads with more or less than they want.

    pods: all of our scheduler in the namespace, whose workloads are judged.
    """
    active = [pod for pod in pods if is_active(pod)]
    for pod in active:
        if not node_of(pod) and (roomy := nodes_for(api, pod)):
            yield f"I4: {pod['metadata']['name']} waits, and {', '.join(roomy)} has room"
    limited = api.list(RESOURCE_QUOTAS)
    for owner in (*api.list(DEPLOYMENTS, namespace), *api.list(STATEFUL_SETS, namespace)):
        name, wanted = owner["metadata"]["name"], owner["spec"]["replicas"]
        mine = [pod for pod in active if labels_of(pod)["app"] == name]
        running = sum(map(bool, map(node_of, mine)))
        # a StatefulSet waits for its pods, one after the other, a rollout for room
        may_lack = limited or owner["kind"] == "StatefulSet"
        if running > wanted or (len(mine) < wanted and not may_lack):
            yield f"I5: {name} has {len(mine)} pods, {running} on nodes, and wants {wanted}"


def _takes_pods(node: Object) -> bool:
    ready = conditions.find(conditions.of(node["status"]), "Ready")
    return not node["spec"].get("unschedulable") and ready is not None and ready["status"] == "True"


def _within(wanted: Resources, room: Resources) -> bool:
    return all(amount <= room.amount(name) for name, amount in wanted.items())
