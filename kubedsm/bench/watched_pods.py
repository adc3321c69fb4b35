"""Watch lines as an API server of our day sends them: a web service's pod, about 4 kB of JSON."""

import json
import random
from typing import Any

_HOUR = "2026-01-01T08"


def watch_line(rng: random.Random) -> bytes:
    """A MODIFIED event of a running pod of a Deployment; names, uids and times vary."""
    suffix = "".join(rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
    event = {"type": "MODIFIED", "object": _pod(rng, f"checkout-6d8f7c9b5d-{suffix}")}
    return json.dumps(event, separators=(",", ":")).encode()


def _pod(rng: random.Random, name: str) -> dict[str, Any]:
    minute = f"{_HOUR}:{rng.randrange(60):02}"
    node, address = f"n{rng.randrange(2, 6)}", f"10.42.{rng.randrange(4)}.{rng.randrange(2, 250)}"
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "generateName": "checkout-6d8f7c9b5d-",
            "namespace": "shop",
            "uid": _uid(rng),
            "resourceVersion": str(rng.randrange(1_000_000, 9_000_000)),
            "generation": 1,
            "creationTimestamp": f"{minute}:00Z",
            "labels": {
                "app.kubernetes.io/name": "checkout",
                "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": "6d8f7c9b5d",
            },
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "kubectl.kubernetes.io/restartedAt": f"{minute}:00Z",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "checkout-6d8f7c9b5d",
                    "uid": "0b0c3a4e-58a5-4d7c-9a55-3f1a8a9f6b10",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                _managed("kube-controller-manager", minute, "f:spec", ""),
                _managed("kubelet", minute, "f:status", "status"),
            ],
        },
        "spec": _spec(node),
        "status": _status(rng, minute, address),
    }


def _uid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join(
        (digits[:8], digits[8:12], "4" + digits[13:16], "a" + digits[17:20], digits[20:])
    )


def _managed(manager: str, minute: str, field: str, subresource: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": f"{minute}:05Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            field: {
                "f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}},
                "f:enableServiceLinks": {},
                "f:restartPolicy": {},
                "f:schedulerName": {},
            }
        },
        "subresource": subresource,
    }


def _spec(node: str) -> dict[str, Any]:
    container = {
        "name": "checkout",
        "image": "registry.example.com/shop/checkout:1.14.2",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            {"name": "LISTEN", "value": ":8080"},
            {"name": "CART_URL", "value": "http://cart.shop.svc.cluster.local:8080"},
            {"name": "LOG_LEVEL", "value": "info"},
        ],
        "resources": {
            "limits": {"cpu": "1", "memory": "950Mi"},
            "requests": {"cpu": "500m", "memory": "475Mi"},
        },
        "volumeMounts": [
            {
                "name": "kube-api-access-x7k2p",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    tolerated = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return {
        "volumes": [
            {
                "name": "kube-api-access-x7k2p",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {
                            "configMap": {
                                "name": "kube-root-ca.crt",
                                "items": [{"key": "ca.crt", "path": "ca.crt"}],
                            }
                        },
                    ],
                    "defaultMode": 420,
                },
            }
        ],
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "nodeName": node,
        "securityContext": {},
        "schedulerName": "kubedsm",
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in tolerated
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _status(rng: random.Random, minute: str, address: str) -> dict[str, Any]:
    conditions = (
        "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
    )  # fmt: skip
    return {
        "phase": "Running",
        "conditions": [
            {
                "type": condition,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": f"{minute}:04Z",
            }
            for condition in conditions
        ],
        "hostIP": "192.0.2.17",
        "hostIPs": [{"ip": "192.0.2.17"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": f"{minute}:01Z",
        "containerStatuses": [
            {
                "name": "checkout",
                "state": {"running": {"startedAt": f"{minute}:03Z"}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": "registry.example.com/shop/checkout:1.14.2",
                "imageID": f"registry.example.com/shop/checkout@sha256:{'a1b2' * 16}",
                "containerID": f"containerd://{rng.getrandbits(256):064x}",
                "started": True,
                "allocatedResources": {"cpu": "500m", "memory": "475Mi"},
            }
        ],
        "qosClass": "Burstable",
    }
