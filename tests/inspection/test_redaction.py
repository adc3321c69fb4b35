"""Redaction: what may leave a cluster in a bug report."""

import json

import pytest

from kubedsm.cli.inputs import mirror_of
from kubedsm.config.settings import Configuration
from kubedsm.inspection.redaction import redact_node, redact_pod, redact_text
from kubedsm.kube.wire import dump

POD = {
    "metadata": {
        "name": "cart-1",
        "namespace": "shop",
        "uid": "u",
        "labels": {"app": "cart"},
        "annotations": {"kubedsm.io/qos": "0.5", "vault/secret": "hidden-1"},
        "managedFields": ["hidden-2"],
    },
    "spec": {
        "schedulerName": "kubedsm",
        "serviceAccountName": "hidden-3",
        "containers": [
            {
                "name": "c",
                "image": "hidden-4",
                "command": ["hidden-5"],
                "args": ["hidden-6"],
                "env": [{"name": "TOKEN", "value": "hidden-7"}],
                "resources": {"requests": {"cpu": "500m"}},
            }
        ],
        "volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "s", "secret": {"secretName": "hidden-8"}},
        ],
    },
    "status": {"phase": "Pending", "podIP": "hidden-9", "conditions": []},
}
NODE = {
    "metadata": {"name": "e1", "uid": "n", "labels": {"kubedsm.io/tier": "edge"}},
    "spec": {"providerID": "hidden-1", "unschedulable": True},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "addresses": [{"type": "InternalIP", "address": "hidden-2"}],
        "images": [{"names": ["hidden-3"]}],
    },
}


def test_objects_keep_what_a_decision_needs_and_nothing_else():
    items = [redact_node(NODE), redact_pod(POD)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    assert "hidden" not in text
    snapshot = mirror_of(dump.read(text.encode(), "test"), Configuration()).snapshot()
    [node], [pod] = snapshot.nodes.values(), snapshot.pods.values()
    assert (node.name, node.tier, node.unschedulable) == ("e1", "edge", True)
    assert (pod.requests.cpu, pod.wishes.qos) == (500, 0.5)
    assert pod.pod_class.rules.claims


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer s3cr3t.s3cr3t-s3cr3t",
        "authorization: basic czNjcjN0OnM=czNjcjN0",
        '{"token": "s3cr3t"}',
        "password=s3cr3t",
        "http://admin:s3cr3t@prometheus:9090/api",
        "got eyJhbGciOiJ.s3cr3t.sig",
    ],
)
def test_credentials_in_text_are_masked(text):
    said = redact_text(text)
    assert "s3cr3t" not in said
    assert "czNjcjN0" not in said
    assert "<redacted>" in said


def test_other_text_stays():
    line = '{"event": "batch", "pods": 2, "node": "e1", "url": "http://prometheus:9090"}'
    assert redact_text(line) == line
