"""Workloads on their way out: no move of theirs is begun, and no other workload notices."""

import asyncio

import orjson
from structlog.testing import capture_logs

from kubedsm.kube.client.port import Response
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, EVENTS, NAMESPACES, PODS
from support.tenants import (
    CLOUD,
    CONFIGURATION,
    LABEL,
    MERGE,
    NEIGHBOUR,
    TENANT,
    Asked,
    Tenant,
    marked,
    neighbour_is_served,
    neighbour_settles,
    pod,
)
from support.worlds import emulated


def migrating(**world):
    return emulated(CLOUD, configuration=CONFIGURATION, **world)


GOING = {"status": {"phase": "Terminating"}}


def scale(world, replicas):
    world.api.patch(DEPLOYMENTS, TENANT, "web", {"spec": {"replicas": replicas}}, MERGE)


def detached(world):
    return world.api.list(PODS, TENANT, labels=LABEL)


async def test_in_a_namespace_that_is_being_deleted_no_pod_is_moved_or_bound():
    asked = Asked()
    async with migrating() as world, world.scheduler(faults=asked):
        tenant = Tenant.of(world)
        tenant.deploy("web")
        await neighbour_settles(world)
        # Its contents are still there, as they are for a while.
        world.api.patch(NAMESPACES, "", TENANT, GOING, MERGE, subresource="status")
        asked.of_tenant.clear()
        scale(world, 4)
        await neighbour_is_served(world)
        await asyncio.sleep(60)
        assert not asked.of_tenant
        assert sum("nodeName" in p["spec"] for p in tenant.pods()) == 2


async def test_a_namespace_deleted_while_a_move_is_checked_ends_the_move():
    def delete(request):
        if request.method == "GET" and request.path.endswith(f"/{TENANT}/deployments/web"):
            worlds[0].api.patch(NAMESPACES, "", TENANT, GOING, MERGE, subresource="status")

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


async def test_a_namespace_deleted_while_its_pods_move_is_no_error_of_ours():
    with capture_logs() as logs:
        async with migrating() as world, world.scheduler():
            tenant = Tenant.of(world)
            tenant.deploy("web", 4)
            tenant.create(PODS, pod("held", finalizers=["example.com/held"]))
            await neighbour_settles(world)

            def delete(change):
                if not deleted and change.resource is PODS and detached(world):
                    deleted.append(True)
                    world.api.delete(NAMESPACES, "", TENANT)

            deleted = []
            world.api.store.subscribe(delete)
            await neighbour_is_served(world)
            assert deleted
            await asyncio.sleep(60)
            assert [p["metadata"]["name"] for p in tenant.pods()] == ["held"]
            assert world.runtime.manager.quiet.is_set()
    assert complaints(logs) == []


async def test_events_in_a_namespace_that_is_being_deleted_are_not_tried_and_logged_once():
    asked = Asked()
    with capture_logs() as logs:
        async with migrating() as world, world.scheduler(faults=asked) as runtime:
            tenant = Tenant.of(world)
            tenant.deploy("web")
            await neighbour_settles(world)
            # Its contents are still there, as they are for a while.
            world.api.patch(NAMESPACES, "", TENANT, GOING, MERGE, subresource="status")
            await asyncio.sleep(1)
            asked.of_tenant.clear()
            for known in runtime.mirror.pods():
                runtime.recorder.record_migration(known, "gone", completed=False)
                runtime.recorder.record_unschedulable(known, "gone")
            await asyncio.sleep(5)
            assert not asked.of_tenant
            assert world.api.list(EVENTS, NEIGHBOUR)
            assert not runtime.events_lost
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
