"""`kubectl autoscale` writes autoscaling/v1, controllers read v2: the scene `autoscaling-v1`."""

import orjson
import pytest

from support.api_requests import asked, watching

OLD = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
NEW = OLD.replace("v1", "v2")
REFERENCE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
MERGE = "application/merge-patch+json"
REQUESTS = {
    "type": "Pods",
    "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "5"}},
}


def cpu(percent):
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


@pytest.fixture
def made(routes):
    """What a real server answered, field by field."""
    spec = {
        "scaleTargetRef": REFERENCE,
        "minReplicas": 1,
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 50,
    }
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": spec,
    }
    status, answer = asked(routes, "POST", OLD, body)
    assert (status, answer["apiVersion"], answer["spec"]) == (201, "autoscaling/v1", spec)
    assert answer["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert asked(routes, "GET", f"{OLD}/h") == (200, answer)
    return routes


def test_it_is_the_same_as_v2(made):
    status, answer = asked(made, "GET", f"{NEW}/h")
    assert (status, answer["apiVersion"]) == (200, "autoscaling/v2")
    assert answer["spec"] == {
        "scaleTargetRef": REFERENCE,
        "minReplicas": 1,
        "maxReplicas": 5,
        "metrics": [cpu(50)],
    }
    assert answer["status"] == {"desiredReplicas": 0, "currentMetrics": None}
    listed = asked(made, "GET", NEW)[1]["items"]
    assert [each["metadata"]["name"] for each in listed] == ["h"]


def test_what_v1_cannot_say_is_not_lost_by_it(made):
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 5}}
    more = {"spec": {"metrics": [cpu(50), REQUESTS], "behavior": behavior}}
    before = asked(made, "PATCH", f"{NEW}/h", more, content_type=MERGE)[1]["spec"]
    change = {"spec": {"targetCPUUtilizationPercentage": 60, "maxReplicas": 7}}
    old = asked(made, "PATCH", f"{OLD}/h", change, content_type=MERGE)[1]
    assert old["spec"]["targetCPUUtilizationPercentage"] == 60
    after = asked(made, "GET", f"{NEW}/h")[1]
    assert after["spec"] == {**before, "metrics": [cpu(60), REQUESTS], "maxReplicas": 7}
    assert "annotations" not in after["metadata"]


def test_an_annotation_of_somebody_elses_does_no_harm(made):
    key = "autoscaling.alpha.kubernetes.io/metrics"
    change = {"metadata": {"annotations": {key: "{not json", "a": "b"}}}
    status, answer = asked(made, "PATCH", f"{OLD}/h", change, content_type=MERGE)
    assert (status, answer["metadata"]["annotations"]) == (200, {"a": "b"})


async def test_a_watch_of_each_form_sees_what_is_written_in_the_other(made):
    streams = [watching(made, path, resourceVersion="0") for path in (OLD, NEW)]
    asked(made, "PATCH", f"{OLD}/h", {"spec": {"maxReplicas": 6}}, content_type=MERGE)
    for stream, version in zip(streams, ("autoscaling/v1", "autoscaling/v2"), strict=True):
        lines = [orjson.loads(await anext(stream))["object"] for _ in range(stream.waiting)]
        assert [line["apiVersion"] for line in lines] == [version] * 2
        assert lines[-1]["spec"]["maxReplicas"] == 6
