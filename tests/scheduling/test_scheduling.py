"""The scheduler, end to end, where nothing goes wrong: pods are bound, counted, told, and fair."""

import asyncio
import random
from collections import Counter

import pytest
from structlog.testing import capture_logs

from kubedsm.config.settings import Configuration, load
from kubedsm.model.model import DELETION_COST_ANNOTATION
from kubedsm.scheduling.scheduling_cycle import Scheduler
from kubedsm_lab.emulator.api.resources import NODES, PODS
from kubedsm_lab.emulator.paper import node
from support.asked import as_sent
from support.drawing import drawn_cases
from support.faults import OUTCOMES
from support.metered import Metered
from support.move_scenes import AtRequest
from support.slow_planning import hard, slow_batches
from support.worlds import CLOUD, EDGE, emulated, scheduled


async def test_a_burst_fills_the_edge_and_pods_carry_tier_and_deletion_cost_and_get_an_event():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        await world.bring_up("web", 6, within=2)
        assert world.placed() == {"e1": 4, "c1": 2}
        await asyncio.sleep(1)
        costs = {}
        for pod in world.pods():
            tier = pod["metadata"]["labels"]["kubedsm.io/tier"]
            cost = pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"]
            assert tier == {"e1": "edge", "c1": "cloud"}[pod["spec"]["nodeName"]]
            costs[tier] = int(cost)
        assert costs["cloud"] < costs["edge"]
        assert len(world.events("Scheduled")) == 6


@pytest.mark.parametrize("own", ["7", "-100", "100"])
async def test_a_users_own_deletion_cost_outlives_the_bind(own):
    configuration = load("services: {Pod: {qos: 1}}", "test")
    async with emulated(EDGE, CLOUD, configuration=configuration) as world, world.scheduler():
        world.create_pod("mine", annotations={DELETION_COST_ANNOTATION: own})
        await world.until_bound(1, 2)
        [pod] = world.pods()
        assert pod["metadata"]["labels"]["kubedsm.io/tier"] == "edge"
        assert pod["metadata"]["annotations"][DELETION_COST_ANNOTATION] == own


async def test_a_users_own_deletion_cost_outlives_a_change_of_its_nodes_tier():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        world.create_pod("theirs", annotations={DELETION_COST_ANNOTATION: "7"})
        world.create_pod("corrected")
        await world.until_bound(2, 2)
        chosen = {"metadata": {"annotations": {DELETION_COST_ANNOTATION: "5000"}}}
        world.patch(PODS, "corrected", chosen)
        labels = {"metadata": {"labels": {"kubedsm.io/tier": "cloud"}}}
        world.patch(NODES, "e1", labels)
        await asyncio.sleep(2)
        kept = {}
        for pod in world.pods():
            assert pod["metadata"]["labels"]["kubedsm.io/tier"] == "cloud"
            cost = pod["metadata"]["annotations"][DELETION_COST_ANNOTATION]
            kept[pod["metadata"]["name"]] = cost
        assert kept == {"theirs": "7", "corrected": "5000"}


async def test_pods_of_others_are_counted_and_left_alone():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        world.deploy("foreign", 2, schedulerName="default-scheduler")
        await asyncio.sleep(0.1)
        for pod in world.pods("foreign"):
            target = {"target": {"kind": "Node", "name": "e1"}, "metadata": {}}
            world.api.bind("default", pod["metadata"]["name"], target)
        world.deploy("ignored", 1, schedulerName="default-scheduler")
        world.deploy("web", 3)
        await world.until(lambda: world.placed("web") == {"e1": 2, "c1": 1}, 2)
        assert world.placed("ignored") == {None: 1}


async def test_a_pod_that_fits_nowhere_says_why_and_only_once():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        world.deploy("huge", 1, cpu="64")
        await asyncio.sleep(3)
        [pod] = world.pods()
        [condition] = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"] == (
            "0/2 nodes are available: 2 Insufficient cpu."
            " No node is large enough: the pod requests 64 cpu, the largest has 20 cpu."
        )
        before = world.invariants.writes
        await asyncio.sleep(500)
        [told] = world.events("FailedScheduling")
        assert told["series"]["count"] > 1
        assert world.invariants.writes == before + 1


PLAIN = {"pods", "unplaced", "late", "proven", "milliseconds", "event", "log_level", "bound"}


def is_bind(request):
    return request.path.endswith("/binding")


def lines(logs):
    return [log for log in logs if log["event"] == "batch"]


async def test_the_line_of_a_batch_counts_what_was_seen_bound_and_names_it_for_those_who_ask():
    refused = AtRequest(is_bind, lambda: None, n=2, fault=OUTCOMES["403"])
    with capture_logs() as logs:
        async with emulated(EDGE, CLOUD) as world, world.scheduler(refused):
            await world.bring_up("web", 3, within=10)
            await asyncio.sleep(1)
            assert world.runtime.summary()["bound"] == 3
    first, second = lines(logs)
    assert (first["pods"], first["bound"], first["failed"]) == (3, 2, 1)
    assert (second["pods"], second["bound"]) == (1, 1)
    assert second.keys() == PLAIN
    named = [log for log in logs if log["event"] == "batch pods"]
    assert [log["log_level"] for log in named] == ["debug", "debug"]
    assert len(named[0]["bound"]) == 2
    assert named[1]["bound"][0] == named[0]["failed"][0]
    assert named[1]["bound"][0].endswith(" on e1")


#: alone, KubeDSM asks nobody, and its heuristics do not depend on how fast this machine is
ALONE = load("solver: {kind: 'off'}\nbatch: {idle: 1s, max: 2s}", "test")


async def test_the_log_the_metrics_and_the_explanation_have_the_gap():
    nodes = [node(f"e{at}", "edge", "9500m", "16Gi") for at in range(5)]
    async with emulated(*nodes, node("c1", "cloud", "9", "16Gi"), configuration=ALONE) as world:
        metered = Metered(world)
        with capture_logs() as logs:
            async with world.scheduler(instruments=metered.instruments):
                for at in range(8):
                    world.deploy(f"w{at}", 10, f"{500 + 130 * at}m", f"{2000 - 150 * at}Mi")
                await world.until(lambda: any(each["event"] == "batch" for each in logs), 5)
                batch = next(each for each in logs if each["event"] == "batch")
                pod = next(iter(world.runtime.mirror.snapshot().placed))
                said = world.runtime.decisions.summary(world.runtime.mirror.pod(pod))
                entry = next(world.runtime.decisions.record.newest_first())
                entry = as_sent(entry.facts())
    assert batch["proven"] is False
    placed = batch["unproven"].partition(";")[0]
    assert placed.startswith(f"pods placed: {batch['bound']} of at most ")
    assert f"not proven, {placed}" in said
    assert entry["certificates"][0]["goal"] == "pods placed"
    assert metered("kubedsm_unproven_decisions_total", kind="batch") >= 1
    assert metered("kubedsm_decision_gap_ratio_count", kind="batch", goal="pods_placed") >= 1


def count_edge_pods(world):
    """Count the pods of each namespace on the only edge node."""
    pods = world.api.list(PODS)
    return Counter(
        pod["metadata"]["namespace"] for pod in pods if pod["spec"].get("nodeName") == "e1"
    )


def deploy_in(world, namespace, replicas_by_name):
    world.namespace(namespace)
    for name, replicas in replicas_by_name.items():
        world.deploy(name, replicas, namespace=namespace)


SPLIT = {f"part{number}": 1 for number in range(4)}


async def test_a_tenant_with_four_deployments_takes_no_more_than_its_half_from_a_neighbour():
    async with emulated(EDGE, CLOUD, configuration=Configuration()) as world, world.scheduler():
        deploy_in(world, "victim", {"web": 4})
        await world.until(lambda: count_edge_pods(world) == {"victim": 4}, 10)
        await asyncio.sleep(60)
        deploy_in(world, "sybil", SPLIT)
        await asyncio.sleep(600)
        assert count_edge_pods(world) == {"victim": 2, "sybil": 2}
        # One of the new pods waits for capacity, and saves its own migration.
        assert len(world.witness.of("detach")) == 3


def overrun_at_random(monkeypatch, runtime, rng):
    """Make a third of the immediate decisions overrun, as on a busy machine.

    The planner then takes 10 to 100 ms for each.
    """
    decide_inline = Scheduler.decide_inline

    def overrunning(deciding, stage, pods):
        return None if rng.random() < 1 / 3 else decide_inline(deciding, stage, pods)

    monkeypatch.setattr(Scheduler, "decide_inline", overrunning)
    slow_batches(runtime, lambda: rng.uniform(0.01, 0.1))


OFF = load('{suggester: {mode: "off"}, services: {Pod: {qos: 1}}}', "test")
EDGES = tuple(node(f"n{number}", "edge", "64", "128Gi") for number in (2, 3, 4))


async def place_deployments(monkeypatch, seed, number):
    """Return the replicas per node of Deployments of three, each on three nodes with room."""
    rng = random.Random(seed)
    async with (
        emulated(*EDGES, CLOUD, configuration=OFF, paced=True, seed=seed) as world,
        world.scheduler(seed=seed) as runtime,
    ):
        overrun_at_random(monkeypatch, runtime, rng)
        names = [f"web-{index}" for index in range(number)]
        for name in names:
            world.deploy(name, 3, cpu="100m", memory="128Mi")
            await asyncio.sleep(rng.uniform(0.0, 0.2))
        await world.until_bound(3 * number, 60)
        return [sorted(world.placed(name).values()) for name in names]


@pytest.mark.parametrize("seed", drawn_cases(range(5), one_in=6))
async def test_each_of_three_replicas_gets_a_node_of_its_own(monkeypatch, seed):
    placed = await place_deployments(monkeypatch, seed, 40)
    assert placed == [[1, 1, 1]] * 40


SOFT_RULES = {
    "topologySpreadConstraints": [
        {
            "topologyKey": "kubernetes.io/hostname",
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"tier": "web"}},
        }
    ],
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"tier": "web"}},
                    },
                }
            ]
        }
    },
}


@pytest.mark.parametrize("rule", SOFT_RULES)
@pytest.mark.parametrize("owner", ["hard", "easy"])
async def test_a_pod_waits_for_the_placement_of_pods_that_its_preferences_count(
    monkeypatch, rule, owner
):
    """The preference is that of the pod which is planned, or of the pod which comes meanwhile."""
    hard(monkeypatch)
    async with scheduled(emulated(*EDGES, CLOUD, configuration=OFF, paced=True)) as world:
        planner = slow_batches(world.runtime, 1.0)
        for name in ("hard", "easy"):
            preference = {rule: SOFT_RULES[rule]} if name == owner else {}
            world.create_pod(name, labels={"tier": "web"}, **preference)
            await world.until(lambda: planner.asked, 30)
        await world.until_bound(2, 30)
        assert len(planner.asked) == 1
        assert sorted(world.placed().values()) == [1, 1]
