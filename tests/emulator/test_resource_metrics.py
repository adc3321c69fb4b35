"""What autoscalers make of what pods use, case by case and on a cluster."""

import asyncio

import pytest

from kubedsm_lab.emulator.actors.scaling_metrics import Sample, Scaled, propose
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS
from kubedsm_lab.emulator.api.values import rfc3339
from support.actor_world import NS, condition, emulated

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


def replicas(*case, **more):
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
    assert replicas(ABC, dict(zip("abc", used, strict=True))) == expected


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
    assert replicas(ABC, {"a": 150, "b": 150}) == 3
    # Two use 300 %, all three 200 %: 6, not 9.
    assert replicas(ABC, {"a": 300, "b": 300}) == 6
    # Two use 20 %; with its whole request (200 %) the third makes it 80 %: 3 of 3.
    assert replicas(ABC, {"a": 20, "b": 20}) == 3
    # Two use 20 % of 400m a pod; the third is taken to use the target: 47 %.
    assert replicas(ABC, {"a": 80, "b": 80}, cpu(averageValue="400m")) == 2


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
    assert replicas(pods, {"a": 300, "b": 300, **known}) == 6
    assert replicas(pods, {"a": 150, "b": 150, **known}) == 3
    assert replicas(pods, {"a": 20, "b": 20, **known}) == 1


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
    assert replicas([pod("a"), pod("b"), counted], {"a": 300, "b": 300, "c": 300}) == 9


@pytest.mark.parametrize("gone", [{"deletionTimestamp": "x"}, {"phase": "Failed"}])
def test_what_is_ending_does_not_count(gone):
    pods = [pod("a"), pod("b"), pod("c", **gone)]
    assert replicas(pods, {"a": 150, "b": 150, "c": 999}, wanted=2) == 3


def test_the_direction_does_not_turn():
    # 125 % of the target, and with the two that have no figure 42 %: no scale-down of it.
    assert replicas(ABC, {"a": 125}) == 3
    # 40 % of it, and with the two that have none 147 %: no scale-up.
    assert replicas(ABC, {"a": 40}) == 3
    # Many start: five times the target over 6 pods is below it.
    starting = [pod(f"s{n}", phase="Pending") for n in range(5)]
    assert replicas([pod("a"), *starting], {"a": 500}) == 6
    # More pods than are wanted: 80 % of the target over 5 of them are no 4 instead of 3.
    more = [*ABC, pod("d"), pod("e")]
    assert replicas(more, {"a": 50, "b": 50, "c": 50, "d": 50}, wanted=3) == 3


def scaling(world):
    """Pods of 1 core each, half of which is wanted of them."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    body = {"scaleTargetRef": target, "maxReplicas": 20, "metrics": [HALF]}
    world.schedule_always()
    world.deployment("web", replicas=2)
    world.create(HORIZONTAL_POD_AUTOSCALERS, "web", spec=body)


def seen(world):
    """Replicas, and the autoscaler."""
    hpa = world.get(HORIZONTAL_POD_AUTOSCALERS, "web")
    return world.get(DEPLOYMENTS, "web")["spec"]["replicas"], hpa


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
