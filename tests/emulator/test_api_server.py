"""What the API server makes of new objects, and refuses, beside the recorded requests.

Those of a real one are replayed in `test_transcripts` and `test_contract`.
"""

import pytest

from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import EVENTS, NODES, PODS, SERVICES
from support.api_cases import bind, pod, refused
from support.api_requests import asked


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
