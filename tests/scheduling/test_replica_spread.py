"""Replicas on separate nodes, when they are created and decided on one after the other."""

import asyncio
import random

import pytest

from kubedsm.config.settings import load
from kubedsm.scheduling.scheduling_cycle import Scheduler
from kubedsm_lab.emulator.paper import node
from support.drawing import drawn_cases
from support.slow_planning import hard, slow_batches
from support.worlds import CLOUD, emulated, scheduled


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
