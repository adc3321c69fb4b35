"""Dumps of clusters, for the commands that read them."""

import orjson

HASH = "5b576d85cf"


def node(name, tier="edge", cpu="4", memory="8Gi", labels=(), **spec):
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
    tiers = {"kubedsm.io/tier": tier} if tier else {}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {**tiers, **dict(labels)}},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def pod(name, cpu="1", memory="1Gi", node=None, scheduler="kubedsm", **metadata):
    requests = {"cpu": cpu, "memory": memory}
    return {
        "kind": "Pod",
        "metadata": {"namespace": "shop", "name": name, "uid": f"uid-{name}", **metadata},
        "spec": {
            "schedulerName": scheduler,
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def replica(
    name, workload, on=None, *, kind="ReplicaSet", cpu="1", memory="1Gi", annotations=(), **spec
):
    """Return a pod of a workload: of a Deployment unless `kind` says otherwise; Ready if bound."""
    owner = f"{workload}-{HASH}" if kind == "ReplicaSet" else workload
    metadata = {
        "ownerReferences": [{"kind": kind, "name": owner, "controller": True}],
        "labels": {"pod-template-hash": HASH},
        "annotations": dict(annotations),
    }
    made = pod(name, cpu, memory, on, **metadata)
    made["spec"] |= spec
    if on:
        made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def dump_of(*items):
    return orjson.dumps({"kind": "List", "items": list(items)})


def crowded_batch():
    """Return eight services of ten pending pods, above the exact-search limit.

    Some pods are unschedulable.
    """
    nodes = [node(f"e{at}", "edge", cpu="9500m", memory="16Gi") for at in range(5)]
    pods = [
        _crowding(at, number, cpu=f"{500 + 130 * at}m", memory=f"{2000 - 150 * at}Mi")
        for at in range(8)
        for number in range(10)
    ]
    return dump_of(*nodes, node("c1", "cloud", cpu="9"), *pods)


def crowded_edge():
    """Return ten services with most of their pods in the cloud, and an almost full edge."""
    nodes = [node(f"e{at}", "edge", cpu=f"{700 + 90 * at}m") for at in range(10)]
    pods = [
        _crowding(at, number, cpu=f"{600 + 70 * at}m", on="c1" if number else f"e{at}")
        for at in range(10)
        for number in range(4)
    ]
    return dump_of(*nodes, node("c1", "cloud", cpu="400", memory="900Gi"), *pods)


def _crowding(service, number, **more):
    return replica(f"w{service}-{number}", f"w{service}", kind="StatefulSet", **more)
