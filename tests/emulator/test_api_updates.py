"""What updates and patches change, and what they may not."""

import copy

import pytest

from kubedsm_lab.emulator.api.patching import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS
from support.api_cases import changes, deployment, pod, refused


def test_another_uid_is_another_object(api):
    created = api.create(PODS, pod(), namespace="shop")
    other = {**created, "metadata": {**created["metadata"], "uid": "other"}}
    refused(409, lambda: api.update(PODS, other))
    patch = {"metadata": {"uid": "other", "labels": {"x": "1"}}}
    refused(422, lambda: api.patch(PODS, "shop", "a", patch, MERGE_PATCH))


def test_a_write_that_changes_nothing_is_none(api):
    created = api.create(DEPLOYMENTS, deployment(), namespace="shop")
    seen = changes(api)
    assert api.update(DEPLOYMENTS, copy.deepcopy(created)) == created
    same = {"spec": {"replicas": 1}}
    assert api.patch(DEPLOYMENTS, "shop", "web", same, MERGE_PATCH) == created
    assert seen == []


def test_each_half_of_an_object_ignores_the_other(api):
    api.create(DEPLOYMENTS, deployment(), namespace="shop")
    both = {"spec": {"replicas": 3}, "status": {"replicas": 2}}
    main = api.patch(DEPLOYMENTS, "shop", "web", both, MERGE_PATCH)
    assert (main["spec"]["replicas"], main["status"]) == (3, {})
    both["spec"] = {"replicas": 4}
    half = api.patch(DEPLOYMENTS, "shop", "web", both, MERGE_PATCH, subresource="status")
    assert (half["spec"]["replicas"], half["status"]) == (3, {"replicas": 2})


def test_the_generation_counts_changes_of_the_spec(api):
    def generation(patch, subresource=""):
        changed = api.patch(DEPLOYMENTS, "shop", "web", patch, MERGE_PATCH, subresource=subresource)
        return changed["metadata"]["generation"]

    api.create(DEPLOYMENTS, deployment(), namespace="shop")
    assert generation({"metadata": {"labels": {"x": "1"}, "generation": 9}}) == 1
    assert generation({"status": {"replicas": 1}}, "status") == 1
    assert generation({"spec": {"replicas": 2}}) == 2
    # of a Deployment its annotations too
    assert generation({"metadata": {"annotations": {"x": "1"}}}) == 3


def test_of_a_pods_spec_little_may_change(api):
    created = api.create(PODS, pod(), namespace="shop")
    toleration = {"key": "a", "operator": "Exists"}
    allowed = {
        "spec": {
            "containers": [{"name": "c", "image": "y:2"}],
            "tolerations": [*created["spec"]["tolerations"], toleration],
        }
    }
    changed = api.patch(PODS, "shop", "a", allowed, STRATEGIC_MERGE_PATCH)
    assert changed["spec"]["containers"][0]["image"] == "y:2"
    assert changed["metadata"]["generation"] == 2
    for spec in ({"nodeName": "n3"}, {"tolerations": []}, {"schedulerName": "other"}):
        patch = {"spec": spec}
        refused(422, lambda patch=patch: api.patch(PODS, "shop", "a", patch, MERGE_PATCH))


@pytest.mark.parametrize(
    ("resource", "patch"),
    [
        (DEPLOYMENTS, {"spec": {"selector": {"matchLabels": {"app": "api"}}}}),
        (REPLICA_SETS, {"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
        (STATEFUL_SETS, {"spec": {"serviceName": "other"}}),
    ],
)
def test_what_is_immutable(api, resource, patch):
    api.create(resource, deployment(), namespace="shop")
    refused(422, lambda: api.patch(resource, "shop", "web", patch, MERGE_PATCH))
