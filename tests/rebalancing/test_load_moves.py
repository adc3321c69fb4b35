"""Pods are moved so that load is more even, as Prometheus tells it, and not without end."""

from collections import Counter
from contextlib import asynccontextmanager

import attrs

from kubedsm.app.prometheus import Sample
from kubedsm.config.settings import load
from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import NOTHING_MEASURED
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.worlds import emulated

#: of 4 cores and 8 GiB
E1, E2 = (node(name, "edge", "4", "8Gi") for name in ("e1", "e2"))
#: cores, bytes
USES = {"hog": (1000.0, 0.0), "hoard": (0.0, 2.0 * 2**30)}


@attrs.define
class Metering:
    """A Prometheus that knows what each pod uses, and so each node."""

    clock: VirtualClock
    world: object = None

    async def ask(self, _whom, queries, _seconds, _most, then):
        return then({name: self._vector(name) for name in queries})

    def _vector(self, name):
        of, _, kind = name.partition("_")
        if kind not in ("cpu", "memory"):
            return ()
        sums = Counter({"e1": 0.0, "e2": 0.0})
        pods = {}
        for pod in self.world.pods():
            use = USES[pod["metadata"]["labels"]["app"].rstrip("012")][kind == "memory"]
            if pod["spec"].get("nodeName"):
                sums[pod["spec"]["nodeName"]] += use
                pods[pod["metadata"]["name"]] = use
        at = self.clock.wall()
        if of == "node":
            return tuple(Sample({"instance": f"{n}:9100"}, v, at) for n, v in sums.items())
        return tuple(Sample({"namespace": "default", "pod": n}, v, at) for n, v in pods.items())


@asynccontextmanager
async def uneven(move="true", mode="apply"):
    """Two that use cores are on e1, and on e2 two that use memory."""
    text = (
        f"loadAware: {{prometheus: 'http://p', period: 10s, window: 20s, move: {move}}}\n"
        f"suggester: {{mode: '{mode}'}}"
    )
    metering = Metering(VirtualClock())
    async with emulated(E1, configuration=load(text, "test"), prometheus=metering) as world:
        metering.world = world
        async with world.scheduler() as runtime:
            for name in ("hog1", "hog2"):
                world.deploy(name, 1, cpu="2")
            await world.until_bound(2, 5)
            world.api.create(NODES, E2)
            for name in ("hoard1", "hoard2"):
                world.deploy(name, 1, cpu="500m")
            await world.until_bound(4, 5)
            yield world, runtime


def kinds(world, name):
    return sorted(
        app.rstrip("012")
        for app in ("hog1", "hog2", "hoard1", "hoard2")
        if world.placed(app) == {name: 1}
    )


async def test_two_moves_even_it_out_and_then_it_is_quiet():
    async with uneven() as (world, _):
        assert (kinds(world, "e1"), kinds(world, "e2")) == (["hog", "hog"], ["hoard", "hoard"])
        await world.until(lambda: kinds(world, "e1") == ["hoard", "hog"], 200)
        names = sorted(pod["metadata"]["name"] for pod in world.pods())
        told = [event["message"] for event in world.events("Migrated")]
        assert any("to balance load: score 75 -> 88" in message for message in told)
        await world.clock.sleep(200)
        assert sorted(pod["metadata"]["name"] for pod in world.pods()) == names


async def test_a_move_is_worth_it_as_long_as_the_samples_say_so():
    async with uneven(mode="off") as (world, runtime):
        policy = runtime.configuration.current.policy
        await world.clock.sleep(60)
        suggestion = policy.suggest(runtime.mirror.snapshot(), lambda _: None)
        assert [move.evens for move in suggestion.moves] == [True]
        moves, has_benefit = suggestion.moves, runtime.migrator.has_benefit
        assert has_benefit(moves)
        runtime.mirror.apply(MeasuredApplied(NOTHING_MEASURED))
        assert not has_benefit(moves)
