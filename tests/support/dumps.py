"""Dumps of a cluster, and what they are made of."""

import orjson


def node(name, tier, cpu="4", memory="8Gi", **spec):
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubedsm.io/tier": tier}},
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


def dump_of(*items):
    return orjson.dumps({"kind": "List", "items": list(items)})
