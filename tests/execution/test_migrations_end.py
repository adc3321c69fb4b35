"""Migrations come to rest on any cluster, keep pods' rules, and change nothing others decide by."""

import asyncio
import random

import pytest

from kubedsm.config.settings import load
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.paper import node
from support.drawing import drawn, keep_one_in
from support.move_scenes import ReadyPods, at_rest, open_edge
from support.waiting_pods import HOST, apart, spread, term
from support.worlds import emulated

#: so many in all; a tenth of them a case
CLUSTERS = 100
QUICK = "suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 500ms}\n"


def clouds(number):
    return [node(f"c{n}", "cloud", "20", "40Gi") for n in range(number)]


async def test_pods_that_keep_apart_come_to_the_edge_one_a_node():
    async with emulated(*clouds(3), configuration=load(QUICK, "test")) as world, world.scheduler():
        world.deploy("web", 3, **apart(term("web", HOST)))
        await world.until_bound(3, 5)
        await asyncio.sleep(2)
        ready = ReadyPods(world, "web").watch()
        open_edge(world, node("e1", "edge", "8", "16Gi"))
        await at_rest(world)
        # There is room for all, and a place for one.
        assert world.placed("web")["e1"] == 1
        assert len(world.events("Migrated")) == 1
        open_edge(world, node("e2", "edge", "1", "16Gi"))
        await at_rest(world)
        assert (world.placed("web")["e1"], world.placed("web")["e2"]) == (1, 1)
        assert len(world.events("Migrated")) == 2
        assert ready.lowest == 3


def draw_rule(rng, name):
    return rng.choice(
        [
            apart(term(name, HOST)),
            apart(term(f"s{rng.randint(0, 2)}", HOST)),
            spread(name, rng.randint(1, 2), HOST),
            {},
        ]
    )


async def come_to_rest(seed, ruled=False):
    """Open a drawn edge to drawn workloads; return the number of migrations."""
    rng = random.Random(seed)
    services = {f"default/s{n}": {"qos": rng.choice([0, 0.5, 1])} for n in range(3)}
    configuration = load(f"{QUICK}services: {services}", "test")
    nodes = clouds(rng.randint(1, 3) if ruled else 2)
    async with (
        emulated(*nodes, configuration=configuration, paced=ruled) as world,
        world.scheduler(),
    ):
        replicas = {f"s{n}": rng.randint(1, 4) for n in range(3)}
        for name, count in replicas.items():
            rules = draw_rule(rng, name) if ruled else {}
            cpu = f"{rng.randint(1, 4) * 500}m"
            world.deploy(name, count, cpu=cpu, memory="512Mi", **rules)
        await asyncio.sleep(10)
        ready = [ReadyPods(world, name).watch() for name in replicas]
        before = [each.lowest for each in ready]
        assert ruled or before == list(replicas.values())
        for number in range(rng.randint(1, 3)):
            edge = node(f"e{number}", "edge", f"{rng.randint(1, 6) * 500}m", "4Gi")
            world.api.create(NODES, edge)
        # Long enough for every migration there can be, one after the other.
        await at_rest(world, 100)
        assert [each.lowest for each in ready] == before
        return len(world.events("Migrated"))


@pytest.mark.parametrize("tenth", keep_one_in(2, range(10)))
async def test_after_the_last_useful_move_there_is_no_other(tenth):
    for seed in drawn(range(tenth * CLUSTERS // 10, (tenth + 1) * CLUSTERS // 10), one_in=6):
        await come_to_rest(seed)


async def test_with_rules_at_random_no_move_is_ever_refused():
    moves = 0
    for seed in drawn(range(16), one_in=6):
        moves += await come_to_rest(seed, ruled=True)
    assert moves > 0
