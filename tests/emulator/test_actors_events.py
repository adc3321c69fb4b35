"""Normal Events of controllers: on a cluster with readers, for an hour."""

import pytest

from kubedsm_lab.emulator.api.resources import CRON_JOBS, EVENTS, JOBS, STATEFUL_SETS
from support.actor_world import NS, emulated, labelled_workload, template

pytestmark = pytest.mark.looptime


def told(world, kind):
    """Return reason and message of the Events about objects of a kind, oldest first."""
    found = world.api.list(EVENTS, NS, fields=f"involvedObject.kind={kind}")
    found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    assert {event["type"] for event in found} <= {"Normal"}
    return [(event["reason"], event["message"]) for event in found]


async def test_controllers_write_their_normal_events_and_they_expire():
    async with emulated(readers=True) as world:
        world.deployment("web", replicas=1)
        await world.pass_time()
        (rs,), (pod,) = world.replica_sets("web"), world.pods("web")
        name = rs["metadata"]["name"]
        assert told(world, "ReplicaSet") == [
            ("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
        ]
        world.scale("web", 0)
        await world.pass_time()
        assert told(world, "ReplicaSet")[1:] == [
            ("SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        ]
        assert told(world, "Deployment") == [
            ("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 1"),
            ("ScalingReplicaSet", f"Scaled down replica set {name} from 1 to 0"),
        ]
        (first, *_) = world.api.list(EVENTS, NS, fields="involvedObject.kind=Deployment")
        assert first["source"] == {"component": "deployment-controller"}
        await world.pass_time(3590.0)
        assert len(told(world, "Deployment")) == 2
        await world.pass_time(20.0)
        assert told(world, "Deployment") == []


async def test_jobs_and_stateful_sets_report_their_pods():
    async with emulated(readers=True, job_duration=1.0) as world:
        world.schedule_always()
        job = {"template": {"spec": {**template("j")["spec"], "restartPolicy": "Never"}}}
        every = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
        world.create(CRON_JOBS, "tick", spec=every)
        db = labelled_workload("StatefulSet", "db", 1, serviceName="db")
        world.api.create(STATEFUL_SETS, db, namespace=NS)
        await world.pass_time(80.0)
        (made,) = world.names(JOBS)
        assert told(world, "CronJob") == [("SuccessfulCreate", f"Created job {made}")]
        assert [reason for reason, _ in told(world, "Job")] == ["SuccessfulCreate", "Completed"]
        world.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 0}})
        await world.pass_time()
        assert told(world, "StatefulSet") == [
            ("SuccessfulCreate", "create Pod db-0 in StatefulSet db successful"),
            ("SuccessfulDelete", "delete Pod db-0 in StatefulSet db successful"),
        ]
