import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubedsm_lab.emulator.actors.horizontal_pod_autoscaler import (
    Behavior,
    ScalingHistory,
    limited,
    stabilized,
)
from kubedsm_lab.emulator.actors.scaling_metrics import MetricUnavailable, Scaled, propose
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, PODS
from support.actor_world import NS, condition, emulated

METRIC = {
    "type": "Pods",
    "pods": {
        "metric": {"name": "requests_per_second"},
        "target": {"type": "AverageValue", "averageValue": "5"},
    },
}
#: all that is wanted, in one sync
FREE = [{"type": "Pods", "value": 100, "periodSeconds": 1}]


class Load:
    """Requests per second offered to each workload."""

    def __init__(self, **rates):
        self.rates = rates

    def __call__(self, namespace, workload, metric):
        assert namespace == NS
        assert metric == "requests_per_second"
        return self.rates.get(workload)


def autoscaler(world, name="web", behavior=None, **spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    limits = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [METRIC]}
    behaves = {"behavior": behavior} if behavior else {}
    world.create(HORIZONTAL_POD_AUTOSCALERS, name, spec=limits | behaves | spec)


def free(window=0):
    return {
        "scaleUp": {"policies": FREE},
        "scaleDown": {"stabilizationWindowSeconds": window, "policies": FREE},
    }


def replicas(world, name="web"):
    return world.get(DEPLOYMENTS, name)["spec"]["replicas"]


@pytest.mark.parametrize(
    ("rate", "expected", "reason"), [(0.0, 2, "TooFewReplicas"), (900.0, 4, "TooManyReplicas")]
)
async def test_it_stays_between_min_and_max(rate, expected, reason):
    async with emulated(metrics=Load(web=rate)) as world:
        world.deployment("web", replicas=3)
        await world.pass_time()
        autoscaler(world, behavior=free(), minReplicas=2, maxReplicas=4)
        await world.pass_time()
        assert replicas(world) == expected
        hpa = world.get(HORIZONTAL_POD_AUTOSCALERS, "web")
        assert condition(hpa, "ScalingLimited") == ("True", reason)


async def test_scaling_down_waits_for_the_highest_recommendation_to_age():
    load = Load(web=40.0)
    async with emulated(metrics=load) as world:
        await world.bring_up(8)
        autoscaler(world, behavior=free(window=60))
        await world.pass_time(1.0)
        load.rates["web"] = 10.0
        await world.pass_time(50.0)
        assert replicas(world) == 8
        hpa = world.get(HORIZONTAL_POD_AUTOSCALERS, "web")
        assert condition(hpa, "AbleToScale") == ("True", "ScaleDownStabilized")
        await world.pass_time(30.0)
        assert replicas(world) == 2


@pytest.mark.parametrize(
    ("behavior", "expected"), [(None, [4, 8, 16, 32]), ({"scaleUp": {}}, [5, 10, 20, 40])]
)
async def test_a_sync_doubles_the_replicas_and_only_with_a_behavior_adds_four(behavior, expected):
    async with emulated(metrics=Load(web=500.0)) as world:
        world.deployment("web", replicas=1)
        await world.pass_time()
        autoscaler(world, behavior=behavior, maxReplicas=40)
        grown = []
        for _ in range(4):
            await world.pass_time(15.0)
            grown.append(replicas(world))
        assert grown == expected


async def test_a_detached_pod_does_not_change_what_is_wanted():
    async with emulated(metrics=Load(web=15.0)) as world:
        await world.bring_up(3)
        autoscaler(world, behavior=free())
        await world.pass_time(1.0)
        pod = world.pods("web")[0]
        labels = {"pod-template-hash": None, "kubedsm.io/migrating": "x"}
        world.patch(PODS, pod["metadata"]["name"], {"metadata": {"labels": labels}})
        await world.pass_time(31.0)
        assert len(world.running("web")) == 4
        assert replicas(world) == 3
        (metric,) = world.get(HORIZONTAL_POD_AUTOSCALERS, "web")["status"]["currentMetrics"]
        assert metric["pods"]["current"] == {"averageValue": "3750m"}


@pytest.mark.parametrize(
    "broken",
    [
        {"metrics": [{"type": "Pods"}]},
        {"metrics": [{"type": "Moon"}]},
        {"metrics": [{"type": "External"}]},
        {"metrics": [{"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {}}}]},
        {"metrics": [{**METRIC, "pods": {**METRIC["pods"], "target": {"averageValue": "0"}}}]},
        {"metrics": []},
        {"behavior": {"scaleUp": {"policies": [{"type": "Pods"}]}}},
    ],
)
async def test_a_malformed_autoscaler_says_so_and_scales_nothing(broken):
    async with emulated(metrics=lambda *_: 50.0) as world:
        world.deployment("web", replicas=2)
        await world.pass_time()
        autoscaler(world, **broken)
        await world.pass_time(20.0)
        hpa = world.get(HORIZONTAL_POD_AUTOSCALERS, "web")
        assert condition(hpa, "ScalingActive")[0] == "False"
        assert replicas(world) == 2


def scaled(pods, replicas, total):
    active = [{"metadata": {}, "status": {"phase": "Running"}}] * pods
    return Scaled(NS, "web", active, replicas, 0.0, 0.1, metrics=lambda *_: total)


@given(
    total=st.integers(0, 400),
    target=st.integers(1, 20),
    pods=st.integers(0, 12),
    extra=st.booleans(),
)
@example(total=121, target=10, pods=11, extra=False)
def test_the_proposal_is_the_total_over_the_target_or_no_change(total, target, pods, extra):
    """Whole loads per pod: an extra pod, detached, never moves the proposal from exact demand."""
    metric = {
        "type": "Pods",
        "pods": {"metric": {"name": "m"}, "target": {"averageValue": str(target)}},
    }
    found = propose(metric, scaled(pods + extra, pods, float(total))).replicas
    exact = math.ceil(total / target)
    if total == pods * target:
        assert found == pods
    assert found in (exact, pods)
    if found != exact:
        assert abs(Fraction(total, target * (pods + extra)) - 1) <= Fraction(1, 10)


@pytest.mark.parametrize("total", [math.nan, math.inf, -math.inf, 1e308])
def test_what_is_no_quantity_is_no_metric(total):
    with pytest.raises(MetricUnavailable):
        propose(METRIC, scaled(2, 2, total))


def test_what_was_added_in_the_period_counts_towards_its_limit():
    behavior = Behavior.of(
        {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}}
    )
    history = ScalingHistory().scaled(10.0, 3)
    assert limited(history, behavior, 50.0, 5, 10, (1, 10)).replicas == 6
    assert limited(history, behavior, 71.0, 5, 10, (1, 10)).replicas == 9


@pytest.mark.parametrize(("behavior", "expected"), [(None, 20), ({}, 4)])
def test_without_a_behavior_a_higher_recommendation_of_late_is_followed(behavior, expected):
    history = ScalingHistory().recommended(0.0, 20)
    assert stabilized(history, Behavior.of(behavior), 299.0, 4, 3).replicas == expected
    assert stabilized(history, Behavior.of(behavior), 301.0, 4, 3).replicas == 3


def test_a_scale_up_window_takes_the_lowest_recommendation():
    behavior = Behavior.of({"scaleUp": {"stabilizationWindowSeconds": 60}})
    history = ScalingHistory().recommended(0.0, 4)
    verdict = stabilized(history, behavior, 30.0, 3, 8)
    assert (verdict.replicas, verdict.reason) == (4, "ScaleUpStabilized")
    assert stabilized(history, behavior, 61.0, 3, 8).replicas == 8
