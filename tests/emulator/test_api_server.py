"""What the API server makes of new objects, what it refuses, and how it is read.

The recording of a real one is replayed in `test_transcripts`.
"""

from typing import Any

import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NEW_EVENTS,
    NODES,
    PODS,
    SERVICES,
)
from support.api_cases import Object, bind, changes, deployment, pod, refused


def test_a_cluster_starts_with_its_namespaces(api: ApiServer) -> None:
    names = [namespace["metadata"]["name"] for namespace in api.list(NAMESPACES)]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system", "shop"]


def test_identity_is_the_servers(api: ApiServer) -> None:
    given = pod(metadata={"uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z"})
    metadata = api.create(PODS, given, namespace="shop")["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata["resourceVersion"] == str(api.store.revision)
    assert (metadata["namespace"], metadata["generation"]) == ("shop", 1)


def test_generated_names(api: ApiServer) -> None:
    long = {"generateName": "w" * 80 + "-", "name": ""}
    names = [
        api.create(PODS, pod(metadata=long), namespace="shop")["metadata"]["name"]
        for _ in range(20)
    ]
    assert len(set(names)) == 20
    assert {len(name) for name in names} == {63}


def test_what_a_pod_gets(api: ApiServer) -> None:
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


def test_a_limit_is_a_request_too(api: ApiServer) -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "2"}}}
    created = api.create(PODS, pod(containers=[container]), namespace="shop")
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert created["spec"]["containers"][0]["imagePullPolicy"] == "Always"


def test_a_gated_pod_says_so_and_is_not_bound(api: ApiServer) -> None:
    created = api.create(PODS, pod(schedulingGates=[{"name": "g"}]), namespace="shop")
    assert created["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert "schedulingGates" in refused(409, lambda: bind(api)).message
    ungated = {"spec": {"schedulingGates": None, "nodeSelector": {"tier": "edge"}}}
    api.patch(PODS, "shop", "a", ungated, MERGE_PATCH)
    bind(api)


def test_what_a_deployment_gets(api: ApiServer) -> None:
    given = {**deployment(), "status": {"replicas": 9}}
    created = api.create(DEPLOYMENTS, given, namespace="shop")
    assert created["spec"]["replicas"] == 1
    assert created["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert "serviceAccountName" not in created["spec"]["template"]["spec"]
    assert created["status"] == {}


def test_what_a_service_gets(api: ApiServer) -> None:
    def service(name: str, **spec: Any) -> Object:
        given = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
        return api.create(SERVICES, given, namespace="shop")["spec"]

    first, second = service("one"), service("two", type="NodePort")
    assert first["clusterIP"] != second["clusterIP"]
    assert first["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert 30_000 <= second["ports"][0]["nodePort"] < 32_768
    assert service("three", clusterIP="None")["clusterIPs"] == ["None"]


def test_a_node_keeps_the_status_it_registers_with(api: ApiServer) -> None:
    node = {"metadata": {"name": "n2"}, "status": {"capacity": {"cpu": "4"}}}
    status = api.create(NODES, node)["status"]
    assert status["allocatable"] == {"cpu": "4"}
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


def test_dry_run_stores_nothing(api: ApiServer) -> None:
    seen = changes(api)
    assert api.create(PODS, pod(), namespace="shop", dry_run=True)["spec"]["priority"] == 0
    api.create(PODS, pod(), namespace="shop")
    api.patch(PODS, "shop", "a", {"metadata": {"labels": {"x": "1"}}}, MERGE_PATCH, dry_run=True)
    api.bind("shop", "a", {"target": {"name": "n2"}}, dry_run=True)
    api.delete(PODS, "shop", "a", dry_run=True)
    assert [change.type for change in seen] == ["ADDED"]


@pytest.mark.parametrize(
    ("given", "status", "causes"),
    [
        (pod("Bad_Name", containers=[]), 422, ["metadata.name", "spec.containers"]),
        (pod("a" * 254), 422, ["metadata.name"]),
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
        (pod(priorityClassName="gold"), 403, None),
        (pod(priority=7), 403, None),
        (pod(containers=[None]), 400, None),
        (pod(nodeName=7), 400, None),
        (pod(metadata={"labels": {"a": 1}}), 400, None),
        ({**pod(), "kind": "ConfigMap"}, 400, None),
        (pod(metadata={"namespace": "elsewhere"}), 400, None),
        (pod(metadata={"resourceVersion": "1"}), 500, None),
        ([], 400, None),
    ],
)
def test_what_is_no_pod_is_refused_and_nothing_stored(
    api: ApiServer, given: Any, status: int, causes: list[str] | None
) -> None:
    revision = api.store.revision
    error = refused(status, lambda: api.create(PODS, given, namespace="shop"))
    assert api.store.revision == revision
    if causes is not None:
        assert error.details is not None
        assert [cause["field"] for cause in error.details["causes"]] == causes


def test_an_event_is_one_in_two_forms(api: ApiServer) -> None:
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
    created = api.create(NEW_EVENTS, new, namespace="shop")
    assert (created["note"], created["deprecatedSource"]) == ("assigned to n2", {})
    old = api.get(EVENTS, "shop", "e")
    assert (old["message"], old["apiVersion"]) == ("assigned to n2", "v1")
    assert old["involvedObject"]["name"] == "a"
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    patched = api.patch(NEW_EVENTS, "shop", "e", {"series": series}, MERGE_PATCH)
    assert patched["series"] == series == api.get(EVENTS, "shop", "e")["series"]
    note = {"note": "again"}
    error = refused(422, lambda: api.patch(NEW_EVENTS, "shop", "e", note, MERGE_PATCH))
    assert "field is immutable" in error.message
    assert api.list(NEW_EVENTS, "shop", fields="involvedObject.name=a") == [patched]


def test_lists_are_selected(api: ApiServer) -> None:
    for name, tier in (("b", "edge"), ("a", "cloud"), ("c", "edge")):
        given = pod(name, metadata={"labels": {"tier": tier}})
        api.create(PODS, given, namespace="shop")
    bind(api, "c")

    def names(**selectors: str) -> list[str]:
        return [o["metadata"]["name"] for o in api.list(PODS, "shop", **selectors)]

    assert names() == ["a", "b", "c"]
    assert names(labels="tier=edge") == ["b", "c"]
    assert names(labels="tier=edge", fields="spec.nodeName=") == ["b"]
    assert api.list(PODS, "default") == []
