"""Hypothesis strategies for API objects of every kind: extreme but valid, or damaged."""

import attrs
from hypothesis import strategies as st

from kubedsm_lab.emulator.api.resources import (
    CSI_NODES,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)
from support.any_damage import JUNK
from support.any_objects import nodes, pod_specs, pods


@attrs.frozen
class Odd:
    """API object to create, and damage to show afterwards: pairs of place number and value."""

    resource: Resource
    object: dict
    damages: tuple = ()


_NAMES = st.sampled_from(("n" * 253, "n" * 63, "0", "a.b-c", "x"))
_NAMED = st.one_of(
    _NAMES.map(lambda name: {"name": name}), st.just({"generateName": "g-"}), st.just({"name": "X"})
)


def _owner(kind, name, uid="gone", controller=True, group="apps/v1"):
    return {
        "apiVersion": group, "kind": kind, "name": name, "uid": uid, "controller": controller,
    }  # fmt: skip


_OWNERS = (
    _owner("ReplicaSet", "mover"),
    _owner("ReplicaSet", "x-h"),
    _owner("StatefulSet", "x"),
    _owner("Job", "x", group="batch/v1"),
    _owner("Deployment", "x", controller=False),
    _owner("Rollout", "n" * 253, group="argoproj.io/v1alpha1"),
    _owner("Node", "c1", group="v1"),
)


@st.composite
def _workloads(draw, **more):
    labels = draw(st.sampled_from(({"app": "x"}, {"app": ""}, {"app": "x", "l" * 63: "v" * 63})))
    return {
        "metadata": {**draw(_NAMED)},
        "spec": {
            "replicas": draw(st.sampled_from((0, 1, 2, 3))),
            "minReadySeconds": draw(st.sampled_from((0, 0, 599))),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": draw(pod_specs())},
            **more,
        },
    }


def _plain(*specs, **fields):
    """Return a strategy for objects with the given fields and one of the specs."""
    return st.builds(
        lambda named, spec: {"metadata": dict(named), **spec, **fields},
        _NAMED,
        st.sampled_from([{"spec": spec} for spec in specs] or [{}]),
    )


_LABELLED = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
KINDS = {
    PODS: _NAMED.flatmap(pods),
    NODES: _NAMES.flatmap(nodes),
    DEPLOYMENTS: _workloads(),
    REPLICA_SETS: _workloads(),
    STATEFUL_SETS: _workloads(serviceName="x"),
    POD_DISRUPTION_BUDGETS: _plain(
        {"selector": {}, "maxUnavailable": 0}, {"selector": _LABELLED, "minAvailable": "100%"},
        {"maxUnavailable": "0%"}, {"selector": _LABELLED, "minAvailable": 2**31 - 1},
    ),
    RESOURCE_QUOTAS: _plain({}, {"hard": {}}, {"hard": {"pods": "3"}},
        {"hard": {"requests.cpu": "9223372036854775807"}},
    ),
    SERVICES: _plain({"ports": [{"port": 80}]},
        {"selector": {"pod-template-hash": "h"}, "ports": [{"port": 65535}]},
        {"selector": {"app": ""}, "clusterIP": "None"},
    ),
    PRIORITY_CLASSES: _plain(value=-(2**31)),
    NAMESPACES: _plain(),
    PERSISTENT_VOLUME_CLAIMS: _plain(
        {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "0"}}},
        {"accessModes": [], "volumeName": "x"},
    ),
    PERSISTENT_VOLUMES: _plain({}, {"csi": {"driver": "csi", "volumeHandle": "h"}},
        {"nodeAffinity": {"required": {"nodeSelectorTerms": [{}]}}},
    ),
    STORAGE_CLASSES: _plain(volumeBindingMode="WaitForFirstConsumer"),
    CSI_NODES: _plain({"drivers": []}, {"drivers": [{"name": "csi", "allocatable": {"count": 0}}]}
    ),
}  # fmt: skip
#: what only an API server, or a kubelet, says
_SAID = (
    (("metadata", "resourceVersion"), "abc"),
    (("metadata", "resourceVersion"), "9" * 5000),
    (("metadata", "creationTimestamp"), "0001-01-01T00:00:00Z"),
    (("metadata", "creationTimestamp"), "9999-12-31T23:59:59.999999999Z"),
    (("metadata", "deletionTimestamp"), "2099-01-01T00:00:00.5+13:00"),
    (("metadata", "generation"), 2**63 - 1),
    (("metadata", "uid"), "u" * 253),
    *((("metadata", "ownerReferences"), [owner]) for owner in _OWNERS),
    (("metadata", "ownerReferences"), list(_OWNERS)),
    (("status",), {}),
    (("status", "phase"), "Asleep"),
    (("status", "conditions"), [{"type": "Ready", "status": "Unknown"}] * 2),
    (("status", "conditions"), [{"type": "ReplicaFailure", "status": "True"}]),
    (("status", "replicas"), 2**31 - 1),
    (("status", "disruptionsAllowed"), 2**31 - 1),
    (("spec", "priority"), -(2**31)),
    (("spec", "nodeName"), "gone"),
)
damages = st.lists(
    st.one_of(st.sampled_from(_SAID), st.tuples(st.integers(0, 200), st.sampled_from(JUNK))),
    max_size=2,
).map(tuple)
_RESOURCES = st.sampled_from((PODS, PODS, PODS, NODES, DEPLOYMENTS, DEPLOYMENTS, *KINDS))


@st.composite
def odd(draw):
    resource = draw(_RESOURCES)
    return Odd(resource, draw(KINDS[resource]), draw(st.just(()) | damages))
