"""Another tenant, who must be served as ever whatever happens to the rest of the cluster."""

import asyncio

from kubedsm.emulator.api.resources import DEPLOYMENTS, EVENTS, NAMESPACES, NODES, PODS
from kubedsm.emulator.paper import node

#: tied to the cloud, so that it takes no room that others want at the edge
CLOUD_ONLY = {"nodeSelector": {"kubedsm.io/tier": "cloud"}}

#: nor at the edge that is there already
NOT_E1 = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["e1"]}
                    ]
                }
            ]
        }
    }
}


def deployment(name, replicas, cpu, namespace, **pod_spec):
    labels = {"app": name}
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    spec = {
        "schedulerName": "kubedsm",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        **pod_spec,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def deploy(world, name, replicas, cpu="10m", namespace="others", **pod_spec):
    if not any(n["metadata"]["name"] == namespace for n in world.api.list(NAMESPACES)):
        world.api.create(NAMESPACES, {"metadata": {"name": namespace}})
    made = deployment(name, replicas, cpu, namespace, **pod_spec)
    return world.api.create(DEPLOYMENTS, made, namespace=namespace)


def pods(world, name, namespace="others"):
    return world.api.list(PODS, namespace, labels=f"app={name}")


def bound(world, name):
    found = pods(world, name)
    return bool(found) and all("nodeName" in pod["spec"] for pod in found)


def told(pod):
    """The reason of its condition PodScheduled."""
    conditions = pod["status"].get("conditions", ())
    return next((c.get("reason") for c in conditions if c["type"] == "PodScheduled"), None)


async def served(world, name="neighbour", seconds=5):
    """A pod that fits is bound in the usual time and said to be, one that does not is told."""
    deploy(world, name, 1, **CLOUD_ONLY)
    deploy(world, f"{name}-huge", 1, cpu="500", **CLOUD_ONLY)
    await world.until(lambda: bound(world, name), seconds)
    await world.until(
        lambda: [told(p) for p in pods(world, f"{name}-huge")] == ["Unschedulable"], seconds
    )
    [pod] = pods(world, name)

    def said():
        events = world.api.list(EVENTS, "others")
        return any(
            e["reason"] == "Scheduled"
            and e.get("regarding", e.get("involvedObject"))["uid"] == pod["metadata"]["uid"]
            for e in events
        )

    await world.until(said, seconds)


async def moved(world, seconds=30):
    """A pod of the other tenant is moved to an edge that opens, where only such as it fit."""
    deploy(world, "mover", 1, cpu="5m", affinity=NOT_E1)
    await world.until(lambda: bound(world, "mover"), 5)
    await asyncio.sleep(2)
    world.api.create(NODES, node("e9", "edge", "5m", "1Gi"))
    await world.until(
        lambda: [p["spec"].get("nodeName") for p in pods(world, "mover")] == ["e9"], seconds
    )
