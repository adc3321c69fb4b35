import pytest

from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    SERVICES,
)
from support.actor_world import NS, emulated, labelled_workload


async def test_foreground_deletes_the_owner_last():
    async with emulated(stop_delay=1.0) as world:
        await world.bring_up(2)
        world.api.delete(DEPLOYMENTS, NS, "web", propagation="Foreground")
        await world.pass_time(0.5)
        assert world.names(DEPLOYMENTS) == ["web"]
        assert len(world.names(REPLICA_SETS)) == 1
        assert len(world.pods("web")) == 2
        await world.pass_time(1.0)
        gone = [
            c.resource.plural
            for c in world.changes
            if c.type == "DELETED" and c.resource in (DEPLOYMENTS, REPLICA_SETS, PODS)
        ]
        assert gone == ["pods", "pods", "replicasets", "deployments"]


def owner_reference(obj, **more):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        **more,
    }


async def test_one_owner_of_two_is_enough():
    async with emulated() as world:
        owners = [world.create(CONFIGMAPS, name) for name in ("one", "two")]
        references = [owner_reference(owner) for owner in owners]
        body = {"metadata": {"name": "child", "ownerReferences": references}}
        world.api.create(CONFIGMAPS, body, namespace=NS)
        world.api.delete(CONFIGMAPS, NS, "one")
        await world.pass_time()
        child = world.get(CONFIGMAPS, "child")
        assert child["metadata"]["ownerReferences"] == references[1:]
        world.api.delete(CONFIGMAPS, NS, "two")
        await world.pass_time()
        assert world.names(CONFIGMAPS) == []


async def test_what_names_an_owner_that_never_was_is_deleted():
    async with emulated() as world:
        ghost = {"metadata": {"name": "ghost", "uid": "no-such-uid"}}
        body = {"metadata": {"name": "child", "ownerReferences": [owner_reference(ghost)]}}
        world.api.create(CONFIGMAPS, body, namespace=NS)
        await world.pass_time()
        assert world.names(CONFIGMAPS) == []


async def test_a_namespace_goes_with_everything_in_it():
    async with emulated(stop_delay=1.0) as world:
        world.create(NAMESPACES, "shop")
        await world.pass_time()
        body = labelled_workload("Deployment", "web", 2)
        world.api.create(DEPLOYMENTS, body, namespace="shop")
        service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
        world.api.create(SERVICES, service, namespace="shop")
        await world.pass_time()
        for pod in world.api.list(PODS, "shop"):
            world.bind(pod, "n1")
        await world.pass_time()
        world.api.delete(NAMESPACES, "", "shop")
        await world.pass_time(2.0)
        # Who deletes what is in it, too, still finds it.
        world.api.delete(SERVICES, "shop", "web")
        assert world.api.list(DEPLOYMENTS, "shop")
        await world.pass_time(3.1)
        assert world.get(NAMESPACES, "shop")["status"]["phase"] == "Terminating"
        assert world.api.list(DEPLOYMENTS, "shop") == []
        with pytest.raises(ApiError, match="is being terminated"):
            world.api.create(CONFIGMAPS, {"metadata": {"name": "late"}}, namespace="shop")
        await world.pass_time(1.5)
        with pytest.raises(ApiError, match="not found"):
            world.get(NAMESPACES, "shop")
        assert world.api.list(PODS, "shop") == []


async def test_an_object_with_a_finalizer_holds_its_namespace():
    async with emulated() as world:
        world.create(NAMESPACES, "shop")
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        world.api.create(CONFIGMAPS, held, namespace="shop")
        world.api.delete(NAMESPACES, "", "shop")
        await world.pass_time(30.0)
        assert world.get(NAMESPACES, "shop")["status"]["phase"] == "Terminating"
        patch = {"metadata": {"finalizers": None}}
        world.api.patch(CONFIGMAPS, "shop", "held", patch, "application/merge-patch+json")
        await world.pass_time()
        with pytest.raises(ApiError, match="not found"):
            world.get(NAMESPACES, "shop")
