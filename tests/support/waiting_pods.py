"""Pending pod that waits for a change, and changes that may help it."""

import asyncio
from contextlib import asynccontextmanager

import attrs

from kubedsm.config.settings import Configuration
from kubedsm_lab.emulator.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kubedsm_lab.emulator.paper import node
from support.worlds import bare_pod, emulated

HOST = "kubernetes.io/hostname"
STRATEGIC = "application/strategic-merge-patch+json"
#: in virtual seconds: how soon help must be noticed, and how long none is waited for
SOON, LONG = 1.0, 20.0


@attrs.define
class Counting:
    """Policy wrapper that counts decisions and pods, and suggests no migrations."""

    policy: object = attrs.field(factory=lambda: Configuration().policy)
    decisions: int = 0
    pods: int = 0

    def place(self, snapshot, pods, rng, deadline):
        self.decisions += 1
        self.pods += len(pods)
        return self.policy.place(snapshot, pods, rng, deadline)


def zoned(name, zone, cpu="4", tier="edge", **more):
    made = node(name, tier, cpu, "8Gi")
    made["metadata"]["labels"] |= {"zone": zone, **more.pop("labels", {})}
    made["spec"] = {**made.get("spec", {}), **more}
    return made


def term(app, key="zone", **more):
    selector = {"matchLabels": {"app": app}}
    return {"labelSelector": selector, "topologyKey": key, **more}


def near(*terms, kind="podAffinity"):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    return {"affinity": {kind: required}}


def apart(*terms):
    return near(*terms, kind="podAntiAffinity")


def spread(app, skew=1, key="zone"):
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@attrs.define
class Waiting:
    """World with one pending pod, whose reason for waiting is known."""

    world: object
    policy: Counting

    @property
    def bound(self):
        return "nodeName" in self.pod("waiting")["spec"]

    def pod(self, name, namespace="default"):
        return self.world.api.get(PODS, namespace, name)

    def put(self, made, on, namespace="default"):
        """Create a pod of another scheduler, bound to a node."""
        made["spec"]["schedulerName"] = "other"
        self.world.api.create(PODS, made, namespace=namespace)
        target = {"target": {"kind": "Node", "name": on}, "metadata": {}}
        self.world.api.bind(namespace, made["metadata"]["name"], target)

    def remove(self, name):
        self.world.api.delete(PODS, "default", name, grace_seconds=0)

    def patch(self, resource, name, patch, subresource="", namespace=""):
        self.world.patch(resource, name, patch, namespace=namespace, subresource=subresource)

    def label(self, resource, name, namespace="", **labels):
        self.patch(resource, name, {"metadata": {"labels": labels}}, namespace=namespace)

    def resize(self, name, cpu):
        resources = {"requests": {"cpu": cpu}}
        patch = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
        self.world.api.patch(PODS, "default", name, patch, STRATEGIC, subresource="resize")

    def claim(self, mode="ReadWriteOnce", name="data"):
        spec = {"accessModes": [mode], "storageClassName": "fast"}
        self.world.create(PERSISTENT_VOLUME_CLAIMS, name, spec=spec)

    def volume(self, labels=None, name="pv", **spec):
        metadata = {"name": name, "labels": labels or {}}
        self.world.api.create(PERSISTENT_VOLUMES, {"metadata": metadata, "spec": spec})

    def bind_claim(self, name="data", volume="pv"):
        self.patch(PERSISTENT_VOLUME_CLAIMS, name, {"spec": {"volumeName": volume}}, "", "default")
        bound = {"status": {"phase": "Bound"}}
        self.patch(PERSISTENT_VOLUME_CLAIMS, name, bound, "status", "default")

    def csi_claim(self, name, driver="csi.example.com"):
        """Create a PersistentVolumeClaim bound to a volume of a CSI driver."""
        self.volume(name=f"pv-{name}", csi={"driver": driver, "volumeHandle": name})
        self.claim(name=name)
        self.bind_claim(name, f"pv-{name}")


@asynccontextmanager
async def waiting(nodes, prepare, **spec):
    """Run a world in which a pod of the given spec is pending, prepared by `prepare`."""
    policy = Counting()
    async with emulated(*nodes) as world, world.scheduler(policy=policy):
        scene = Waiting(world, policy)
        world.namespace("shop")
        prepare(scene)
        await asyncio.sleep(1)
        world.create_pod("waiting", **spec)
        await asyncio.sleep(LONG)
        assert not scene.bound
        yield scene


def full(scene):
    scene.put(bare_pod("big", "4"), on="e1")


def nothing(_scene):
    """Prepare nothing."""


ONE = (zoned("e1", "x"),)
