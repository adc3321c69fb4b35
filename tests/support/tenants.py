"""Tenants in separate namespaces: a misbehaving one, and a neighbour who must be unaffected.

The neighbour must be served as usual: new pods are bound, and pods in the cloud migrate to new edge
capacity, in the usual time.
"""

import asyncio
import json

import attrs

from kubedsm.config.settings import load
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    EVENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from kubedsm_lab.emulator.front import Faults, RequestFault
from kubedsm_lab.emulator.paper import node, workload
from support.worlds import small_pod

#: before `default`, so that its pods come first wherever they are gone through
TENANT = "a-tenant"
NEIGHBOUR = "others"
LABEL, ANNOTATION = "kubedsm.io/migrating", "kubedsm.io/move"
CONFIGURATION = load(
    "suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 1s, deadline: 10s}", "test"
)
CLOUD = node("c1", "cloud", "900", "900Gi", pods=900)
#: room for what the tenant would have there
EDGE = node("e1", "edge", "4", "8Gi")
#: seconds that a pod of the neighbour's waits for its node, and that a move of it takes, at most,
#: beside a tenant that misbehaves
BOUND, MOVED = 1, 12


def exists(key, operator="Exists", *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


#: tied to the cloud, so that it takes no room that others want at the edge
CLOUD_ONLY = {"nodeSelector": {"kubedsm.io/tier": "cloud"}}
#: nor at the edge that is there already
_NOT_E1 = {"matchExpressions": [exists("kubernetes.io/hostname", "NotIn", "e1")]}
NOT_E1 = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NOT_E1]}
        }
    }
}


class Asked(Faults):
    """Faults that count the requests about the tenant, and may answer some."""

    def __init__(self, answer=None):
        self.of_tenant = []
        self._answer = answer or (lambda _request: None)

    def on_request(self, request):
        if f"/namespaces/{TENANT}/" in request.path:
            self.of_tenant.append(request)
        answer = self._answer(request)
        return None if answer is None else RequestFault(answer)

    def to(self, ending):
        return [r for r in self.of_tenant if r.method == "POST" and r.path.endswith(f"/{ending}")]


def pod(name, scheduler="kubedsm", **metadata):
    spec = small_pod({"cpu": "10m"}, schedulerName=scheduler, nodeName="c1")
    return {"metadata": {"name": name, "namespace": TENANT, **metadata}, "spec": spec}


def marked(name, replica_set="web-x", uid="nobody", scheduler="kubedsm", **labels):
    mark = {"plan": "p", "replicaSet": replica_set, "uid": uid, "target": "e1", "since": "1"}
    return pod(
        name,
        scheduler,
        labels={"a": "b", LABEL: "x", **labels},
        annotations={ANNOTATION: json.dumps(mark)},
    )


@attrs.frozen
class Tenant:
    world: object
    namespace: str

    @classmethod
    def of(cls, world, namespace=TENANT):
        world.namespace(namespace)
        return cls(world, namespace)

    def create(self, resource, obj):
        return self.world.api.create(resource, obj, namespace=self.namespace)

    def delete(self, resource, name):
        return self.world.api.delete(resource, self.namespace, name)

    def forbid_disruption(self):
        """Create a disruption budget that forbids all evictions of the tenant's pods."""
        spec = {"maxUnavailable": 0, "selector": {"matchExpressions": [exists("a")]}}
        self.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "never"}, "spec": spec})

    def deploy(self, name, replicas=2, labels=None, expressions=(), cpu="10m", **spec):
        given = workload(name, replicas, small_pod({"cpu": cpu}, **spec), labels=labels)
        given["spec"]["selector"]["matchExpressions"] = list(expressions)
        return self.create(DEPLOYMENTS, given)

    def pods(self, app=None):
        return self.world.api.list(PODS, self.namespace, labels=f"app={app}" if app else "")

    def bound(self, app):
        found = self.pods(app)
        return bool(found) and all("nodeName" in pod["spec"] for pod in found)

    def events(self, reason):
        found = self.world.api.list(EVENTS, self.namespace)
        return [event for event in found if event["reason"] == reason]


def _told(pod):
    """Return the reason of a pod's PodScheduled condition."""
    conditions = pod["status"].get("conditions", ())
    return next((c.get("reason") for c in conditions if c["type"] == "PodScheduled"), None)


async def served(world, seconds=5):
    """Check that a feasible pod is bound in time, and an infeasible one gets its reason."""
    neighbour = Tenant.of(world, NEIGHBOUR)
    neighbour.deploy("small", 1, **CLOUD_ONLY)
    neighbour.deploy("huge", 1, cpu="5000", **CLOUD_ONLY)
    await world.until(lambda: neighbour.bound("small"), seconds)
    await world.until(
        lambda: [_told(pod) for pod in neighbour.pods("huge")] == ["Unschedulable"], seconds
    )
    [pod] = neighbour.pods("small")

    def said():
        about = (e.get("regarding") or e["involvedObject"] for e in neighbour.events("Scheduled"))
        return pod["metadata"]["uid"] in {it["uid"] for it in about}

    await world.until(said, seconds)


async def moved(world, seconds=30):
    """Check that the neighbour's pods migrate to new edge capacity in time."""
    await neighbour_settles(world)
    await _follow_to_an_edge(world, seconds)


async def neighbour_settles(world):
    """Deploy the neighbour's pods and wait until they run in the cloud."""
    neighbour = Tenant.of(world, NEIGHBOUR)
    neighbour.deploy("mover", 2, cpu="5m", **NOT_E1)
    await world.until(lambda: neighbour.bound("mover"), 5)
    await asyncio.sleep(2)


async def _follow_to_an_edge(world, seconds):
    """Add an edge node that fits only the neighbour's pods; wait until they run there."""
    neighbour = Tenant.of(world, NEIGHBOUR)
    world.api.create(NODES, node("e9", "edge", "10m", "1Gi"))
    await world.until(
        lambda: [p["spec"].get("nodeName") for p in neighbour.pods("mover")] == ["e9", "e9"],
        seconds,
    )
