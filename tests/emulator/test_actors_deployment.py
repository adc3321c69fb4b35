import pytest

from kubedsm_lab.emulator.actors.rollout import (
    Share,
    new_size,
    old_sizes,
    proportional_sizes,
    template_hash,
)
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from support.actor_world import NS, condition, emulated, owner_of, template

pytestmark = pytest.mark.looptime
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


async def test_a_replica_set_for_the_template():
    async with emulated() as world:
        deployment = world.deployment("web", replicas=1)
        await world.pass_time()
        (rs,) = world.replica_sets("web")
        suffix = rs["metadata"]["labels"]["pod-template-hash"]
        assert rs["metadata"]["name"] == f"web-{suffix}"
        assert rs["metadata"]["annotations"] == {
            "deployment.kubernetes.io/desired-replicas": "1",
            "deployment.kubernetes.io/max-replicas": "2",
            REVISION: "1",
        }
        assert rs["spec"]["selector"] == {
            "matchLabels": {"app": "web", "pod-template-hash": suffix}
        }
        assert owner_of(rs) == "web"
        (pod,) = world.pods("web")
        assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": suffix}
        stored = world.get(DEPLOYMENTS, "web")
        assert stored["metadata"]["annotations"] == {REVISION: "1"}
        assert stored["metadata"]["generation"] == deployment["metadata"]["generation"] == 1


def test_the_hash_is_stable_and_made_of_safe_letters():
    one = template_hash({"a": 1, "b": [2]})
    assert one == template_hash({"b": [2], "a": 1})
    assert one != template_hash({"a": 1, "b": [3]})
    assert one != template_hash({"a": 1, "b": [2]}, 1)
    assert set(one) <= set("bcdfghjklmnpqrstvwxz2456789")


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


async def test_scaling_up_is_no_rollout():
    async with emulated() as world:
        world.deployment("web")
        await world.pass_time()
        world.bind_all()
        await world.pass_time()
        world.scale("web", 4)
        await world.pass_time()
        scaled = world.get(DEPLOYMENTS, "web")
        assert len(world.pods("web")) == 4
        assert condition(scaled, "Progressing") == ("True", "NewReplicaSetAvailable")
        assert condition(scaled, "Available") == ("False", "MinimumReplicasUnavailable")
        assert scaled["status"]["observedGeneration"] == 2
        world.scale("web", 1)
        await world.pass_time()
        assert len(world.running("web")) == len(world.pods("web")) == 1


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


async def test_the_old_pod_stays_until_the_new_one_is_available():
    async with emulated() as world:
        world.deployment("web", replicas=1)
        await world.pass_time()
        new_template(world, "web", "2")
        await world.pass_time()
        assert sizes(world, "web") == {1: 1, 2: 1}
        (new,) = [p for p in world.pods("web") if p["metadata"].get("annotations")]
        world.bind(new, "n1")
        await world.pass_time()
        assert sizes(world, "web") == {1: 0, 2: 1}
        assert world.names(PODS) == [new["metadata"]["name"]]


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


async def test_an_old_template_becomes_current_again_under_a_new_revision():
    async with emulated() as world:
        world.schedule_always()
        world.deployment("web", replicas=1)
        await world.pass_time(1.0)
        (first,) = world.names(REPLICA_SETS)
        new_template(world, "web", "2")
        await world.pass_time(2.0)
        new_template(world, "web", None)
        await world.pass_time(2.0)
        assert sizes(world, "web") == {2: 0, 3: 1}
        assert owner_of(world.pods("web")[0]) == first
        assert world.get(DEPLOYMENTS, "web")["metadata"]["annotations"] == {REVISION: "3"}


async def test_a_paused_deployment_scales_but_does_not_roll():
    async with emulated() as world:
        world.schedule_always()
        world.deployment("web", replicas=2)
        await world.pass_time(1.0)
        world.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}})
        new_template(world, "web", "2")
        world.scale("web", 3)
        await world.pass_time(1.0)
        assert sizes(world, "web") == {1: 3}
        paused = world.get(DEPLOYMENTS, "web")
        assert condition(paused, "Progressing") == ("Unknown", "DeploymentPaused")
        world.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})
        await world.pass_time(3.0)
        assert sizes(world, "web") == {1: 0, 2: 3}
        resumed = world.get(DEPLOYMENTS, "web")
        assert condition(resumed, "Progressing") == ("True", "NewReplicaSetAvailable")


async def test_a_rollout_without_progress_times_out():
    async with emulated() as world:
        world.deployment("web", progressDeadlineSeconds=30)
        await world.pass_time(29.0)
        assert condition(world.get(DEPLOYMENTS, "web"), "Progressing")[0] == "True"
        await world.pass_time(4.0)
        stuck = world.get(DEPLOYMENTS, "web")
        assert condition(stuck, "Progressing") == ("False", "ProgressDeadlineExceeded")


async def test_only_so_many_old_replica_sets_are_kept():
    async with emulated() as world:
        world.schedule_always()
        world.deployment("web", replicas=1, revisionHistoryLimit=2)
        for value in range(5):
            await world.pass_time(2.0)
            new_template(world, "web", str(value))
        await world.pass_time(2.0)
        assert sizes(world, "web") == {4: 0, 5: 0, 6: 1}


async def test_a_name_that_is_taken_leads_to_another_hash():
    async with emulated() as world:
        world.deployment("web", replicas=1)
        await world.pass_time()
        (taken,) = world.names(REPLICA_SETS)
        world.api.delete(DEPLOYMENTS, NS, "web", propagation="Background")
        await world.pass_time()
        labels = {"app": "foreign"}
        foreign = {
            "metadata": {"name": taken, "labels": labels},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": template("foreign"),
            },
        }
        world.api.create(REPLICA_SETS, foreign, namespace=NS)
        world.deployment("web", replicas=1)
        await world.pass_time()
        assert world.get(DEPLOYMENTS, "web")["status"]["collisionCount"] == 1
        (new,) = world.replica_sets("web")
        assert new["metadata"]["name"] != taken
        assert len(world.pods("web")) == 1


async def test_orphans_are_left_and_adopted_by_a_deployment_of_the_same_selector():
    async with emulated() as world:
        world.deployment("web", replicas=1)
        await world.pass_time()
        (pod,) = world.names(PODS)
        world.api.delete(DEPLOYMENTS, NS, "web", propagation="Orphan")
        await world.pass_time()
        assert world.names(DEPLOYMENTS) == []
        assert owner_of(world.replica_sets("web")[0]) == ""
        world.deployment("web", replicas=1)
        await world.pass_time()
        assert world.names(PODS) == [pod]
        assert owner_of(world.replica_sets("web")[0]) == "web"


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


async def test_a_replica_set_that_is_refused_is_reported():
    async with emulated() as world:
        name = "x" * 250
        world.deployment(name[:63])
        body = world.get(DEPLOYMENTS, name[:63])
        spec = {**body["spec"]}
        world.api.create(DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec}, namespace=NS)
        await world.pass_time(5.0)
        refused = world.get(DEPLOYMENTS, name)
        assert condition(refused, "Progressing") == ("False", "ReplicaSetCreateError")
        revision = world.api.store.revision
        await world.pass_time(60.0)
        assert world.writes_since(revision) == []


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


@pytest.mark.parametrize(
    ("deployment", "new", "old", "expected"),
    [
        (rolling(10, 3, 2), 0, 10, 3),
        (rolling(10, "25%", "25%"), 0, 10, 3),
        (rolling(10, 3, 2), 3, 5, 8),
        (rolling(10, 3, 2), 3, 12, 3),
        (rolling(10, 3, 2), 12, 0, 10),
    ],
)
def test_how_far_the_new_replica_set_grows(deployment, new, old, expected):
    fresh = sized("new", new)
    assert new_size(deployment, fresh, [fresh, sized("old", old)]) == expected


async def test_a_replica_set_on_its_way_out_is_not_adopted():
    async with emulated() as world:
        labels = {"app": "web", "by": "hand"}
        body = {
            "metadata": {"name": "going", "labels": labels, "finalizers": ["example.com/hold"]},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {**template("web"), "metadata": {"labels": labels}},
            },
        }
        world.api.create(REPLICA_SETS, body, namespace=NS)
        world.api.delete(REPLICA_SETS, NS, "going")
        world.deployment("web")
        await world.pass_time()
        assert owner_of(world.get(REPLICA_SETS, "going")) == ""
