"""The shipped policy for opting in, on new pods of every kind, and odd policies."""

import random
from datetime import UTC, datetime

import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import (
    LEASES,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    NAMESPACES,
    PODS,
)
from support.fixed_clock import EPOCH, FixedClock
from support.manifests import MANIFESTS, documents

FILE = MANIFESTS / "components" / "opt-in" / "policy.yaml"
NOW = EPOCH
DEFAULT = "default-scheduler"


def rfc3339(at):
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def cluster(renewed=0.0, change=lambda policy: None):
    """A cluster with the policy, and a Lease renewed so many seconds ago; None: no Lease."""
    api = ApiServer(FixedClock(), random.Random(0))
    policy, binding = documents(FILE)
    change(policy)
    api.create(MUTATING_ADMISSION_POLICIES, policy)
    api.create(MUTATING_ADMISSION_POLICY_BINDINGS, binding)
    for name, opted_in in (("shop", "true"), ("bank", "false"), ("kubedsm", "true")):
        labels = {"kubedsm.io/opt-in": opted_in}
        api.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    if renewed is not None:
        spec = {"holderIdentity": "a", "renewTime": rfc3339(NOW - renewed)}
        api.create(LEASES, {"metadata": {"name": "kubedsm"}, "spec": spec}, namespace="kubedsm")
    return api


def scheduler_of(api, namespace="shop", labels=None, owner=None, **spec):
    metadata = {"generateName": "web-", "labels": labels or {}}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u"}
        metadata["ownerReferences"] = [reference]
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    made = api.create(PODS, pod, namespace=namespace)
    assert "managedFields" not in made["metadata"]
    return made["spec"]["schedulerName"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "kubedsm"),
        ({"owner": "ReplicaSet"}, "kubedsm"),
        ({"schedulerName": DEFAULT}, "kubedsm"),
        ({"labels": {"kubedsm.io/opt-in": "true"}}, "kubedsm"),
        ({"labels": {"kubedsm.io/opt-in": "false"}}, DEFAULT),
        ({"schedulerName": "volcano"}, "volcano"),
        ({"nodeName": "n1"}, DEFAULT),
        ({"owner": "DaemonSet"}, DEFAULT),
        ({"namespace": "bank"}, DEFAULT),
        ({"namespace": "default"}, DEFAULT),
        # The scheduler's own pods never wait for it.
        ({"namespace": "kubedsm"}, DEFAULT),
    ],
)
def test_the_policy_takes_pods_of_labelled_namespaces_and_leaves_all_others(given, name):
    assert scheduler_of(cluster(), **given) == name


@pytest.mark.parametrize(
    ("renewed", "name"),
    [(0.0, "kubedsm"), (59.0, "kubedsm"), (60.0, DEFAULT), (1e6, DEFAULT), (None, DEFAULT)],
)
def test_the_default_scheduler_gets_new_pods_a_minute_after_the_last_renewal(renewed, name):
    assert scheduler_of(cluster(renewed)) == name


def test_an_expression_that_fails_leaves_the_pod_to_the_default_scheduler():
    api = cluster()
    api.update(LEASES, {**api.get(LEASES, "kubedsm", "kubedsm"), "spec": {"holderIdentity": "a"}})
    assert scheduler_of(api) == DEFAULT


def test_with_the_failure_policy_fail_the_pod_is_refused():
    api = cluster(change=lambda policy: policy["spec"].update(failurePolicy="Fail"))
    lease = {**api.get(LEASES, "kubedsm", "kubedsm"), "spec": {"holderIdentity": "a"}}
    api.update(LEASES, lease)
    with pytest.raises(ApiError, match="cannot be evaluated"):
        scheduler_of(api)


def test_a_mutation_of_another_type_says_that_it_is_not_emulated():
    other = [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]
    api = cluster(change=lambda policy: policy["spec"].update(mutations=other))
    with pytest.raises(ApiError, match="JSONPatch"):
        scheduler_of(api)
