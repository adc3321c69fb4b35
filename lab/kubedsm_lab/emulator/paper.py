"""Cluster and workload of the papers' experiments: four nodes, and four services with an autoscaler
each.

Source: arXiv 2501.07130; the autoscalers' windows are those of its authors' manifests
(AUT-Cloud-Lab/ecmus). The papers' master node is omitted: it runs no pods.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, Timing

NAMESPACE = "default"
#: target of the autoscalers per pod, in requests/s
METRIC = "requests_per_second"
TARGET = 5

#: (name, tier, cores, memory in units of 10^9 bytes)
_NODES = (("n2", "edge", 5, 5), ("n3", "edge", 4, 4), ("n4", "edge", 7, 5), ("n5", "cloud", 22, 17))
#: nodes in the authors' results, less the core and the GB of each that no pod ever takes there
#: (reports of AUT-Cloud-Lab/MineDraft, nodes of AUT-Cloud-Lab/genny): the paper's table has cores
#: and memory of n4 and n5 the other way round
_RECORDED = (
    ("n2", "edge", 4, 4),
    ("n3", "edge", 3, 3),
    ("n4", "edge", 4, 6),
    ("n5", "cloud", 16, 21),
)
#: policy without effective limit: no service has as many pods
_ANY_NUMBER = {"type": "Pods", "value": 1000, "periodSeconds": 1}
_PORT = 8080


@attrs.frozen
class Demand:
    """Resource requests of one pod of a service: CPU cores and memory quantity."""

    cores: int
    memory: str


SERVICES = {
    "a": Demand(1, "950Mi"),
    "b": Demand(1, "1900Mi"),
    "c": Demand(1, "950Mi"),
    "d": Demand(2, "1900Mi"),
}


def node(name: str, tier: str, cpu: str, memory: str, pods: int = 110, zone: str = "") -> Object:
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    labels = {"kubernetes.io/hostname": name}
    if tier:
        labels |= {"kubedsm.io/tier": tier, "nodetype": tier}
    if zone:
        labels["topology.kubernetes.io/zone"] = zone
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod_spec(requests: Mapping[str, str], **fields: Any) -> Object:
    """Return the spec of a pod with one container, for KubeDSM, deleted without grace period;
    `fields` are added or replaced.
    """
    container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
    return {
        "schedulerName": "kubedsm",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **fields,
    }


def workload(
    name: str,
    replicas: int,
    spec: Object,
    kind: str = "Deployment",
    labels: Mapping[str, str] | None = None,
    **fields: Any,
) -> Object:
    """Return the manifest of a Deployment, StatefulSet or ReplicaSet with the given pod spec.

    Pods have the workload's name as label `app`, and `labels`; `fields` of the workload's spec are
    added or replaced.
    """
    own = {"app": name, **(labels or {})}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": own},
            "template": {"metadata": {"labels": own}, "spec": spec},
            **fields,
        },
    }


def paper_cluster(timing: Timing | None = None, *, recorded: bool = False) -> ClusterSpec:
    """Return the cluster of the paper's table; `recorded` has the capacity of the nodes in the
    authors' own results.
    """
    sizes = _RECORDED if recorded else _NODES
    nodes = tuple(node(name, tier, str(cpu), f"{gb}G") for name, tier, cpu, gb in sizes)
    return ClusterSpec(nodes, timing or Timing())


def service_objects(
    name: str,
    cpu: str,
    memory: str,
    *,
    replicas: tuple[int, int] = (1, 10),
    target: str = str(TARGET),
    stabilization_seconds: int = 5,
) -> tuple[Object, Object, Object]:
    """Return Deployment, Service and HorizontalPodAutoscaler of one service of the paper's
    workload, in order of creation.

    `cpu`, `memory` and `target` are quantities, the target in requests/s per pod. The lower of
    `replicas` is the Deployment's initial size. The autoscaler scales at once, except that scaling
    down waits for the stabilisation window.
    """
    return (
        _deployment(name, cpu, memory, replicas[0]),
        _service(name),
        _autoscaler(name, replicas, target, stabilization_seconds),
    )


def _deployment(name: str, cpu: str, memory: str, replicas: int) -> Object:
    spec = pod_spec(
        {"cpu": cpu, "memory": memory},
        schedulerName="kubedsm",
        terminationGracePeriodSeconds=2,
    )
    [container] = spec["containers"]
    container |= {"name": "server", "image": "registry.k8s.io/pause:3.9"}
    container["ports"] = [{"name": "http", "containerPort": _PORT}]
    made = workload(name, replicas, spec)
    made["metadata"] |= {"namespace": NAMESPACE, "labels": {"app": name}}
    return made


def _service(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {
            "selector": {"app": name},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }


def _autoscaler(
    name: str, replicas: tuple[int, int], target: str, stabilization_seconds: int
) -> Object:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": replicas[0],
            "maxReplicas": replicas[1],
            "metrics": [
                {
                    "type": "Pods",
                    "pods": {
                        "metric": {"name": METRIC},
                        "target": {"type": "AverageValue", "averageValue": target},
                    },
                }
            ],
            "behavior": {
                "scaleUp": {"stabilizationWindowSeconds": 0, "policies": [_ANY_NUMBER]},
                "scaleDown": {
                    "stabilizationWindowSeconds": stabilization_seconds,
                    "policies": [_ANY_NUMBER],
                },
            },
        },
    }
