"""What the scheduler may do by the shipped manifests: enough; and what becomes of it with less."""

import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager

import pytest
import structlog

from kubedsm.config.settings import load
from kubedsm.kube.joining import NotJoinedError, join
from kubedsm_lab.emulator.api.resources import CLUSTER_ROLES, ROLES
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import node
from support.rights import ADMIN_TOKEN, Logged, Right, install, rights, shipped
from support.worlds import emulated

ALL_FEATURES = load(
    "{preemption: enabled, suggester: {mode: apply, period: 5s}, migration: {drainDelay: 1s}}",
    "test",
)
NODES = (node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "4", "8Gi"))
RIGHTS = {str(right): right for right in rights()}
#: without which pods stay where they are
TO_BIND = {"list nodes", "list pods", "create pods/binding"}
TO_MOVE = TO_BIND | {
    "get pods",
    "patch pods",
    "list services",
    "get deployments.apps",
    "get replicasets.apps",
    "list poddisruptionbudgets.policy",
    "create pods/eviction",
    "list configmaps in its namespace",
    "watch configmaps in its namespace",
}
TO_PREEMPT = TO_BIND | {"create pods/eviction"}
METHODS = {"create": "POST", "patch": "PATCH", "update": "PUT"}
#: rights that are missing together: those without which something is not done, each alone
MISSING = {name: [right] for name, right in RIGHTS.items() if name in TO_MOVE | TO_PREEMPT}
for _name, _right in RIGHTS.items():
    if _name not in MISSING:
        MISSING.setdefault(f"all else to {_right.verb}", []).append(_right)
#: seconds; longer than the pause between two lists where watching is forbidden
PATIENCE = 70.0


@asynccontextmanager
async def scheduled(*missing):
    """A world whose scheduler has the shipped rights but some, and what it says."""
    async with emulated(*NODES, configuration=ALL_FEATURES, admin_token=ADMIN_TOKEN) as world:
        world.token = install(world.cluster, *missing)
        world.cluster.routes = Logged(world.cluster.routes)
        with structlog.testing.capture_logs() as said:
            async with world.scheduler():
                yield world, said


async def binds(world):
    await world.bring_up("first", 4, within=PATIENCE)
    await world.bring_up("second", 2, within=PATIENCE)


async def moves(world):
    """The second gets its share of the edge."""
    await world.until(lambda: world.placed("second")["e1"], 2 * PATIENCE)
    await world.until(lambda: len(world.pods()) == 6, 2 * PATIENCE)


async def preempts(world):
    """What is urgent finds no room, and gets it."""
    await world.until(lambda: len(world.pods()) == 6, PATIENCE)
    world.deploy("third", 2)
    # Without a watch, migrations that make capacity for a new pod are not noticed in time.
    await world.until_bound(2, 2 * PATIENCE, "third")
    await world.bring_up(
        "urgent", 1, within=2 * PATIENCE, priorityClassName="system-cluster-critical"
    )


def warnings(said):
    return [
        line["event"] + str(line.get("error", ""))
        for line in said
        if line["log_level"] in ("warning", "error")
    ]


def grant(world, right):
    """The roles as they are shipped."""
    for given in shipped("rbac.yaml"):
        if given["kind"] == right.kind:
            resource = {"Role": ROLES, "ClusterRole": CLUSTER_ROLES}[given["kind"]]
            world.api.update(resource, given)


def is_asked(right, method, path):
    parts = set(right.resource.split("/"))
    return METHODS.get(right.verb, "GET") == method and parts <= set(path.split("/"))


@pytest.mark.parametrize("name", MISSING)
async def test_without_a_right_it_says_which_once_and_all_else_goes_on(name):
    async with scheduled(*MISSING[name]) as (world, said):
        if name not in TO_BIND:
            await binds(world)
            if name not in TO_MOVE:
                await moves(world)
            else:
                await asyncio.sleep(20)
                assert world.cluster.routes.forbidden
            if name not in TO_PREEMPT:
                await preempts(world)
        else:
            world.deploy("first", 4)
        await asyncio.sleep(PATIENCE)
        seconds = world.clock.monotonic()
        if name in TO_BIND:
            assert world.placed() == {None: 4}
    lines, refused = warnings(said), world.cluster.routes.forbidden
    about = Counter()
    for right in MISSING[name]:
        named = f'cannot {right.verb} resource "{right.resource}" in API group "{right.group}"'
        found = [line.partition("403")[0] for line in lines if named in line]
        about.update((named, line) for line in found)
        assert bool(found) == any(is_asked(right, *request) for request in refused), right
    assert about.total() == len(lines), lines
    assert all(number <= 1 + seconds / 60 for number in about.values()), about


@pytest.mark.parametrize("name", sorted(TO_BIND))
async def test_a_right_that_is_granted_late_is_used(name):
    async with scheduled(RIGHTS[name]) as (world, _):
        world.deploy("first", 4)
        await asyncio.sleep(PATIENCE)
        assert world.placed() == {None: 4}
        grant(world, RIGHTS[name])
        await world.until_bound(4, PATIENCE)


@pytest.mark.parametrize("resource", ["nodes", "pods"])
async def test_without_the_right_to_list_what_it_must_see_it_says_so_and_does_not_begin(resource):
    missing = Right("ClusterRole", "", resource, "list")
    async with emulated(*NODES, admin_token=ADMIN_TOKEN) as world:
        token = install(world.cluster, missing)
        front = EmulatedFront(world.cluster.routes, world.clock, token=token)
        with pytest.raises(
            NotJoinedError, match=f'^no right to list {resource} .*: .*"{resource}"'
        ):
            await join(front, world.clock, random.Random(0), print, in_pod=False)
