import pytest

from kubedsm_lab.emulator.actors.rollout import Share, old_sizes, proportional_sizes
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS
from support.actor_world import condition, emulated

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
