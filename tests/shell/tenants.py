"""A tenant that misbehaves in a namespace of its own, and a neighbour who must not notice.

The neighbour's workload `web` runs in the cloud until the edge opens; then it must be moved there,
and its new pods must be bound, in the usual time.
"""

import asyncio
import json

import attrs

from kubedsm.configuration.settings import load
from kubedsm.emulator.api.resources import (
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from kubedsm.emulator.front import RequestFault
from kubedsm.emulator.paper import node

#: before `default`, so that its pods come first wherever they are gone through
TENANT = "a-tenant"
MERGE = "application/merge-patch+json"
LABEL, ANNOTATION = "kubedsm.io/migrating", "kubedsm.io/migration"
CONFIGURATION = load(
    "suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 1s, deadline: 10s}", "test"
)
CLOUD = node("c1", "cloud", "900", "900Gi", pods=900)
#: room for the neighbour, and a little more
EDGE = node("e1", "edge", "4", "8Gi")
#: seconds that a pod of the neighbour's waits for its node, and that a move of it takes, at most
BOUND, MOVED = 1, 12


class Asked:
    """Counts the requests about the tenant, and may answer some of them itself."""

    def __init__(self, answer=None):
        self.of_tenant = []
        self._answer = answer or (lambda _request: None)

    def on_request(self, request):
        if f"/namespaces/{TENANT}/" in request.path:
            self.of_tenant.append(request)
        answer = self._answer(request)
        return None if answer is None else RequestFault(answer)

    def on_line(self, request, line):
        return None

    def to(self, ending, method="POST"):
        return [r for r in self.of_tenant if r.method == method and r.path.endswith(f"/{ending}")]


def pod(name, scheduler="kubedsm", **metadata):
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "10m"}}}
    return {
        "metadata": {"name": name, "namespace": TENANT, **metadata},
        "spec": {
            "schedulerName": scheduler,
            "nodeName": "c1",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }


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

    @classmethod
    def of(cls, world):
        world.api.create(NAMESPACES, {"metadata": {"name": TENANT}})
        return cls(world)

    def create(self, resource, obj):
        return self.world.api.create(resource, obj, namespace=TENANT)

    def delete(self, resource, name):
        return self.world.api.delete(resource, TENANT, name).object

    def forbid_disruption(self):
        """No pod of the tenant's may be evicted."""
        spec = {"maxUnavailable": 0, "selector": {"matchExpressions": [exists("a")]}}
        self.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "never"}, "spec": spec})

    def deploy(self, name, replicas=2, labels=None, expressions=()):
        labels = {"app": name, **(labels or {})}
        template = pod("x", labels=labels)
        del template["spec"]["nodeName"]
        return self.create(
            DEPLOYMENTS,
            {
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels, "matchExpressions": list(expressions)},
                    "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
                },
            },
        )

    def pods(self):
        return self.world.api.list(PODS, TENANT)

    def events(self, reason):
        return [e for e in self.world.api.list(EVENTS, TENANT) if e["reason"] == reason]


def exists(key, operator="Exists", *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


async def neighbour_settles(world):
    world.deploy("web", 2)
    await world.until_bound_of("web", 2, 3)
    await asyncio.sleep(2)


async def neighbour_is_served(world):
    """Its move is made, and a pod that comes meanwhile is bound, as if nobody else were there."""
    world.api.create(NODES, EDGE)
    await asyncio.sleep(2)
    world.deploy("late", 1)
    await world.until_bound_of("late", 1, BOUND)
    await world.until(lambda: world.placed("web") == {"e1": 2}, 2 * MOVED)
