"""Valuable new pods wait for the edge while migrations of others make capacity, and no longer."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kubedsm.config.settings import Configuration
from kubedsm.explain.pod import explain_pod
from kubedsm.explain.rendering import render_text
from kubedsm.planner.rebalancing_requests import NewPodsRequest
from kubedsm.rebalancing.new_pods import PAUSE, TRIES
from kubedsm_lab.emulator.actors.kubelet import NEVER_READY
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, JOBS, NODES, PODS
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.variants import with_settings
from support.printed import printed
from support.slow_planning import slow_migrations
from support.worlds import CLOUD, emulated

SETTINGS = {
    "suggester.period": "1s",
    "migration.drainDelay": "1s",
    "migration.price": "5s",
    "migration.deadline": "30s",
    "services": "{'*': {qos: 1}, default/lead: {qos: 0}, default/gold: {qos: 1, weight: 5}}",
}
FOUR = node("e1", "edge", "4", "8Gi")


@asynccontextmanager
async def full_edge(**settings):
    """Run a scheduler on an edge that is full of pods without a target."""
    configuration = with_settings(Configuration(), SETTINGS | settings)
    async with emulated(FOUR, CLOUD, configuration=configuration) as there:
        there.deploy("lead", 4)
        async with there.scheduler():
            await there.until(lambda: there.placed("lead")["e1"] == 4, 10)
            await asyncio.sleep(5)
            yield there


def gone_away(world):
    """Return the migrations that ended well, as Events on the replacements and old pods."""
    return {event["involvedObject"]["name"].split("-")[0] for event in world.events("Migrated")}


async def test_they_start_at_the_edge_at_one_migration_each():
    async with full_edge() as world:
        world.deploy("gold", 4)
        await world.until(lambda: world.placed("gold") == {"e1": 4}, 30)
        assert world.placed("lead") == {"c1": 4}
        assert len(world.witness.of("evict")) == 4
        assert gone_away(world) == {"lead"}
        assert len(world.events("WaitingForEdge")) == 4
        await asyncio.sleep(60)
        assert not world.runtime.preemptor.nominations
        assert not world.runtime.migrator.making_room
        before = world.invariants.writes
        await asyncio.sleep(200)
        assert world.invariants.writes == before


async def test_explain_says_what_they_wait_for_and_for_how_long():
    async with full_edge() as world:
        world.deploy("gold", 1)
        await world.until(lambda: world.events("WaitingForEdge"), 5)
        [pod] = world.pods("gold")
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        text = printed(render_text(explain_pod(world.runtime.decisions.facts_of_pod(uid, name)())))
        assert f"default/{name} waits for capacity on e1, freed by migrating default/lead-" in text
        assert "to c1, for at most 60 s. Afterwards it starts in the cloud." in text
        [event] = world.events("WaitingForEdge")
        assert event["message"].startswith("The pod waits for capacity on e1, freed by migrating")
        [move] = [o for e in world.runtime.decisions.record.newest_first() for o in e.moves]
        assert move.move.purpose == f"to free capacity for default/{name}"
        await world.until(lambda: world.placed("gold") == {"e1": 1}, 10)
        assert "waits" not in printed(
            render_text(explain_pod(world.runtime.decisions.facts_of_pod(uid, name)()))
        )


async def test_no_other_pod_takes_the_capacity():
    async with full_edge() as world:
        world.deploy("gold", 1)
        await world.until(lambda: world.witness.of("evict"), 10)
        world.deploy("quick", 2)
        await world.until(lambda: world.placed("gold") == {"e1": 1}, 10)
        assert world.placed("quick")["e1"] == 0


ALWAYS = "[{start: '1970-01-01T00:00:00Z', end: '2999-01-01T00:00:00Z'}]"
NOT_PERMITTED = {
    "batch.migrationWait": "0s",
    "suggester.mode": "suggest",
    "suggester.algorithm": "paper",
    "suggester.maxMoves": "1",
    "migration.budget.clusterPerHour": "0",
    "migration.freezes": ALWAYS,
    "migration.mode": "'off'",
    "migration.price": "1h",
}


@pytest.mark.parametrize("key", NOT_PERMITTED)
async def test_without_permitted_migrations_they_start_in_the_cloud_at_once(key):
    async with full_edge(**{key: NOT_PERMITTED[key]}) as world:
        world.deploy("gold", 4)
        await world.until(lambda: world.placed("gold") == {"c1": 4}, 0.5)
        assert not world.events("WaitingForEdge")


async def test_nor_do_they_wait_while_migrations_are_paused():
    async with full_edge() as world:
        world.runtime.migrator.paused = lambda: True
        world.deploy("gold", 4)
        await world.until(lambda: world.placed("gold") == {"c1": 4}, 0.5)


async def test_pods_that_are_gone_when_the_planner_responds_are_not_waited_for():
    async with full_edge(**{"suggester.maxMoves": "2"}) as world:
        world.api.create(NODES, node("c2", "cloud", "1", "1Gi"))

        def start_elsewhere():
            there = {"kubernetes.io/hostname": "c2"}
            world.create_pod("new", annotations={"kubedsm.io/qos": "0"}, nodeSelector=there)

        def remove_last(answer):
            assert len(answer) > 1
            [awaited, *_] = answer[-1].awaited
            world.api.delete(DEPLOYMENTS, "default", awaited.pod.workload.name)
            asyncio.get_running_loop().call_later(0.5, start_elsewhere)

        planner = slow_migrations(world.runtime, 1.0, meanwhile=remove_last)
        for number in range(3):
            world.deploy(f"gold-{number}", 1)
        await world.until(lambda: planner.asked, 5)
        await world.until(lambda: not world.placed()[None], 40)
        await asyncio.sleep(20)
        assert len(world.witness.of("evict")) == 2
        assert not world.runtime.supervisor.caught


async def test_without_a_response_of_the_planner_they_start_in_the_cloud():
    async with full_edge() as world:
        planner = slow_migrations(world.runtime, silent=100)
        world.deploy("gold", 4)
        await world.until(lambda: world.placed("gold") == {"c1": 4}, 0.5)
        assert any(isinstance(each, NewPodsRequest) for each in planner.asked)


async def test_once_the_suggester_is_off_no_further_migration_is_made_for_them():
    async with full_edge(**{"suggester.maxMoves": "2"}) as world:
        world.deploy("gold", 4)
        await world.until(lambda: world.events("WaitingForEdge"), 5)
        off = f"{{suggester: {{mode: off, maxMoves: 2}}, services: {SETTINGS['services']}}}"
        world.runtime.configuration.replace(off, "test", 0.0)
        await world.until(lambda: world.bound("gold") == 4, 60)
        assert len(world.witness.of("evict")) == 1


async def test_as_many_wait_as_the_budget_helps():
    async with full_edge(**{"migration.budget.workloadPerHour": "2"}) as world:
        world.deploy("gold", 4)
        await world.until(lambda: sum(world.placed("gold")[n] for n in ("e1", "c1")) == 4, 20)
        assert world.placed("gold")["e1"] <= 2
        assert len(world.events("WaitingForEdge")) == world.placed("gold")["e1"]


async def test_pods_of_a_job_and_replacements_start_at_once():
    async with full_edge() as world:
        task = {"name": "t", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "kubedsm", "restartPolicy": "Never", "containers": [task]}
        template = {"metadata": {"labels": {"app": "gold"}}, "spec": spec}
        job = {"metadata": {"name": "gold"}, "spec": {"template": template}}
        world.api.create(JOBS, job, namespace="default")
        await world.until(lambda: world.placed("gold") == {"c1": 1}, 0.5)


@asynccontextmanager
async def serving_in_the_cloud(replicas):
    """Run a scheduler on a full edge, with Ready pods of gold in the cloud."""
    async with full_edge() as world:
        world.runtime.migrator.paused = lambda: True
        world.deploy("gold", replicas)
        await world.until(lambda: world.placed("gold") == {"c1": replicas}, 0.5)
        await asyncio.sleep(3)
        world.runtime.migrator.paused = lambda: False
        yield world


async def test_additional_pods_of_a_serving_workload_start_at_once():
    async with serving_in_the_cloud(1) as world:
        world.patch(DEPLOYMENTS, "gold", {"spec": {"replicas": 4}})
        await asyncio.sleep(0.5)
        assert sum(world.placed("gold").values()) == 4
        assert None not in world.placed("gold")
        assert not world.events("WaitingForEdge")


def spoil(world, change):
    """Let replacements of the lead never become Ready."""
    pod = change.object
    if change.resource is PODS and change.type == "ADDED" and "lead" in pod["metadata"]["name"]:
        patch = {"metadata": {"annotations": {NEVER_READY: "true"}}}
        world.patch(PODS, pod["metadata"]["name"], patch)


async def test_after_a_failed_migration_they_start_in_the_cloud():
    async with full_edge(**{"migration.deadline": "5s"}) as world:
        world.api.store.subscribe(lambda change: spoil(world, change))
        world.deploy("gold", 4)
        await world.until(lambda: world.placed("gold") == {"c1": 4}, 15)
        assert world.placed("lead")["e1"] == 4
        await asyncio.sleep(5)
        assert not world.runtime.preemptor.nominations


async def test_the_wait_is_bounded_however_slow_the_migrations_are():
    async with full_edge(**{"batch.migrationWait": "8s"}) as world:
        world.budget("lead", maxUnavailable=0)
        world.api.store.subscribe(lambda change: spoil(world, change))
        world.deploy("gold", 2)
        await asyncio.sleep(7)
        assert world.placed("gold") == {None: 2}
        await world.until(lambda: world.placed("gold") == {"c1": 2}, 2)


async def test_a_scheduler_that_is_killed_meanwhile_leaves_no_pod_behind():
    configuration = with_settings(Configuration(), SETTINGS)
    async with emulated(FOUR, CLOUD, configuration=configuration) as world:
        async with world.scheduler():
            world.deploy("lead", 4)
            await world.until(lambda: world.placed("lead")["e1"] == 4, 10)
            await asyncio.sleep(5)
            world.deploy("gold", 4)
            await world.until(lambda: world.events("WaitingForEdge"), 5)
            await asyncio.sleep(0.5)
        assert world.placed("gold")[None]
        await asyncio.sleep(3)
        async with world.scheduler(seed=1):
            await world.until(lambda: not world.placed("gold")[None], 65)
            await world.until(lambda: world.placed("gold") == {"e1": 4}, 120)


async def test_pods_that_come_during_the_wait_are_considered_once_and_never_lost():
    async with full_edge() as world:
        with capture_logs() as logs:
            world.deploy("gold", 2)
            await world.until(lambda: world.events("WaitingForEdge"), 5)
            world.scale("gold", 4)
            await world.until(lambda: not world.placed("gold")[None], 20)
        assert world.placed("gold")["e1"] >= 2
        empty = [line for line in logs if line["event"] == "batch" and not line["bound"]]
        assert empty == []


async def test_under_a_steady_load_they_do_not_wait_for_plans_that_others_overtake():
    async with full_edge() as world:
        planner = slow_migrations(world.runtime, 1.0)
        for number in range(12):
            world.deploy(f"new-{number}", 1)
            await asyncio.sleep(0.5)
        overtaken = [each for each in planner.asked if isinstance(each, NewPodsRequest)]
        assert 1 < len(overtaken) <= TRIES
        assert all(pod["spec"].get("nodeName") for pod in world.api.list(PODS))
        await asyncio.sleep(PAUSE)
        world.deploy("gold", 1)
        await world.until(lambda: world.events("WaitingForEdge"), 5)
