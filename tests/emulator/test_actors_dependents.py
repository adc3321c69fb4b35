"""What follows other objects: budgets, Endpoints, Events of controllers, and garbage."""

import pytest

from kubedsm_lab.emulator.actors.kubelet import NEVER_READY
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import (
    CONFIGMAPS,
    CRON_JOBS,
    DEPLOYMENTS,
    ENDPOINTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
)
from support.actor_world import NS, condition, emulated, labelled_workload, template


def budget(world, name="web", app="web", **spec):
    spec = {"selector": {"matchLabels": {"app": app}}, **spec}
    world.create(POD_DISRUPTION_BUDGETS, name, spec=spec)


def status(world, name="web"):
    found = world.get(POD_DISRUPTION_BUDGETS, name)["status"]
    return (
        found["expectedPods"],
        found["desiredHealthy"],
        found["currentHealthy"],
        found["disruptionsAllowed"],
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"maxUnavailable": 1}, (4, 3, 4, 1)),
        ({"maxUnavailable": "30%"}, (4, 2, 4, 2)),
        ({"maxUnavailable": 9}, (4, 0, 4, 4)),
        ({"minAvailable": 3}, (4, 3, 4, 1)),
        ({"minAvailable": "60%"}, (4, 3, 4, 1)),
        ({"minAvailable": 9}, (4, 9, 4, 0)),
        ({}, (0, 0, 4, 0)),
    ],
)
async def test_what_a_budget_allows(spec, expected):
    async with emulated() as world:
        await world.bring_up(4)
        budget(world, **spec)
        await world.pass_time()
        assert status(world) == expected
        found = world.get(POD_DISRUPTION_BUDGETS, "web")
        assert found["status"]["observedGeneration"] == 1
        verdict = ("True", "SufficientPods") if expected[3] else ("False", "InsufficientPods")
        assert condition(found, "DisruptionAllowed") == verdict


async def test_tenants_are_warned_of_pods_without_a_controller():
    async with emulated() as world:
        await world.bring_up(2)
        budget(world, maxUnavailable=1)
        await world.pass_time(1.0)
        assert world.api.list(EVENTS, NS) == []
        world.pod("alone", labels={"app": "web"})
        await world.pass_time(1.0)
        (event,) = world.api.list(EVENTS, NS)
        assert (event["reason"], event["involvedObject"]["kind"]) == (
            "UnmanagedPods", "PodDisruptionBudget"
        )  # fmt: skip
        assert status(world) == (2, 1, 3, 2)


def service(world, name="web", target_port="http", **spec):
    ports = [{"name": "http", "port": 80, "targetPort": target_port}]
    spec = {"selector": {"app": name}, "ports": ports, **spec}
    world.create(SERVICES, name, labels={"team": "a"}, spec=spec)


async def test_ready_and_not_ready_addresses():
    async with emulated() as world:
        service(world)
        ready = world.pod("ready", on="n1", labels={"app": "web"})
        world.pod("slow", on="n2", labels={"app": "web"}, annotations={NEVER_READY: "true"})
        world.pod("other", on="n2", labels={"app": "other"})
        await world.pass_time()
        endpoints = world.get(ENDPOINTS, "web")
        (subset,) = endpoints["subsets"]
        (address,) = subset["addresses"]
        assert address == {
            "ip": world.get(PODS, "ready")["status"]["podIP"],
            "nodeName": "n1",
            "targetRef": {
                "kind": "Pod",
                "namespace": NS,
                "name": "ready",
                "uid": ready["metadata"]["uid"],
            },
        }
        assert [a["targetRef"]["name"] for a in subset["notReadyAddresses"]] == ["slow"]
        assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        assert endpoints["metadata"]["labels"]["team"] == "a"


async def test_a_terminating_pod_is_no_endpoint():
    async with emulated(stop_delay=5.0) as world:
        service(world, target_port=9000)
        world.pod("p", on="n1", labels={"app": "web"})
        await world.pass_time()
        assert world.get(ENDPOINTS, "web")["subsets"][0]["ports"][0]["port"] == 9000
        world.api.delete(PODS, NS, "p", grace_seconds=30)
        await world.pass_time()
        assert "subsets" not in world.get(ENDPOINTS, "web")


async def test_a_detached_pod_is_still_served():
    async with emulated() as world:
        service(world)
        await world.bring_up(2)
        name = world.pods("web")[0]["metadata"]["name"]
        world.patch(PODS, name, {"metadata": {"labels": {"pod-template-hash": None}}})
        await world.pass_time(1.0)
        (subset,) = world.get(ENDPOINTS, "web")["subsets"]
        assert len(subset["addresses"]) == 3


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
