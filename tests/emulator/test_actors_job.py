"""Jobs: their pods come, run for a while, and succeed; or the Job gives up."""

import pytest

from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import CRON_JOBS, JOBS, PODS
from support.actor_world import NS, condition, emulated, pod_spec


def job_spec(name="load", cpu="1", command=(), **spec):
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(cpu)}
    template["spec"]["restartPolicy"] = "Never"
    template["spec"]["containers"][0]["command"] = list(command)
    return {"template": template, **spec}


def job(world, name="load", **spec):
    return world.create(JOBS, name, spec=job_spec(name, **spec))


def cron_job(world, schedule="* * * * *", command=("sleep", "5"), parallelism=1, **spec):
    template = {"spec": job_spec(command=command, parallelism=parallelism)}
    spec = {"schedule": schedule, "jobTemplate": template, **spec}
    return world.create(CRON_JOBS, "cron", spec=spec)


def minutes(world):
    """The minutes for which there are Jobs."""
    names = (each["metadata"]["name"] for each in world.api.list(JOBS, NS))
    return [int(name.removeprefix("cron-")) % 60 for name in names]


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


async def test_a_pod_that_sleeps_runs_as_long():
    async with emulated(job_duration=2.0) as world:
        world.schedule_always()
        job(world, command=("sleep", "30"))
        await world.pass_time(29.0)
        assert phases(world) == ["Running"]
        await world.pass_time(2.0)
        assert phases(world) == ["Succeeded"]


async def test_a_pod_becomes_ready_after_the_initial_delays_of_its_probes():
    async with emulated() as world:
        world.schedule_always()
        spec = pod_spec("1")
        spec["containers"][0] |= {
            "startupProbe": {"initialDelaySeconds": 20, "exec": {"command": ["true"]}},
            "readinessProbe": {"initialDelaySeconds": 10, "exec": {"command": ["true"]}},
        }
        world.create(PODS, "slow", labels={"app": "load"}, spec=spec)
        await world.pass_time(29.0)
        [pod] = world.pods("load")
        assert (pod["status"]["phase"], condition(pod, "Ready")[0]) == ("Running", "False")
        await world.pass_time(2.0)
        assert condition(world.pods("load")[0], "Ready")[0] == "True"


async def test_a_cron_job_starts_a_job_every_few_minutes():
    async with emulated() as world:
        world.schedule_always()
        cron_job(world, "*/2 * * * *", parallelism=2)
        await world.pass_time(121.0)
        assert (minutes(world), phases(world)) == ([2], ["Running", "Running"])
        found = world.get(CRON_JOBS, "cron")
        assert found["status"]["lastScheduleTime"] == "2026-01-01T00:02:00Z"
        [active] = found["status"]["active"]
        assert world.get(JOBS, active["name"])["metadata"]["uid"] == active["uid"]
        await world.pass_time(60.0)
        assert "active" not in world.get(CRON_JOBS, "cron")["status"]
        # Three finished Jobs are kept.
        await world.pass_time(480.0)
        assert minutes(world) == [6, 8, 10]


@pytest.mark.parametrize(
    ("policy", "there"), [("Allow", [1, 2]), ("Forbid", [1]), ("Replace", [2])]
)
async def test_a_late_job_is_next_to_the_following_one_or_instead(policy, there):
    async with emulated() as world:
        world.schedule_always()
        cron_job(world, command=("sleep", "90"), concurrencyPolicy=policy)
        await world.pass_time(125.0)
        assert minutes(world) == there


async def test_a_schedule_that_is_not_emulated_is_refused():
    async with emulated() as world:
        with pytest.raises(ApiError, match="an emulated CronJob runs every N minutes"):
            cron_job(world, "0 3 * * *")
        cron_job(world, suspend=True)
        await world.pass_time(130.0)
        assert minutes(world) == []
