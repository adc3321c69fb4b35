"""Whatever is sent, the API server answers it, and what it stores can be read again."""

import copy
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.http.routes import Routes
from support.any_damage import JUNK, places, put
from support.api_cases import asked, budget, deployment, pod
from support.drawing import examples
from support.fixed_clock import FixedClock

_NAMESPACED = "namespaces/default"
CASES = {
    f"/api/v1/{_NAMESPACED}/pods": pod(
        "x",
        tolerations=[{"key": "a", "operator": "Exists"}],
        volumes=[{"name": "v", "emptyDir": {}}],
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        nodeSelector={"tier": "edge"},
    ),
    f"/apis/apps/v1/{_NAMESPACED}/deployments": {
        **deployment(replicas=2, strategy={"rollingUpdate": {"maxSurge": 1}}),
        "metadata": {"name": "x"},
    },
    f"/apis/apps/v1/{_NAMESPACED}/statefulsets": {
        **deployment(updateStrategy={"rollingUpdate": {"partition": 0}}, serviceName="x"),
        "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    },
    f"/apis/policy/v1/{_NAMESPACED}/poddisruptionbudgets": budget("x", currentHealthy=1),
    f"/api/v1/{_NAMESPACED}/services": {
        "metadata": {"name": "x"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_001}]},
    },
    f"/apis/autoscaling/v2/{_NAMESPACED}/horizontalpodautoscalers": {
        "metadata": {"name": "x"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
        },
    },
    f"/api/v1/{_NAMESPACED}/events": {
        "metadata": {"name": "x"},
        "involvedObject": {"namespace": "default", "name": "a"},
        "source": {"component": "c"},
    },
    f"/api/v1/{_NAMESPACED}/resourcequotas": {
        "metadata": {"name": "x"},
        "spec": {"hard": {"pods": "9", "requests.cpu": "9"}},
    },
    f"/apis/coordination.k8s.io/v1/{_NAMESPACED}/leases": {
        "metadata": {"name": "x"},
        "spec": {"leaseDurationSeconds": 15},
    },
    "/api/v1/nodes": {
        "metadata": {"name": "x"},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "nodeInfo": {"osImage": "o"}},
    },
    "/api/v1/namespaces": {"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}},
}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def damaged(document, damages):
    document_copy = copy.deepcopy(document)
    for number, junk in damages:
        found = list(places(document_copy))
        put(document_copy, found[number % len(found)], junk)
    return json.dumps(document_copy).encode()


DAMAGES = st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(JUNK)), min_size=1, max_size=2)
REFUSALS = (400, 403, 409, 422)


def still_readable(routes, path):
    return {asked(routes, "GET", path, accept=accept)[0] for accept in ("", TABLE)} == {200}


@pytest.mark.parametrize("path", CASES)
@examples(30)
@given(DAMAGES)
def test_any_field_of_a_new_object_may_hold_anything(path, damages):
    routes = Routes(ApiServer(FixedClock(), random.Random(0)))
    body = damaged(CASES[path], damages)
    assert asked(routes, "POST", path, body)[0] in (201, *REFUSALS)
    assert still_readable(routes, path)
