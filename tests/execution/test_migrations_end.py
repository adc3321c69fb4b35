"""Migrating comes to rest, on any cluster, and changes nothing that others decide by."""

import asyncio
import random

import pytest

from kubedsm.config.settings import load
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.paper import node
from support.drawing import drawn, keep_one_in
from support.move_scenes import ReadyPods, cleaned_up
from support.worlds import emulated

#: so many in all; a tenth of them a case
CLUSTERS = 100


async def to_rest(seed):
    rng = random.Random(seed)
    cloud = node("c1", "cloud", "40", "80Gi")
    configuration = load(
        "suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 500ms}\nservices:\n"
        + "".join(f"  default/s{n}: {{qos: {rng.choice([0, 0.5, 1])}}}\n" for n in range(3)),
        "test",
    )
    async with emulated(cloud, configuration=configuration) as world, world.scheduler():
        replicas = {f"s{n}": rng.randint(1, 4) for n in range(3)}
        for name, count in replicas.items():
            world.deploy(name, count, cpu=f"{rng.randint(1, 4) * 500}m", memory="512Mi")
        await world.until_bound(sum(replicas.values()), 5)
        await asyncio.sleep(2)
        ready = [ReadyPods(world, name).watch() for name in replicas]
        for number in range(rng.randint(1, 3)):
            edge = node(f"e{number}", "edge", f"{rng.randint(1, 6) * 500}m", "4Gi")
            world.api.create(NODES, edge)
        # Long enough for every move there can be, one after the other.
        await asyncio.sleep(100)
        assert cleaned_up(world)
        before = world.invariants.writes
        await asyncio.sleep(100)
        assert world.invariants.writes == before, f"seed {seed} does not come to rest"
        assert [r.lowest for r in ready] == list(replicas.values())


@pytest.mark.parametrize("tenth", keep_one_in(2, range(10)))
async def test_after_the_last_useful_move_there_is_no_other(tenth):
    for seed in drawn(range(tenth * CLUSTERS // 10, (tenth + 1) * CLUSTERS // 10)):
        await to_rest(seed)
