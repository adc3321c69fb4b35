"""The rights of each feature are those that it uses: all of them, and no others."""

import asyncio

import pytest

from kubedsm.app.leader_election import Elector, LeaseTimes
from kubedsm.app.live_configuration import KEY, find_document_in
from kubedsm.config.settings import load
from kubedsm.explain import client
from kubedsm.explain.explainer import Explainer
from kubedsm.kube.calls.permissions import FEATURES
from kubedsm.kube.calls.reads import namespace_uid
from kubedsm.kube.client.port import ObjectName
from kubedsm.kube.client.write_gate import WriteGate
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.annotations import REQUEST_ANNOTATION, MoveRequest
from kubedsm_lab.emulator.api.resources import (
    CONFIGMAPS,
    EVENTS,
    NODES,
)
from kubedsm_lab.emulator.paper import node
from support.accesses import OWN, Accesses
from support.faults import OUTCOMES
from support.full_clusters import filled, preempting, urgent
from support.image_pulls import AHEAD, LARGE_EDGE, pulling
from support.move_scenes import LARGE_CLOUD, ONE_PLACE, migrating, open_edge, quiet
from support.sites import two_sites
from support.volumes import (
    claim,
    local_volume,
    mounting,
    selected_nodes,
    set_provisioning,
    storage_class,
)
from support.worlds import CLOUD, EDGE, emulated

QUIET = load("suggester: {mode: 'off'}", "test")
#: what goes on all the time, whatever else is done
ALWAYS = ("placing", "surroundings", "events", "pause")
BY_NAME = {feature.name: feature for feature in FEATURES}


def rights_of(names):
    return {right for name in names for right in BY_NAME[name].rights}


async def placing():
    """A burst, in which the answer to a bind is lost, and a pod that long fits nowhere."""
    seen = Accesses("/binding", OUTCOMES["lost"])
    async with emulated(EDGE, CLOUD, configuration=QUIET, faults=seen) as world, world.scheduler():
        world.deploy("web", 3)
        world.deploy("huge", 1, cpu="100")
        await world.until_bound(3, 60)
        await world.until(lambda: world.events("FailedScheduling"), 10)
        await world.until(lambda: world.events("FailedScheduling")[0].get("series"), 400)
    return seen


async def binding_volumes():
    """A volume that is there, and one whose provisioner never ends."""
    seen = Accesses()
    async with emulated(EDGE, configuration=QUIET, faults=seen) as world, world.scheduler():
        storage_class(world.api)
        set_provisioning(world.api, "e1", "stuck")
        local_volume(world.api, "pv", "e1", "2Gi")
        claim(world.api, "data", "2Gi")
        claim(world.api, "logs", "3Gi")
        world.deploy("web", 1, **mounting("data", "logs"))
        await asyncio.sleep(20)
        assert selected_nodes(world.api) == {"logs": "e1"}
    return seen


async def demanding_sites():
    """A Service whose requests would go to pods at any site."""
    seen = Accesses()
    demand = "{suggester: {mode: 'off'}, services: {default/*: {demand: {north: 1}}}}"
    configuration = load(demand, "test")
    async with two_sites(configuration=configuration, faults=seen) as world, world.scheduler():
        for name in ("web", "db"):
            world.service(name)
        world.deploy("web", 1)
        world.stateful_set("db", 1)
        await world.until(lambda: world.events("ServiceIgnoresSites", "Deployment"), 700)
        await world.until(lambda: world.events("ServiceIgnoresSites", "StatefulSet"), 10)
    return seen


async def correcting_tiers():
    seen = Accesses()
    async with emulated(CLOUD, configuration=QUIET, faults=seen) as world, world.scheduler():
        world.deploy("web", 1)
        world.stateful_set("db", 1)
        await world.until_bound(2, 10)
        moved = {"metadata": {"labels": {"kubedsm.io/tier": "edge"}}}
        world.patch(NODES, "c1", moved)
        await world.until(
            lambda: all(p["metadata"]["labels"]["kubedsm.io/tier"] == "edge" for p in world.pods()),
            10,
        )
    return seen


async def moving():
    """One pod before the other is gone, and one after."""
    seen = Accesses()
    async with migrating(LARGE_CLOUD, faults=seen) as world, world.scheduler():
        world.deploy("web", 1)
        world.stateful_set("db", 2)
        await world.until_bound(3, 10)
        await asyncio.sleep(2)
        open_edge(world, node("e1", "edge", "4", "8Gi"))
        await world.until(lambda: world.placed() == {"e1": 3}, 60)
        await quiet(world)
    return seen


async def pulling_ahead():
    """One pod before the other is gone, and one after; the target lacks the image of both."""
    seen = Accesses()
    async with pulling(AHEAD, front=seen) as world:
        world.stateful_set("db", 2)
        await world.until_bound(3, 10)
        await asyncio.sleep(2)
        world.api.create(NODES, LARGE_EDGE)
        await world.until(lambda: world.placed() == {"e1": 3}, 200)
        await quiet(world)
    return seen


async def preempting_pods():
    seen = Accesses()
    async with preempting(faults=seen) as world, world.scheduler():
        await filled(world)
        urgent(world)
        await world.until(lambda: world.events("Preempted"), 10)
    return seen


async def electing():
    """A term that is begun, renewed and ended."""
    seen = Accesses()
    async with emulated(CLOUD) as world:
        world.namespace(OWN)
        front = world.connect(seen)
        gate = WriteGate(front, world.clock)
        elector = Elector(front, gate, world.clock, ObjectName(), LeaseTimes(), "one")
        async with elector.hold_lease(print):
            await asyncio.sleep(20)
    return seen


async def following():
    """A configuration that is there from the start, and a wrong one in its place."""
    seen = Accesses()
    name = ObjectName(OWN, OWN)
    async with emulated(CLOUD, configuration=QUIET, faults=seen, source=name) as world:
        world.config_map(**{KEY: "suggester: {mode: 'off'}"})
        async with world.scheduler():
            await find_document_in(world.front, name)
            wrong = {"data": {KEY: "batch: {idle: 5}"}}
            world.patch(CONFIGMAPS, OWN, wrong, namespace=OWN)
            await world.until(lambda: world.api.list(EVENTS, OWN), 10)
    return seen


async def explaining():
    seen = Accesses()
    async with emulated(ONE_PLACE, configuration=QUIET, faults=seen) as world, world.scheduler():
        await world.bring_up("web", 1, within=10)
        [pod] = map(decoding.pod, world.pods())
        explainer = Explainer(world.runtime.mirror.snapshot(), QUIET.policy)
        await client.facts_from_cluster(world.front, explainer, pod)
        assert await namespace_uid(world.front)
    return seen


async def asked_to_move():
    """By an id that nothing is proposed under."""
    seen = Accesses()
    async with emulated(CLOUD, configuration=QUIET, faults=seen) as world, world.scheduler():
        world.namespace(OWN)
        request = str(MoveRequest("r1", world.clock.wall(), "0badf00d"))
        metadata = {"name": OWN, "annotations": {REQUEST_ANNOTATION: request}}
        world.api.create(CONFIGMAPS, {"metadata": metadata}, namespace=OWN)
        await world.until(lambda: world.api.list(EVENTS, OWN), 10)
    return seen


SCENES = (
    (placing, ALWAYS),
    (binding_volumes, ("volumes",)),
    (demanding_sites, ("sites",)),
    (correcting_tiers, ("tiers",)),
    (moving, ("migrations",)),
    (pulling_ahead, ("migrations", "pre-pull")),
    (preempting_pods, ("preemption",)),
    (electing, ("leader-election",)),
    (following, ("configuration",)),
    (asked_to_move, ("requests",)),
    (explaining, ("explain",)),
)


@pytest.mark.parametrize(("scene", "features"), SCENES, ids=[s.__name__ for s, _ in SCENES])
async def test_a_feature_uses_all_its_rights_and_no_others(scene, features):
    used = (await scene()).rights
    assert used - rights_of({*ALWAYS, *features}) == set(), "not in the table"
    assert rights_of(features) - used == set(), "never used"


async def test_every_feature_is_looked_at():
    assert {name for _, features in SCENES for name in features} == set(BY_NAME)
