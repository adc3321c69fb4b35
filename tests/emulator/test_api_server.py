"""What the API server makes of new objects, updates and classes, beside the recorded requests.

Those of a real one are replayed in `test_transcripts` and `test_contract`.
"""

import copy

import pytest

from kubedsm_lab.emulator.api.patching import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    EVENTS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
)
from support.api_cases import asked, bind, changes, deployment, pod, refused


def test_generated_names(api):
    long = {"generateName": "w" * 80 + "-", "name": ""}
    names = [
        api.create(PODS, pod(metadata=long), namespace="shop")["metadata"]["name"]
        for _ in range(20)
    ]
    assert len(set(names)) == 20
    assert {len(name) for name in names} == {63}


def test_what_a_pod_gets(api):
    created = api.create(PODS, pod(), namespace="shop")
    spec, container = created["spec"], created["spec"]["containers"][0]
    assert created["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert spec["schedulerName"] == "default-scheduler"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [t["key"] for t in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["volumeMounts"][0]["name"] == spec["volumes"][0]["name"]
    assert spec["volumes"][0]["name"].startswith("kube-api-access-")


def test_a_limit_is_a_request_too(api):
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "2"}}}
    created = api.create(PODS, pod(containers=[container]), namespace="shop")
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert created["spec"]["containers"][0]["imagePullPolicy"] == "Always"


def test_a_gated_pod_says_so_and_is_not_bound(api):
    created = api.create(PODS, pod(schedulingGates=[{"name": "g"}]), namespace="shop")
    assert created["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert "schedulingGates" in refused(409, lambda: bind(api)).message
    ungated = {"spec": {"schedulingGates": None, "nodeSelector": {"tier": "edge"}}}
    api.patch(PODS, "shop", "a", ungated, MERGE_PATCH)
    bind(api)


def test_what_a_service_gets(api):
    def service(name, **spec):
        given = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
        return api.create(SERVICES, given, namespace="shop")["spec"]

    first, second = service("one"), service("two", type="NodePort")
    assert first["clusterIP"] != second["clusterIP"]
    assert first["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert 30_000 <= second["ports"][0]["nodePort"] < 32_768
    assert service("three", clusterIP="None")["clusterIPs"] == ["None"]


def test_a_node_keeps_the_status_it_registers_with(api):
    node = {"metadata": {"name": "n2"}, "status": {"capacity": {"cpu": "4"}}}
    status = api.create(NODES, node)["status"]
    assert status["allocatable"] == {"cpu": "4"}
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


@pytest.mark.parametrize(
    ("given", "status", "causes"),
    [
        (pod("Bad_Name", containers=[]), 422, ["metadata.name", "spec.containers"]),
        (pod(""), 422, ["metadata.name"]),
        (pod(metadata={"labels": {"a b": "c"}}), 422, ["metadata.labels"]),
        (pod(containers=[{"name": "c"}]), 422, ["spec.containers[0].image"]),
        (
            pod(containers=[{"name": "c", "image": "x", "resources": {"requests": {"cpu": "-1"}}}]),
            422,
            ["spec.containers[0].resources.requests.cpu"],
        ),
        (pod(restartPolicy="Sometimes"), 422, ["spec.restartPolicy"]),
        (pod(tolerations=[{"operator": "Equal"}]), 422, ["spec.tolerations[0].operator"]),
        (pod(containers=[None]), 400, None),
        (pod(nodeName=7), 400, None),
        (pod(metadata={"labels": {"a": 1}}), 400, None),
        (pod(metadata={"resourceVersion": "1"}), 500, None),
        ([], 400, None),
    ],
)
def test_what_is_no_pod_is_refused_and_nothing_stored(api, given, status, causes):
    revision = api.store.revision
    error = refused(status, lambda: api.create(PODS, given, namespace="shop"))
    assert api.store.revision == revision
    if causes is not None:
        assert error.details is not None
        assert [cause["field"] for cause in error.details["causes"]] == causes


def test_an_event_is_one_in_two_forms(api, routes):
    path = "/apis/events.k8s.io/v1/namespaces/shop/events"
    new = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "kubedsm",
        "reportingInstance": "x",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": "shop", "name": "a"},
        "note": "assigned to n2",
        "type": "Normal",
    }
    _, created = asked(routes, "POST", path, new)
    assert (created["note"], created["deprecatedSource"]) == ("assigned to n2", {})
    old = api.get(EVENTS, "shop", "e")
    assert (old["message"], old["apiVersion"]) == ("assigned to n2", "v1")
    assert old["involvedObject"]["name"] == "a"
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    change = {"series": series}
    _, patched = asked(routes, "PATCH", f"{path}/e", change, content_type=MERGE_PATCH)
    assert patched["series"] == series == api.get(EVENTS, "shop", "e")["series"]
    query = {"fieldSelector": "involvedObject.name=a"}
    [listed] = asked(routes, "GET", path, query=query)[1]["items"]
    assert listed.items() <= patched.items()


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


GOLD = {"metadata": {"name": "gold"}, "value": 1000, "preemptionPolicy": "Never"}
DEFAULT = {"metadata": {"name": "usual"}, "value": -7, "globalDefault": True}


def priority(api, **spec):
    """What a new pod has: class, priority, preemption policy."""
    created = api.create(PODS, pod(**spec), namespace="shop")["spec"]
    return created.get("priorityClassName"), created["priority"], created["preemptionPolicy"]


def test_a_cluster_starts_with_the_two_of_the_system(api):
    found = {c["metadata"]["name"]: c["value"] for c in api.list(PRIORITY_CLASSES)}
    assert found == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }
    error = refused(403, lambda: api.delete(PRIORITY_CLASSES, "", "system-node-critical"))
    assert error.message == (
        'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: '
        "this is a system priority class and cannot be deleted"
    )


def test_a_pod_gets_what_its_class_says(api):
    api.create(PRIORITY_CLASSES, GOLD)
    assert priority(api, priorityClassName="gold") == ("gold", 1000, "Never")
    api.delete(PRIORITY_CLASSES, "", "gold")
    refused(403, lambda: priority(api, priorityClassName="gold"))


def test_a_pod_without_a_class_gets_the_default_one(api):
    assert priority(api) == (None, 0, "PreemptLowerPriority")
    api.create(PRIORITY_CLASSES, GOLD)
    api.create(PRIORITY_CLASSES, DEFAULT)
    again = pod(metadata={"name": "b"})
    spec = api.create(PODS, again, namespace="shop")["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", -7)


def test_there_is_one_default_at_most(api):
    api.create(PRIORITY_CLASSES, DEFAULT)
    api.create(PRIORITY_CLASSES, GOLD)
    made_default = {"globalDefault": True}
    for write in (
        lambda: api.create(PRIORITY_CLASSES, {**DEFAULT, "metadata": {"name": "other"}}),
        lambda: api.patch(PRIORITY_CLASSES, "", "gold", made_default, MERGE_PATCH),
    ):
        error = refused(403, write)
        assert "PriorityClass usual is already marked as default" in error.message
    api.patch(PRIORITY_CLASSES, "", "usual", {"description": "still the default"}, MERGE_PATCH)
