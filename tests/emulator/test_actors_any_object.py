"""Whatever the API server accepts, no actor ends over it: what is missing, or odd, or both."""

import copy
import json
import random

import pytest

from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_QUOTAS,
    SERVED,
    SERVICES,
    STATEFUL_SETS,
)
from kubedsm_lab.emulator.http.bodies import object_in
from support.actor_world import NS, emulated, template
from support.any_damage import JUNK, MISSING, places, put

pytestmark = pytest.mark.looptime


def furnish(world):
    """Something for each actor to look after."""
    world.deployment("web", 3)
    world.pod("bare")
    of_web = {"matchLabels": {"app": "web"}}
    per_pod = {"type": "AverageValue", "averageValue": "5"}
    metric = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": per_pod}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    specs = {
        POD_DISRUPTION_BUDGETS: {"selector": of_web, "maxUnavailable": 1},
        SERVICES: {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
        HORIZONTAL_POD_AUTOSCALERS: {
            "scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4, "metrics": [metric],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
        },
        RESOURCE_QUOTAS: {"hard": {"pods": "50", "requests.cpu": "90"}},
        STATEFUL_SETS: {
            "replicas": 2, "serviceName": "db", "template": template("db"),
            "selector": {"matchLabels": {"app": "db"}},
        },
    }  # fmt: skip
    for resource, spec in specs.items():
        world.api.create(resource, {"metadata": {"name": "x"}, "spec": spec}, namespace=NS)


def spoilt(rng, obj):
    """A copy of which one field is missing or holds something else, and where that is."""
    changed = copy.deepcopy(obj)
    halves = ("metadata", "spec", "status")
    path = rng.choice([p for p in places(changed) if p[0] in halves and len(p) > 1])
    put(changed, path, MISSING if rng.random() < 0.5 else rng.choice(JUNK))
    changed["metadata"].pop("resourceVersion", None)
    return changed, path[0]


def replaced(api, resource, obj, half):
    """As a PUT over HTTP would. Returns what came of it."""
    part = "status" if half == "status" and "status" in resource.subresources else ""
    try:
        sent = json.dumps(obj).encode()
        api.update(resource, object_in(resource, sent, ""), subresource=part)
    except ApiError as refused:
        return refused.status
    return 200


@pytest.mark.parametrize("seed", range(12))
async def test_no_actor_ends_for_a_field_that_is_missing_or_odd(seed):
    rng = random.Random(seed)
    deeds = []
    try:
        async with emulated(cpu="100", metrics=lambda *_: 12.0, seed=seed, hpa_sync=1.0) as world:
            furnish(world)
            await world.pass_time(2.0)
            world.bind_all()
            for _ in range(120):
                resource = rng.choice([r for r in SERVED if world.api.list(r)])
                obj, half = spoilt(rng, rng.choice(world.api.list(resource)))
                status = replaced(world.api, resource, obj, half)
                assert status in (200, 400, 404, 409, 422)
                deeds.append((resource.kind, half, obj[half], status))
                await world.pass_time(rng.choice((0.0, 0.01, 0.5, 3.0)))
                world.bind_all()
            await world.pass_time(60.0)
    except BaseExceptionGroup as group:
        pytest.fail(f"{deeds[-1]} and before it {deeds[-5:-1]}: {group!r}")


async def test_a_pod_that_does_not_say_since_when_it_is_ready_is_ready_but_not_for_long_enough():
    async with emulated(start_delay=1000) as world:
        world.deployment("web", 1)
        world.deployment("calm", 1, minReadySeconds=1)
        await world.pass_time()
        world.bind_all()
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        for pod in world.pods():
            name = pod["metadata"]["name"]
            changed = world.patch(PODS, name, ready, subresource="status")
            assert changed["status"]["conditions"][0]["lastTransitionTime"] is None
        await world.pass_time(100.0)
        for app, available in (("web", 1), ("calm", 0)):
            status = world.get(DEPLOYMENTS, app)["status"]
            assert status["readyReplicas"] == 1
            assert status.get("availableReplicas", 0) == available


@pytest.mark.parametrize("odd", ["many", "-1", "150", {"of": 1}])
async def test_a_rollout_limit_that_is_no_number_or_percentage_is_refused(odd):
    async with emulated() as world:
        world.deployment("web")
        patch = {"spec": {"strategy": {"rollingUpdate": {"maxSurge": odd}}}}
        with pytest.raises(ApiError) as refused:
            world.patch(DEPLOYMENTS, "web", patch)
        assert refused.value.status in (400, 422)
