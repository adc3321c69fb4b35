"""Moves keep the rules that pods have about each other: no move is begun that they refuse."""

import asyncio
import random

from kubedsm.config.settings import load
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.paper import node
from support.drawing import drawn
from support.move_scenes import ReadyPods, cleaned_up, open_edge
from support.waiting_pods import HOST, apart, spread, term
from support.worlds import emulated

QUICK = load("suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 500ms}", "test")


def clouds(number):
    return [node(f"c{n}", "cloud", "20", "40Gi") for n in range(number)]


async def at_rest(world, seconds=60):
    """Nothing is written any more, and no move has ever failed."""
    await asyncio.sleep(seconds)
    assert cleaned_up(world)
    before = world.invariants.writes
    await asyncio.sleep(seconds)
    assert world.invariants.writes == before
    assert not world.events("MigrationFailed")


async def test_pods_that_keep_apart_come_to_the_edge_one_a_node():
    async with emulated(*clouds(3), configuration=QUICK) as world, world.scheduler():
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


async def to_rest(seed):
    rng = random.Random(seed)
    configuration = load(
        "suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 500ms}\nservices:\n"
        + "".join(f"  default/s{n}: {{qos: {rng.choice([0, 0.5, 1])}}}\n" for n in range(3)),
        "test",
    )
    nodes = clouds(rng.randint(1, 3))
    async with (
        emulated(*nodes, configuration=configuration, paced=True) as world,
        world.scheduler(),
    ):
        for name in ("s0", "s1", "s2"):
            rules = rng.choice(
                [
                    apart(term(name, HOST)),
                    apart(term(f"s{rng.randint(0, 2)}", HOST)),
                    spread(name, rng.randint(1, 2), HOST),
                    {},
                ]
            )
            cpu = f"{rng.randint(1, 4) * 500}m"
            world.deploy(name, rng.randint(1, 4), cpu=cpu, memory="512Mi", **rules)
        await asyncio.sleep(10)
        for number in range(rng.randint(1, 3)):
            edge = node(f"e{number}", "edge", f"{rng.randint(1, 6) * 500}m", "4Gi")
            world.api.create(NODES, edge)
        await at_rest(world, 80)
        return len(world.events("Migrated"))


async def test_with_rules_at_random_no_move_is_ever_refused():
    moves = 0
    for seed in drawn(range(16)):
        moves += await to_rest(seed)
    assert moves > 0
