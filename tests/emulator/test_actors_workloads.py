"""ReplicaSets, Deployments and StatefulSets: their pods, rollouts, and order of deletion."""

import pytest

from kubedsm_lab.emulator.actors.kubelet import NEVER_READY
from kubedsm_lab.emulator.actors.replica_set import DELETION_COST, deletion_order
from kubedsm_lab.emulator.actors.rollout import Share, old_sizes, proportional_sizes
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    EVENTS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
)
from kubedsm_lab.emulator.api.values import rfc3339
from support.actor_world import NS, condition, emulated, labelled_workload, owner_of, template


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


@pytest.mark.parametrize("cheap", [0, 1])
async def test_a_scale_down_deletes_the_pod_of_the_lower_deletion_cost(cheap):
    async with emulated() as world:
        replica_set(world, replicas=2)
        await world.pass_time()
        names = [pod["metadata"]["name"] for pod in world.pods()]
        for index, name in enumerate(names):
            cost = {DELETION_COST: "-100" if index == cheap else "0"}
            world.bind(world.get(PODS, name), f"n{index + 1}", annotations=cost)
        await world.pass_time(3.0)
        world.patch(REPLICA_SETS, "web", {"spec": {"replicas": 1}})
        await world.pass_time()
        assert world.names(PODS) == [names[1 - cheap]]


def ranked(uid, node="n1", phase="Running", ready=700.0, cost="0", restarts=0, created=100.0):
    """A pod that is Ready since then; None: not Ready."""
    condition = {"type": "Ready", "status": str(ready is not None)}
    condition["lastTransitionTime"] = rfc3339(ready or 0.0)
    return {
        "metadata": {
            "uid": uid,
            "creationTimestamp": rfc3339(created),
            "annotations": {DELETION_COST: cost},
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "conditions": [condition],
            "containerStatuses": [{"restartCount": restarts}],
        },
    }


#: fields of the pod that goes first, and of the one that stays: each has what the next rules mind
RANKS = {
    "unassigned": ({"node": "", "phase": "Pending", "ready": None}, {"phase": "Pending"}),
    "pending": ({"phase": "Pending", "ready": None}, {"phase": "Unknown", "ready": None}),
    "unknown": ({"phase": "Unknown", "ready": None}, {"ready": None}),
    "not ready": ({"ready": None}, {"cost": "-100"}),
    "lower cost": ({"cost": "-100"}, {"node": "n2"}),
    "no number": ({"cost": "cheap"}, {"cost": "1"}),
    "doubled up": ({"node": "n2"}, {"ready": 900.0}),
    "ready for a shorter time": ({"ready": 900.0}, {"restarts": 1}),
    "more restarts": ({"restarts": 1}, {"created": 600.0}),
    "younger": ({"created": 600.0}, {}),
}


@pytest.mark.parametrize("uids", ["ab", "ba"])
@pytest.mark.parametrize(("first", "last"), RANKS.values(), ids=RANKS)
def test_surplus_pods_go_in_the_order_of_kubernetes(first, last, uids):
    pods = [ranked(uids[0], **first), ranked(uids[1], **last)]
    for given in (pods, pods[::-1]):
        assert deletion_order(given, {"n1": 1, "n2": 2}, 1000.0) == pods


@pytest.mark.parametrize("since", [700.0, 701.0])
def test_the_uid_decides_between_pods_that_are_ready_for_about_as_long(since):
    """Restarts count only between pods that became Ready in the same second."""
    pods = [ranked("a", ready=since), ranked("b", restarts=1)]
    order = deletion_order(pods, {}, 1000.0)
    assert order == (pods if since > 700.0 else pods[::-1])


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


REVISION = "deployment.kubernetes.io/revision"


def new_template(world, name, value):
    world.patch(
        DEPLOYMENTS, name, {"spec": {"template": {"metadata": {"annotations": {"v": value}}}}}
    )


def sizes(world, name):
    """Wanted pods by the revision of their ReplicaSet."""
    return {
        int(rs["metadata"]["annotations"][REVISION]): rs["spec"]["replicas"]
        for rs in world.replica_sets(name)
    }


async def test_conditions_from_creation_to_available():
    async with emulated() as world:
        world.deployment("web")
        await world.pass_time()
        pending = world.get(DEPLOYMENTS, "web")
        assert condition(pending, "Progressing") == ("True", "ReplicaSetUpdated")
        assert condition(pending, "Available") == ("False", "MinimumReplicasUnavailable")
        assert pending["status"]["unavailableReplicas"] == 2
        world.bind_all()
        await world.pass_time()
        ready = world.get(DEPLOYMENTS, "web")
        assert condition(ready, "Progressing") == ("True", "NewReplicaSetAvailable")
        assert condition(ready, "Available") == ("True", "MinimumReplicasAvailable")
        status = {name: value for name, value in ready["status"].items() if name != "conditions"}
        assert status == {
            "observedGeneration": 1,
            "replicas": 2,
            "updatedReplicas": 2,
            "readyReplicas": 2,
            "availableReplicas": 2,
            "terminatingReplicas": 0,
        }


async def test_a_rollout_never_leaves_the_limits_of_its_strategy():
    async with emulated() as world:
        strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        world.deployment("web", replicas=4, strategy=strategy)
        world.schedule_always()
        await world.pass_time(1.0)
        new_template(world, "web", "2")
        seen = []
        for _ in range(100):
            await world.pass_time(0.05)
            active = [p for p in world.pods("web") if "deletionTimestamp" not in p["metadata"]]
            seen.append(len(active))
            ready = [p for p in active if condition(p, "Ready")[0] == "True"]
            assert len(active) <= 5
            assert len(ready) >= 3
        assert max(seen) == 5
        assert sizes(world, "web") == {1: 0, 2: 4}
        assert {p["metadata"]["annotations"]["v"] for p in world.pods("web")} == {"2"}
        assert len(world.running("web")) == 4
        assert world.get(DEPLOYMENTS, "web")["metadata"]["annotations"] == {REVISION: "2"}


async def test_recreate_makes_a_new_pod_only_after_the_last_old_one_is_gone():
    async with emulated(stop_delay=3.0) as world:
        world.deployment("web", replicas=2, strategy={"type": "Recreate"})
        world.patch(
            DEPLOYMENTS,
            "web",
            {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 30}}}},
        )
        world.schedule_always()
        await world.pass_time(1.0)
        new_template(world, "web", "2")
        await world.pass_time(2.5)
        assert all("deletionTimestamp" in p["metadata"] for p in world.pods("web"))
        assert len(world.replica_sets("web")) == 1
        await world.pass_time(2.0)
        assert sizes(world, "web") == {1: 0, 2: 2}
        assert len(world.running("web")) == 2


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (15, {"old": 11, "new": 7}),  # the example of the Kubernetes documentation
        (11, {"old": 9, "new": 5}),
        (10, {"old": 8, "new": 5}),
        (5, {"old": 5, "new": 3}),
        (0, {"old": 0, "new": 0}),
    ],
)
def test_scaling_in_the_middle_of_a_rollout_is_proportional(replicas, expected):
    # 10 replicas and a surge of 3, so that there may be 13.
    shares = [Share("old", 8, "2026-01-01", 13), Share("new", 5, "2026-01-02", 13)]
    assert proportional_sizes(shares, replicas, 3) == expected


def sized(name, replicas, available=0):
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas},
        "status": {"availableReplicas": available},
    }


def rolling(replicas, surge, unavailable):
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
    return {"spec": {"replicas": replicas, "strategy": strategy}}


@pytest.mark.parametrize(
    ("deployment", "new", "old", "expected"),
    [
        (rolling(10, 3, 2), (0, 0), (10, 10), {"old": 8}),
        (rolling(10, 3, 2), (5, 0), (8, 8), {}),
        (rolling(10, 3, 2), (5, 3), (8, 8), {"old": 5}),
        # What is not available goes first, without costing availability.
        (rolling(10, 3, 2), (0, 0), (10, 4), {"old": 8}),
        (rolling(10, 3, 2), (3, 3), (10, 8), {"old": 5}),
        # More is unavailable than may be: nothing more goes.
        (rolling(10, 0, 1), (3, 0), (7, 7), {}),
        (rolling(1, "25%", "25%"), (1, 0), (1, 1), {}),
        (rolling(1, "25%", "25%"), (1, 1), (1, 1), {"old": 0}),
    ],
)
def test_how_far_old_replica_sets_shrink(deployment, new, old, expected):
    assert old_sizes(deployment, sized("new", *new), [sized("old", *old)]) == expected


def stateful_set(world, replicas=3, **spec):
    body = labelled_workload("StatefulSet", "st", replicas, serviceName="st", **spec)
    return world.api.create(STATEFUL_SETS, body, namespace=NS)


async def test_scaling_down_takes_the_highest_ordinal_first_and_one_at_a_time():
    async with emulated(stop_delay=1.0) as world:
        world.schedule_always()
        stateful_set(world)
        await world.pass_time(2.0)
        world.patch(STATEFUL_SETS, "st", {"spec": {"replicas": 1}})
        await world.pass_time(0.5)
        going = [
            p["metadata"]["name"] for p in world.pods() if "deletionTimestamp" in p["metadata"]
        ]
        assert going == ["st-2"]
        await world.pass_time(2.0)
        assert world.names(PODS) == ["st-0"]


async def test_an_unready_pod_holds_up_those_after_it():
    async with emulated() as world:
        world.schedule_always()
        body = template("st")
        body["metadata"]["annotations"] = {NEVER_READY: "true"}
        stateful_set(world, template=body)
        await world.pass_time(10.0)
        assert world.names(PODS) == ["st-0"]
