"""Marks of moves that are none of ours: no workload gains by them, and no neighbour notices."""

import asyncio

import orjson
import pytest
from structlog.testing import capture_logs

from kubedsm.config.settings import load
from kubedsm.kube.client.port import Response
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
)
from kubedsm_lab.emulator.paper import workload
from support.tenants import (
    BOUND,
    CLOUD,
    CONFIGURATION,
    EDGE,
    LABEL,
    MOVED,
    NEIGHBOUR,
    TENANT,
    Asked,
    Tenant,
    _follow_to_an_edge,
    exists,
    marked,
    neighbour_settles,
    pod,
    served,
)
from support.worlds import emulated, small_pod


async def neighbour_is_served(world):
    """Check that the neighbour's pods are bound and migrated while the tenant misbehaves."""
    world.api.create(NODES, EDGE)
    await asyncio.sleep(2)
    await served(world, BOUND)
    await _follow_to_an_edge(world, 2 * MOVED)


def migrating(**world):
    return emulated(CLOUD, configuration=CONFIGURATION, **world)


def labelled(name, scheduler="kubedsm"):
    return pod(name, scheduler, labels={"a": "b", LABEL: "x"})


def replica_set(tenant, replicas=0, **selected):
    """One whose pods never run."""
    pods = small_pod({"cpu": "10m"}, schedulerName="nobody")
    spec = workload("x", replicas, pods, labels=selected)["spec"]
    made = tenant.create(REPLICA_SETS, {"metadata": {"name": "web-x"}, "spec": spec})
    return made["metadata"]["uid"]


@pytest.mark.parametrize(
    ("make", "scheduler"),
    [
        (labelled, "kubedsm"),
        (labelled, "default-scheduler"),
        (marked, "default-scheduler"),
        (marked, "kubedsm"),
    ],
)
async def test_a_labelled_pod_that_no_budget_lets_go_stops_no_moves(make, scheduler):
    async with migrating() as world, world.scheduler():
        tenant = Tenant.of(world)
        tenant.forbid_disruption()
        tenant.create(PODS, pod("forged", scheduler, labels={"a": "b"}))
        await neighbour_settles(world)
        # No budget keeps a pod that does not run yet.
        metadata = make("forged")["metadata"]
        world.patch(PODS, "forged", {"metadata": metadata}, namespace=TENANT)
        await neighbour_is_served(world)
        # Whoever may patch a pod may as well name an owner that is gone, as is done here.
        collected = make is marked and scheduler == "kubedsm"
        assert [p["metadata"]["name"] for p in tenant.pods()] == ["forged"] * (not collected)


async def test_hundreds_of_labelled_pods_cost_a_few_events_a_minute():
    asked = Asked()
    async with migrating() as world, world.scheduler(faults=asked):
        tenant = Tenant.of(world)
        await neighbour_settles(world)
        for number in range(80):
            tenant.create(PODS, labelled(f"forged-{number}"))
        # Another KubeDSM may have set this one.
        tenant.create(PODS, marked("theirs", scheduler="default-scheduler"))
        await neighbour_is_served(world)
        await asyncio.sleep(60)
        assert len(asked.of_tenant) == len(asked.to("events")) <= 50
        told = {e["involvedObject"]["name"] for e in tenant.events("MigrationMarkIgnored")}
        assert "theirs" not in told


async def test_pods_that_their_named_owner_does_not_know_are_looked_at_once_a_few_at_a_time():
    asked = Asked()
    async with migrating() as world, world.scheduler(faults=asked):
        tenant = Tenant.of(world)
        uid = replica_set(tenant)
        await neighbour_settles(world)
        for number in range(40):
            tenant.create(PODS, marked(f"forged-{number}", uid=uid))
        await neighbour_is_served(world)
        seconds = world.clock.monotonic()
        assert len(asked.of_tenant) < 15 * seconds
        await asyncio.sleep(60)
        before = len(asked.of_tenant)
        looked = {r.path for r in asked.of_tenant if r.method == "GET" and "/pods/" in r.path}
        assert len(looked) == len(tenant.pods()) == 40
        await asyncio.sleep(60)
        events = len(asked.to("events"))
        assert len(asked.of_tenant) - before <= 20
        assert events <= 60


OWNERS = {
    "selects it still": ({}, "x"),
    "would not have it back": ({LABEL: "x"}, "y"),
    "knows others": ({}, "y"),
}


@pytest.mark.parametrize("case", OWNERS)
async def test_a_pod_that_its_named_owner_never_let_go_is_ignored(case):
    selected, app = OWNERS[case]
    async with migrating() as world, world.scheduler():
        tenant = Tenant.of(world)
        uid = replica_set(tenant, 1, **selected)
        await neighbour_settles(world)
        for other in tenant.pods():
            tenant.delete(PODS, other["metadata"]["name"])
        forged = tenant.create(PODS, marked("forged", uid=uid, app=app))
        await neighbour_is_served(world)
        left = world.api.get(PODS, TENANT, "forged")
        assert left["metadata"]["labels"] == forged["metadata"]["labels"]
        told = [e["involvedObject"]["name"] for e in tenant.events("MigrationMarkIgnored")]
        assert told.count("forged") == 1


SELECTORS = {
    "migrating in the selector": ({LABEL: "x"}, ()),
    "tier in the selector": ({"kubedsm.io/tier": "edge"}, ()),
    "another tier in the selector": ({"kubedsm.io/tier": "cloud"}, ()),
    "no migrating": ({}, [exists(LABEL, "DoesNotExist")]),
}


@pytest.mark.parametrize("selector", SELECTORS)
async def test_a_deployment_whose_selector_has_our_labels_neither_moves_nor_multiplies(selector):
    labels, expressions = SELECTORS[selector]
    async with migrating() as world, world.scheduler():
        tenant = Tenant.of(world)
        tenant.deploy("odd", 2, labels, expressions)
        await neighbour_settles(world)
        before = {p["metadata"]["uid"] for p in tenant.pods()}
        await neighbour_is_served(world)
        await asyncio.sleep(50)
        assert {p["metadata"]["uid"] for p in tenant.pods()} == before
        assert len(before) == 2
        told = tenant.events("MigrationFailed") + tenant.events("MigrationMarkIgnored")
        assert told
        assert all("kubedsm.io/" in event["message"] for event in told)


async def test_a_pod_without_owner_counts_for_no_owner_as_ready():
    recreate = load("suggester: {period: 1s}\nmigration: {mode: recreate, cooldown: 1s}", "test")
    async with emulated(CLOUD, configuration=recreate) as world, world.scheduler():
        tenant = Tenant.of(world)
        tenant.deploy("web", 1)
        tenant.create(PODS, pod("alone", labels={"app": "web"}))
        await neighbour_settles(world)
        before = [p["metadata"]["uid"] for p in tenant.pods()]
        await neighbour_is_served(world)
        await asyncio.sleep(60)
        assert [p["metadata"]["uid"] for p in tenant.pods()] == before


async def test_the_owners_name_in_a_mark_leads_to_no_other_path():
    asked = Asked()
    async with migrating() as world, world.scheduler(faults=asked):
        tenant = Tenant.of(world)
        await neighbour_settles(world)
        for number, name in enumerate(("../../../nodes/c1?-x", "web%2F..-x", "web/status-x")):
            tenant.create(PODS, marked(f"forged-{number}", replica_set=name))
        await neighbour_is_served(world)
        assert {r.path.rsplit("/", 1)[-1] for r in asked.of_tenant} == {"events"}
        assert len(tenant.events("MigrationMarkIgnored")) == 3


GOING = {"status": {"phase": "Terminating"}}


def scale(world, replicas):
    world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, namespace=TENANT)


def detached(world):
    return world.api.list(PODS, TENANT, labels=LABEL)


async def test_in_a_namespace_that_is_being_deleted_no_pod_is_moved_or_bound():
    asked = Asked()
    async with migrating() as world, world.scheduler(faults=asked):
        tenant = Tenant.of(world)
        tenant.deploy("web")
        await neighbour_settles(world)
        # Its contents are still there, as they are for a while.
        world.patch(NAMESPACES, TENANT, GOING, subresource="status")
        asked.of_tenant.clear()
        scale(world, 4)
        await neighbour_is_served(world)
        await asyncio.sleep(60)
        assert not asked.of_tenant
        assert sum("nodeName" in p["spec"] for p in tenant.pods()) == 2


async def test_a_namespace_deleted_while_a_move_is_checked_ends_the_move():
    def delete(request):
        if request.method == "GET" and request.path.endswith(f"/{TENANT}/deployments/web"):
            worlds[0].patch(NAMESPACES, TENANT, GOING, subresource="status")

    worlds = []
    async with migrating() as world, world.scheduler(faults=Asked(delete)):
        worlds.append(world)
        tenant = Tenant.of(world)
        tenant.deploy("web")
        await neighbour_settles(world)
        moved = []
        world.api.store.subscribe(lambda _: moved.extend(detached(world)))
        await neighbour_is_served(world)
        await asyncio.sleep(60)
        assert not moved
        told = tenant.events("MigrationFailed")
        assert told
        assert all("its namespace is being deleted" in event["message"] for event in told)


async def test_events_in_a_namespace_that_is_being_deleted_are_not_tried_and_logged_once():
    asked = Asked()
    with capture_logs() as logs:
        async with migrating() as world, world.scheduler(faults=asked) as runtime:
            tenant = Tenant.of(world)
            tenant.deploy("web")
            await neighbour_settles(world)
            # Its contents are still there, as they are for a while.
            world.patch(NAMESPACES, TENANT, GOING, subresource="status")
            await asyncio.sleep(1)
            asked.of_tenant.clear()
            for known in runtime.mirror.pods():
                runtime.recorder.record_unschedulable(known, "gone")
                runtime.recorder.record_migration(known, "gone", completed=False)
            await asyncio.sleep(5)
            assert not asked.of_tenant
            assert world.api.list(EVENTS, NEIGHBOUR)
            assert not runtime.recorder.lost
    told = [entry for entry in logs if "Events" in entry["event"]]
    assert [entry["namespace"] for entry in told] == [TENANT]


async def test_a_detached_pod_of_a_namespace_that_forbids_its_eviction_is_garbage_collected():
    refusal = {
        "reason": "Forbidden",
        "message": "it is being terminated",
        "details": {"causes": [{"reason": "NamespaceTerminating"}]},
    }

    def refuse(request):
        evicts = request.path.endswith(f"/{TENANT}/pods/left/eviction")
        return Response(403, orjson.dumps(refusal)) if evicts else None

    asked = Asked(refuse)
    with capture_logs() as logs:
        async with migrating() as world, world.scheduler(faults=asked):
            tenant = Tenant.of(world)
            tenant.create(PODS, marked("left"))
            await asyncio.sleep(10)
            assert asked.to("eviction")
            assert not tenant.pods()
            await neighbour_settles(world)
            await neighbour_is_served(world)
    assert complaints(logs) == []


def complaints(logs):
    told = [entry for entry in logs if entry["log_level"] in {"warning", "error"}]
    return [entry for entry in told if "being terminated" in entry.get("error", "")]
