import pytest

from kubedsm_lab.emulator.actors.kubelet import NEVER_READY
from kubedsm_lab.emulator.actors.replica_set import DELETION_COST, deletion_order
from kubedsm_lab.emulator.api.resources import EVENTS, PODS, REPLICA_SETS, RESOURCE_QUOTAS
from kubedsm_lab.emulator.api.values import rfc3339
from support.actor_world import NS, condition, emulated, labelled_workload, owner_of


def replica_set(world, name="web", replicas=2, **spec):
    body = labelled_workload("ReplicaSet", name, replicas, **spec)
    return world.api.create(REPLICA_SETS, body, namespace=NS)


async def test_a_ready_pod_is_available_after_min_ready_seconds():
    async with emulated() as world:
        replica_set(world, minReadySeconds=10)
        await world.pass_time()
        world.bind_all()
        await world.pass_time(8.0)
        assert "availableReplicas" not in world.get(REPLICA_SETS, "web")["status"]
        await world.pass_time(4.0)
        assert world.get(REPLICA_SETS, "web")["status"]["availableReplicas"] == 2


async def test_labels_of_the_template_are_counted_though_the_selector_lacks_them():
    async with emulated() as world:
        body = labelled_workload("ReplicaSet", "web", 1)
        body["spec"]["template"]["metadata"] = {"labels": {"app": "web", "tier": "front"}}
        world.api.create(REPLICA_SETS, body, namespace=NS)
        await world.pass_time()
        (pod,) = world.pods()
        for label, number in (("other", 1), ("tier", 0)):
            labels = {"metadata": {"labels": {label: "changed"}}}
            world.patch(PODS, pod["metadata"]["name"], labels)
            await world.pass_time()
            status = world.get(REPLICA_SETS, "web")["status"]
            assert status.get("fullyLabeledReplicas", 0) == number


async def test_a_terminating_orphan_is_not_adopted():
    async with emulated(stop_delay=5.0) as world:
        world.pod("orphan", on="n1", labels={"app": "web"})
        await world.pass_time()
        world.api.delete(PODS, NS, "orphan", grace_seconds=30)
        replica_set(world, replicas=1)
        await world.pass_time()
        assert owner_of(world.get(PODS, "orphan")) == ""
        assert len(world.pods("web")) == 2


async def scaled_to_one(world, prepare):
    """Two bound, running pods of one ReplicaSet; `prepare` makes them differ. Who is left?"""
    replica_set(world, replicas=2)
    await world.pass_time()
    first, second = (pod["metadata"]["name"] for pod in world.pods())
    await prepare(world, first, second)
    world.patch(REPLICA_SETS, "web", {"spec": {"replicas": 1}})
    await world.pass_time()
    (left,) = world.pods()
    return "first" if left["metadata"]["name"] == first else "second"


def bind(world, name, node, **metadata):
    world.bind(world.get(PODS, name), node, **metadata)


def never_ready(world, name):
    world.patch(PODS, name, {"metadata": {"annotations": {NEVER_READY: "true"}}})


async def bound_before(world, kept, other, pause):
    bind(world, kept, "n1")
    await world.pass_time(pause)
    bind(world, other, "n2")
    await world.pass_time(1.0)


async def unassigned(world, kept, other):
    bind(world, kept, "n1")


async def pending(world, kept, other):
    await bound_before(world, kept, other, 2.5)


async def pending_beside_unready(world, kept, other):
    never_ready(world, kept)
    await bound_before(world, kept, other, 2.5)


async def unready_beside_cheap(world, kept, other):
    never_ready(world, other)
    bind(world, kept, "n1", annotations={DELETION_COST: "-100"})
    bind(world, other, "n2")
    await world.pass_time(3.0)


async def cheap(world, kept, other):
    bind(world, kept, "n1", annotations={DELETION_COST: "0"})
    bind(world, other, "n2", annotations={DELETION_COST: "-100"})
    await world.pass_time(3.0)


async def ready_later(world, kept, other):
    await bound_before(world, kept, other, 60.0)
    await world.pass_time(2.0)


@pytest.mark.parametrize("kept", ["first", "second"])
@pytest.mark.parametrize(
    "prepare",
    [unassigned, pending, pending_beside_unready, unready_beside_cheap, cheap, ready_later],
)
async def test_a_scale_down_deletes_in_the_order_of_kubernetes(prepare, kept):
    async def prepared(world, first, second):
        await prepare(world, *((first, second) if kept == "first" else (second, first)))

    async with emulated(start_delay=2.0) as world:
        assert await scaled_to_one(world, prepared) == kept


def ready_pod(uid, since, restarts):
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(since)}
    containers = [{"restartCount": restarts}]
    status = {"phase": "Running", "conditions": [ready], "containerStatuses": containers}
    metadata = {"uid": uid, "creationTimestamp": rfc3339(0.0)}
    return {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": status}


@pytest.mark.parametrize(("since", "first"), [(700.0, "b"), (701.0, "a"), (900.0, "a")])
def test_the_uid_decides_between_pods_that_are_ready_for_about_as_long(since, first):
    """Restarts count only between pods that became Ready in the same second."""
    pods = [ready_pod("a", since, restarts=0), ready_pod("b", 700.0, restarts=1)]
    assert deletion_order(pods, {"n1": 2}, 1000.0)[0]["metadata"]["uid"] == first


@pytest.mark.parametrize("alone", [0, 1, 2])
async def test_the_node_with_more_pods_of_the_workload_gives_one_up(alone):
    async with emulated() as world:
        replica_set(world, replicas=3)
        await world.pass_time()
        nodes = ["n1" if index == alone else "n2" for index in range(3)]
        for pod, node in zip(world.pods(), nodes, strict=True):
            world.bind(pod, node)
        await world.pass_time()
        world.patch(REPLICA_SETS, "web", {"spec": {"replicas": 2}})
        await world.pass_time()
        assert sorted(pod["spec"]["nodeName"] for pod in world.pods()) == ["n1", "n2"]


async def test_a_quota_refusal_is_reported_and_tried_again():
    async with emulated() as world:
        world.create(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "1"}})
        world.pod("other")
        replica_set(world, replicas=1)
        await world.pass_time()
        refused = world.get(REPLICA_SETS, "web")
        assert condition(refused, "ReplicaFailure") == ("True", "FailedCreate")
        (failure,) = refused["status"]["conditions"]
        assert (
            "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
            in (failure["message"])
        )
        revision = world.api.store.revision
        await world.pass_time(30.0)
        assert world.writes_since(revision) == []
        (event,) = world.api.list(EVENTS, NS, fields="involvedObject.name=web")
        assert (event["type"], event["reason"], event["count"]) == ("Warning", "FailedCreate", 1)
        assert "exceeded quota: q" in event["message"]
        await world.pass_time(60.0)
        assert world.api.get(EVENTS, NS, event["metadata"]["name"])["count"] == 2
        world.api.delete(PODS, NS, "other")
        await world.pass_time(11.0)
        assert len(world.pods("web")) == 1
        assert "conditions" not in world.get(REPLICA_SETS, "web")["status"]
