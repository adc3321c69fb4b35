"""Redaction of cluster objects and logs for bug reports, by lists of what may stay."""

import re
from collections.abc import Mapping
from typing import Any

#: JSON
Object = dict[str, Any]

_METADATA = (
    "name",
    "namespace",
    "uid",
    "labels",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
)
_ANNOTATIONS = ("kubedsm.io/", "controller.kubernetes.io/pod-deletion-cost")
_POD_SPEC = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "schedulerName",
    "schedulingGates",
    "priority",
    "preemptionPolicy",
    "topologySpreadConstraints",
    "overhead",
    "resources",
    "resourceClaims",
    "terminationGracePeriodSeconds",
)
_CONTAINER = ("name", "resources", "ports", "restartPolicy")
_NODE_SPEC = ("taints", "unschedulable")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
#: credentials in text: headers, assignments, and URLs
_SECRETS = (
    re.compile(r"(?i)(bearer |basic )[\w.~+/=-]{8,}"),
    re.compile(r"(?i)((?:token|password|secret|apikey|api_key)[\"']?\s*[=:]\s*[\"']?)[^\s\"',}]+"),
    re.compile(r"(://)[^/\s@]+@"),
    re.compile(r"()eyJ[\w-]{8,}\.[\w-]+\.[\w-]*"),
)
_MASK = "<redacted>"


def redact_text(text: str) -> str:
    """Mask bearer tokens, passwords, credentials in URLs, and JSON Web Tokens."""
    for pattern in _SECRETS:
        mark = f"{_MASK}@" if pattern.pattern.endswith("@") else _MASK
        text = pattern.sub(lambda found, mark=mark: f"{found[1]}{mark}", text)  # type: ignore[misc]
    return text


def _keep(given: Mapping[str, Any], *keys: str) -> Object:
    return {key: given[key] for key in keys if key in given}


def _redact_metadata(metadata: Mapping[str, Any]) -> Object:
    annotations = metadata.get("annotations") or {}
    own = {key: text for key, text in annotations.items() if key.startswith(_ANNOTATIONS)}
    return {**_keep(metadata, *_METADATA), **({"annotations": own} if own else {})}


def _redact(kind: str, given: Mapping[str, Any], spec: Object, kept: str) -> Object:
    """Keep the metadata, a part of the spec, and conditions and one field of the status."""
    status = given.get("status") or {}
    conditions = [_keep(each, *_CONDITION) for each in status.get("conditions") or ()]
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": _redact_metadata(given.get("metadata") or {}),
        "spec": spec,
        "status": {**_keep(status, kept), "conditions": conditions},
    }


def redact_node(node: Mapping[str, Any]) -> Object:
    """Keep labels, taints, allocatable resources and conditions of a Node."""
    return _redact("Node", node, _keep(node.get("spec") or {}, *_NODE_SPEC), "allocatable")


def redact_pod(pod: Mapping[str, Any]) -> Object:
    """Keep the fields of a Pod that scheduling reads: no environment, command, image, or volume
    content.
    """
    spec = pod.get("spec") or {}
    containers = {
        kind: [_keep(each, *_CONTAINER) for each in spec[kind]]
        for kind in ("containers", "initContainers")
        if spec.get(kind)
    }
    claims = [
        _keep(volume, "name", "persistentVolumeClaim")
        for volume in spec.get("volumes") or ()
        if "persistentVolumeClaim" in volume
    ]
    volumes = {"volumes": claims} if claims else {}
    return _redact("Pod", pod, {**_keep(spec, *_POD_SPEC), **containers, **volumes}, "phase")
