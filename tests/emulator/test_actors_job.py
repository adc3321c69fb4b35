"""Jobs: their pods come, run for a while, and succeed; or the Job gives up."""

import pytest

from kubedsm_lab.emulator.api.resources import JOBS, PODS
from support.actor_world import NS, condition, emulated, pod_spec

pytestmark = pytest.mark.looptime


def job(world, name="load", cpu="1", **spec):
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(cpu)}
    template["spec"]["restartPolicy"] = "Never"
    body = {"metadata": {"name": name}, "spec": {"template": template, **spec}}
    return world.api.create(JOBS, body, namespace=NS)


def phases(world):
    return sorted(pod["status"]["phase"] for pod in world.pods("load"))


async def test_its_pod_runs_for_a_while_and_then_it_is_complete():
    async with emulated(job_duration=10.0) as world:
        world.schedule_always()
        made = job(world)
        assert made["spec"]["completions"] == made["spec"]["parallelism"] == 1
        await world.pass_time(5.0)
        (pod,) = world.pods("load")
        assert pod["metadata"]["labels"]["job-name"] == "load"
        assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"
        assert (phases(world), world.get(JOBS, "load")["status"]["ready"]) == (["Running"], 1)
        await world.pass_time(6.0)
        (pod,) = world.pods("load")
        assert condition(pod, "Ready") == ("False", "PodCompleted")
        (state,) = [each["state"] for each in pod["status"]["containerStatuses"]]
        assert state["terminated"]["exitCode"] == 0
        done = world.get(JOBS, "load")
        assert condition(done, "Complete") == ("True", "CompletionsReached")
        assert done["status"]["completionTime"] == "2026-01-01T00:00:10Z"
        assert done["status"]["succeeded"] == 1
        assert "active" not in done["status"]


async def test_so_many_at_once_until_as_many_have_succeeded():
    async with emulated(job_duration=2.0) as world:
        world.schedule_always()
        job(world, completions=3, parallelism=2)
        await world.pass_time(1.0)
        assert phases(world) == ["Running", "Running"]
        await world.pass_time(2.0)
        assert phases(world) == ["Running", "Succeeded", "Succeeded"]
        await world.pass_time(3.0)
        assert condition(world.get(JOBS, "load"), "Complete")[0] == "True"
        assert len(world.pods("load")) == 3


async def test_it_gives_up_after_too_many_failures():
    async with emulated(cpu="1") as world:
        job(world, cpu="2", backoffLimit=1)
        for _ in range(4):
            world.bind_all("load")
            await world.pass_time()
        assert phases(world) == ["Failed", "Failed"]
        failed = world.get(JOBS, "load")
        assert condition(failed, "Failed") == ("True", "BackoffLimitExceeded")
        assert failed["status"]["failed"] == 2


async def test_it_gives_up_at_its_deadline_and_is_forgotten_in_time():
    async with emulated() as world:
        job(world, activeDeadlineSeconds=5, ttlSecondsAfterFinished=5)
        await world.pass_time(6.0)
        assert condition(world.get(JOBS, "load"), "Failed") == ("True", "DeadlineExceeded")
        assert phases(world) == []
        await world.pass_time(6.0)
        assert world.names(JOBS) == []


async def test_a_suspended_one_has_no_pods():
    async with emulated() as world:
        job(world, suspend=True)
        await world.pass_time()
        assert phases(world) == []
        world.patch(JOBS, "load", {"spec": {"suspend": False}})
        await world.pass_time()
        assert phases(world) == ["Pending"]
        world.patch(JOBS, "load", {"spec": {"suspend": True}})
        await world.pass_time()
        assert phases(world) == []
        assert condition(world.get(JOBS, "load"), "Suspended") == ("True", "JobSuspended")


@pytest.mark.parametrize(("propagation", "left"), [("Background", 0), ("", 1)])
async def test_its_pods_go_with_it_if_that_is_asked(propagation, left):
    async with emulated() as world:
        job(world)
        await world.pass_time()
        world.api.delete(JOBS, NS, "load", propagation=propagation)
        await world.pass_time()
        assert world.names(JOBS) == []
        assert len(world.api.list(PODS, NS)) == left
