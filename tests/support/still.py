"""Workload without controllers, on which a migration's requests can be examined."""

import random

import orjson

from kubedsm.execution.migration_calls import MigrationCalls
from kubedsm.kube.calls import reads
from kubedsm.kube.wire.annotations import MOVE_ANNOTATION
from kubedsm.kube.wire.decoding import pod as read
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.http.routes import Routes
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.handles import handle_of

MERGE = "application/merge-patch+json"
CONTAINER = {"name": "c", "image": "pause"}
LABELS = {"app": "web", "pod-template-hash": "h1"}


class Still:
    """Workload of three Ready pods on node c1, which only the test changes."""

    def __init__(self, kind="Deployment"):
        self.clock = VirtualClock()
        self.api = ApiServer(self.clock, random.Random(0))
        self.front = EmulatedFront(Routes(self.api), self.clock)
        spec = {
            "replicas": 3,
            "minReadySeconds": 7,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}},
        }
        if kind == "StatefulSet":
            owner = self.create(STATEFUL_SETS, "web", spec={**spec, "serviceName": "web"})
            self.top = (STATEFUL_SETS, "web")
        else:
            above = self.create(DEPLOYMENTS, "web", spec=spec)
            self.top = (DEPLOYMENTS, "web")
            owner = self.create(
                REPLICA_SETS, "web-h1", spec=spec, ownerReferences=[_reference(kind, above)]
            )
            kind = "ReplicaSet"
        self.owner = _reference(kind, owner)
        self.status(self.top, observedGeneration=1, replicas=3, updatedReplicas=3)
        self.pod, *self.others = [self.new_pod(f"web-{n}") for n in range(3)]

    def create(self, resource, name, *, spec, labels=None, **metadata):
        thing = {
            "metadata": {"name": name, "namespace": "default", "labels": labels or {}, **metadata},
            "spec": spec,
        }
        return self.api.create(resource, thing, namespace="default")

    def new_pod(self, name):
        spec = {"containers": [CONTAINER], "nodeName": "c1", "terminationGracePeriodSeconds": 45}
        self.create(PODS, name, spec=spec, labels=LABELS, ownerReferences=[self.owner])
        self.ready("True", name)
        return name

    def ready(self, status, name):
        self.status((PODS, name), conditions=[{"type": "Ready", "status": status}])

    def status(self, of, **status):
        resource, name = of
        patch = {"status": status}
        self.api.patch(resource, "default", name, patch, MERGE, subresource="status")

    def patch(self, of, patch):
        resource, name = of
        self.api.patch(resource, "default", name, patch, MERGE)

    def remove(self, of):
        resource, name = of
        self.api.delete(resource, "default", name, propagation="Orphan", grace_seconds=0)
        if self.api.exists(resource, "default", name):
            self.patch(of, {"metadata": {"finalizers": None}})

    def budget(self, allowed, name="web"):
        selector = {"matchLabels": {"app": "web"}}
        self.create(POD_DISRUPTION_BUDGETS, name, spec={"maxUnavailable": 1, "selector": selector})
        self.status((POD_DISRUPTION_BUDGETS, name), disruptionsAllowed=allowed)

    def detach(self, name, uid=None):
        owner = {"replicaSet": self.owner["name"], "uid": uid or self.owner["uid"]}
        note = owner | {"plan": "p", "target": "e1", "since": "1"}
        metadata = {
            "labels": {"pod-template-hash": None, "kubedsm.io/migrating": "h1"},
            "annotations": {MOVE_ANNOTATION: orjson.dumps(note).decode()},
            "ownerReferences": None,
        }
        self.patch((PODS, name), {"metadata": metadata})

    def leaves(self, name):
        self.patch((PODS, name), {"metadata": {"finalizers": ["example.com/stay"]}})
        self.api.delete(PODS, "default", name, grace_seconds=30)

    def known(self):
        """Return the pod as the mirror stores it."""
        return read(orjson.dumps(self.api.get(PODS, "default", self.pod)))

    @property
    def step_calls(self):
        return MigrationCalls(handle_of(self.clock, cluster=self.front))

    async def check(self, mode):
        return await self.step_calls.check(self.known(), mode)

    async def read_owner(self):
        found = await reads.read_pod(self.front, self.known())
        return await reads.read_owner(self.front, found)


def _reference(kind, owner):
    metadata = owner["metadata"]
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
