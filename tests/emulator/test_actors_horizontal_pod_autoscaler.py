"""Autoscalers: by requests and by what pods use, case by case and on a cluster."""

import asyncio
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
from kubedsm_lab.emulator.actors.scaling_metrics import MetricUnavailable, Sample, Scaled, propose
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, PODS
from kubedsm_lab.emulator.api.values import rfc3339
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


NOW = 10_000.0


def cpu(**target):
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


HALF = cpu(type="Utilization", averageUtilization=50)


def pod(name, *, phase="Running", ready=True, age=1000.0, since=900.0, requests=None, **more):
    """A pod that started `age` seconds ago, and is (not) Ready since `since` seconds ago."""
    told = {"type": "Ready", "status": str(ready), "lastTransitionTime": rfc3339(NOW - since)}
    begun = {} if phase == "Pending" else {"startTime": rfc3339(NOW - age)}
    container = {"name": "c", "resources": {"requests": requests or {"cpu": "200m"}}}
    return {
        "metadata": {"namespace": NS, "name": name, **more},
        "spec": {"containers": [container]},
        "status": {"phase": phase, "conditions": [told], **begun},
    }


def proposed(pods, used, metric=HALF, *, wanted=None, resource="cpu"):
    """Of the pods, and their names' thousandths in a sample of 5 s ago."""
    samples = {(NS, name): Sample(NOW - 5, {resource: amount}) for name, amount in used.items()}
    wanted = len(pods) if wanted is None else wanted
    return propose(metric, Scaled(NS, "web", pods, wanted, NOW, 0.1, samples=samples))


def replicas_for(*case, **more):
    return proposed(*case, **more).replicas


ABC = [pod("a"), pod("b"), pod("c")]


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        # 50 % of 200m is 100m a pod.
        ((100, 100, 100), 3),
        ((110, 110, 110), 3),
        ((90, 90, 90), 3),
        ((112, 112, 112), 4),
        ((500, 500, 500), 15),
        ((88, 88, 88), 3),
        ((30, 30, 30), 1),
        ((300, 0, 0), 3),
        # 111.67 % is 111 %: percentages are cut, as theirs are.
        ((220, 225, 225), 7),
        # 110 % is within the tolerance, 110.9 % is the same.
        ((110, 111, 111), 3),
    ],
)
def test_the_percentage_of_requests_over_the_target_and_the_tolerance(used, expected):
    assert replicas_for(ABC, dict(zip("abc", used, strict=True))) == expected


def test_an_average_value_needs_no_request():
    pods = [pod("a", requests={"memory": "1"}), pod("b", requests={"memory": "1"})]
    found = proposed(pods, {"a": 700, "b": 500}, cpu(type="AverageValue", averageValue="200m"))
    assert found.replicas == 6
    assert found.status["resource"]["current"] == {"averageValue": "600m"}
    assert found.description == "cpu resource"


def test_memory_is_bytes_and_counts_while_a_pod_starts():
    memory = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100k"}}
    metric = {"type": "Resource", "resource": memory}
    young = pod("a", age=10.0, since=5.0)
    found = proposed([young], {"a": 250_000_000}, metric, resource="memory")
    assert (found.replicas, found.status["resource"]["current"]) == (3, {"averageValue": "250k"})


def test_a_pod_without_a_figure_is_what_is_against_the_change():
    # Two use 150 % of the target: with nothing for the third it is 100 %, no change.
    assert replicas_for(ABC, {"a": 150, "b": 150}) == 3
    # Two use 300 %, all three 200 %: 6, not 9.
    assert replicas_for(ABC, {"a": 300, "b": 300}) == 6
    # Two use 20 %; with its whole request (200 %) the third makes it 80 %: 3 of 3.
    assert replicas_for(ABC, {"a": 20, "b": 20}) == 3
    # Two use 20 % of 400m a pod; the third is taken to use the target: 47 %.
    assert replicas_for(ABC, {"a": 80, "b": 80}, cpu(averageValue="400m")) == 2


@pytest.mark.parametrize(
    "starting",
    [
        pod("c", phase="Pending", ready=False),
        # Not Ready within its first 5 minutes; Ready, but for less than a figure is the mean of.
        pod("c", age=200.0, since=100.0, ready=False),
        pod("c", age=60.0, since=12.0),
        # Never Ready yet, after 5 minutes too.
        pod("c", age=400.0, since=390.0, ready=False),
    ],
)
def test_what_starts_uses_nothing_for_a_scale_up_and_is_left_out_of_a_scale_down(starting):
    pods = [pod("a"), pod("b"), starting]
    known = {} if starting["status"]["phase"] == "Pending" else {"c": 999}
    assert replicas_for(pods, {"a": 300, "b": 300, **known}) == 6
    assert replicas_for(pods, {"a": 150, "b": 150, **known}) == 3
    assert replicas_for(pods, {"a": 20, "b": 20, **known}) == 1


@pytest.mark.parametrize(
    "counted",
    [
        pod("c", age=60.0, since=25.0),
        # Not Ready any more, or not for long, after 5 minutes: its load is real.
        pod("c", age=400.0, since=100.0, ready=False),
        pod("c", age=400.0, since=5.0),
    ],
)
def test_what_has_been_ready_counts(counted):
    assert replicas_for([pod("a"), pod("b"), counted], {"a": 300, "b": 300, "c": 300}) == 9


@pytest.mark.parametrize("gone", [{"deletionTimestamp": "x"}, {"phase": "Failed"}])
def test_what_is_ending_does_not_count(gone):
    pods = [pod("a"), pod("b"), pod("c", **gone)]
    assert replicas_for(pods, {"a": 150, "b": 150, "c": 999}, wanted=2) == 3


def test_the_direction_does_not_turn():
    # 125 % of the target, and with the two that have no figure 42 %: no scale-down of it.
    assert replicas_for(ABC, {"a": 125}) == 3
    # 40 % of it, and with the two that have none 147 %: no scale-up.
    assert replicas_for(ABC, {"a": 40}) == 3
    # Many start: five times the target over 6 pods is below it.
    starting = [pod(f"s{n}", phase="Pending") for n in range(5)]
    assert replicas_for([pod("a"), *starting], {"a": 500}) == 6
    # More pods than are wanted: 80 % of the target over 5 of them are no 4 instead of 3.
    more = [*ABC, pod("d"), pod("e")]
    assert replicas_for(more, {"a": 50, "b": 50, "c": 50, "d": 50}, wanted=3) == 3


def scaling(world):
    """Pods of 1 core each, half of which is wanted of them."""
    world.schedule_always()
    world.deployment("web", replicas=2)
    autoscaler(world, maxReplicas=20, metrics=[HALF])


def seen(world):
    """Replicas, and the autoscaler."""
    return replicas(world), world.get(HORIZONTAL_POD_AUTOSCALERS, "web")


async def test_pods_are_looked_at_every_15_s_and_count_when_they_have_run_for_so_long():
    looks, time = [], asyncio.get_running_loop().time

    def usage(namespace, pod_name, resource):
        looks.append((time(), namespace, pod_name, resource))
        return 1.0 if resource == "cpu" else None

    async with emulated(usage=usage) as world:
        await world.pass_time(5.0)
        scaling(world)
        await world.pass_time(20.0)
        assert {at for at, *_ in looks} == {15.0}
        assert {look[1:] for look in looks} == {
            (NS, name, resource)
            for name in (pod["metadata"]["name"] for pod in world.pods("web"))
            for resource in ("cpu", "memory")
        }
        # Their first figure is of a time in which they were not Ready yet.
        count, hpa = seen(world)
        assert (count, condition(hpa, "ScalingActive")[1]) == (2, "FailedGetResourceMetric")
        await world.pass_time(15.0)
        count, hpa = seen(world)
        assert (count, condition(hpa, "ScalingActive")[1]) == (4, "ValidMetricFound")
        (metric,) = hpa["status"]["currentMetrics"]
        current = {"averageUtilization": 100, "averageValue": "1"}
        assert metric["resource"]["current"] == current


async def test_the_pods_it_adds_do_not_make_it_add_more():
    """Four cores are used, by however many pods there are: eight are enough, at once."""
    async with emulated(usage=lambda *_: 4.0 / len(world.running("web"))) as world:
        scaling(world)
        counts = set()
        for _ in range(30):
            await world.pass_time(5.0)
            counts.add(seen(world)[0])
        assert counts == {2, 4, 8}
