"""Migrating comes to rest, on any cluster, and changes nothing that others decide by."""

import asyncio
import random

import pytest

from kubedsm.config.settings import load
from kubedsm_lab.emulator.api.resources import HORIZONTAL_POD_AUTOSCALERS, NODES, PODS
from kubedsm_lab.emulator.front import Delivery
from kubedsm_lab.emulator.paper import node
from support.move_scenes import LARGE_CLOUD, ReadyPods, becomes_unready, cleaned_up, open_edge
from support.worlds import emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

QUICK = load("suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 500ms}", "test")
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


@pytest.mark.parametrize("tenth", range(10))
async def test_after_the_last_useful_move_there_is_no_other(tenth):
    for seed in range(tenth * CLUSTERS // 10, (tenth + 1) * CLUSTERS // 10):
        await to_rest(seed)


async def test_no_move_changes_what_the_autoscaler_wants():
    wanted = []

    def rate(_namespace, _workload, _metric):
        return 15.0

    async with (
        emulated(LARGE_CLOUD, configuration=QUICK, metrics=rate) as world,
        world.scheduler(),
    ):
        world.deploy("web", 3)
        metric = {
            "type": "Pods",
            "pods": {
                "metric": {"name": "rps"},
                "target": {"type": "AverageValue", "averageValue": "5"},
            },
        }
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9, "metrics": [metric]}
        world.api.create(
            HORIZONTAL_POD_AUTOSCALERS,
            {"metadata": {"name": "web", "namespace": "default"}, "spec": spec},
            namespace="default",
        )
        await world.until_bound(3, 3)
        await asyncio.sleep(20)
        detached = 0

        def notice(change):
            nonlocal detached
            if change.resource is HORIZONTAL_POD_AUTOSCALERS:
                wanted.append(change.object["status"]["desiredReplicas"])
            elif change.resource is PODS:
                detached += "kubedsm.io/migrating" in change.object["metadata"]["labels"]

        world.api.store.subscribe(notice)
        open_edge(world, node("e1", "edge", "3", "8Gi"))
        await world.until(lambda: world.placed("web") == {"e1": 3}, 60)
        await asyncio.sleep(60)
        assert detached > 0
        assert set(wanted) <= {3}
        assert world.placed("web") == {"e1": 3}


class StalePods:
    """A pod watch that, from some moment on, shows nothing new for a long time."""

    stale = False

    def on_request(self, request):
        return None

    def on_line(self, request, line):
        pods = request.path.endswith("/pods")
        return Delivery((line,), delay=600.0) if self.stale and pods else None


async def test_the_last_ready_pod_stays_though_the_mirror_shows_two():
    recreate = load("suggester: {period: 1s}\nmigration: {mode: recreate, cooldown: 1s}", "test")
    faults = StalePods()
    async with (
        emulated(LARGE_CLOUD, configuration=recreate) as world,
        world.scheduler(faults=faults),
    ):
        world.deploy("web", 2)
        await world.until_bound(2, 3)
        await asyncio.sleep(2)
        faults.stale = True
        # The other pod is Ready no more, which the mirror does not see.
        becomes_unready(world, world.pods("web")[0])
        await asyncio.sleep(0.1)
        ready = ReadyPods(world, "web").watch()
        assert ready.lowest == 1
        open_edge(world)
        await asyncio.sleep(120)
        assert ready.lowest == 1
