"""Pods that only pull images on a node, ahead of a migration: one request each.

Each function raises the exceptions of `Cluster.request`, or ApiStatusError for an unsuccessful
response.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from kubedsm.kube.client.api_errors import send
from kubedsm.kube.client.port import CORE, Cluster, path_of
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.decoding import read_json
from kubedsm.model.model import PULL_LABEL, NodeName, Pod

#: no image has this command, so no process starts
PULL_COMMAND = "/nonexistent/pull-only"
_NOBODY = 65534
#: length of the name's prefix; the limit is 253 characters with the generated suffix
_PREFIX = 200


def pull_label(scheduler_name: str) -> str:
    """Return the value of the label: another KubeDSM of the cluster leaves the pods alone."""
    return scheduler_name[:63].rstrip("-.")


class PulledContainer(msgspec.Struct, frozen=True):
    image: str = ""
    command: tuple[str, ...] = ()


class PullSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Fields of a pod's spec that decide whether, and with which credentials, a node pulls its
    images.
    """

    containers: tuple[PulledContainer, ...] = ()
    init_containers: tuple[PulledContainer, ...] = ()
    image_pull_secrets: list[Any] | None = None
    tolerations: list[Any] | None = None


class _Pulling(msgspec.Struct, frozen=True):
    spec: PullSpec


async def read_pull_spec(cluster: Cluster, pod: Pod) -> PullSpec:
    """Read the images of the pod, with pull secrets and tolerations. Raises ClusterError."""
    body = await send(cluster, "GET", path_of(CORE, pod.namespace, "pods", pod.name))
    return read_json("Pod", body, _Pulling).spec


async def create_pull_pod(
    cluster: Cluster,
    pod: Pod,
    node: NodeName,
    images: Iterable[str],
    spec: PullSpec,
    *,
    within: float,
) -> Pod:
    """Create a pod on the node that pulls the images with the credentials of another pod, and runs
    nothing: its command does not exist.

    The pod ends after `within` seconds, and the garbage collector deletes it with the other pod.
    Raises Forbidden if rights, a quota or an admission plugin refuse it.
    """
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    metadata = {
        "generateName": f"{pod.name[:_PREFIX]}-pull-",
        "namespace": pod.namespace,
        "labels": {PULL_LABEL: pull_label(pod.scheduler_name)},
        "ownerReferences": [owner],
    }
    containers = [
        {
            "name": f"pull-{number}",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": [PULL_COMMAND],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        for number, image in enumerate(images)
    ]
    made = {
        "nodeName": node,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": max(1, round(within)),
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "imagePullSecrets": spec.image_pull_secrets or [],
        "tolerations": spec.tolerations or [],
        "containers": containers,
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made}
    path = path_of(CORE, pod.namespace, "pods")
    return decoding.pod(await send(cluster, "POST", path, body))
