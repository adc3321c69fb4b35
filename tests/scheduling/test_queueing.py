"""Which changes have an unschedulable pod tried again, and which do not, in virtual time."""

import asyncio
from contextlib import asynccontextmanager

import attrs
import pytest

from kubedsm.config.settings import Configuration
from kubedsm.kube.client.port import Forbidden
from kubedsm.model.surroundings import CSINode
from kubedsm_lab.emulator.api.resources import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
)
from kubedsm_lab.emulator.front import RequestFault
from kubedsm_lab.emulator.paper import node
from support.faults import Failing
from support.pod_rules import apart, near, spread, term
from support.worlds import bare_pod as pod
from support.worlds import emulated

STRATEGIC = "application/strategic-merge-patch+json"
#: in virtual seconds: how soon help must be noticed, and how long none is waited for
SOON, LONG = 1.0, 20.0
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
ZONE = "topology.kubernetes.io/zone"
DISK = {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "d"}}]}
MOUNTED = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
#: a namespace that the waiting pods of some cases look for
FRIENDLY = {"namespaceSelector": {"matchLabels": {"friendly": "yes"}}}


def zoned(name, zone, cpu="4", tier="edge", **more):
    made = node(name, tier, cpu, "8Gi")
    made["metadata"]["labels"] |= {"zone": zone, **more.pop("labels", {})}
    made["spec"] = {**made.get("spec", {}), **more}
    return made


ONE = (zoned("e1", "x"),)
TWO = (zoned("e1", "x"), zoned("e2", "y"))


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
    scene.put(pod("big", "4"), on="e1")


def nothing(_scene):
    """Prepare nothing."""


def ported(scene):
    scene.put(pod("other", ports=(80,)), on="e1")


def enemies(scene):
    scene.put(pod("enemy"), on="e1")


def friend_elsewhere(scene):
    scene.put(pod("friend"), on="e1", namespace="shop")


def uneven(scene):
    scene.put(pod("w-1", labels={"app": "web"}), on="e1")
    scene.put(pod("full", cpu="4"), on="e2")


def claimed(scene):
    scene.volume()
    scene.claim()


def volume_of_a_zone(scene):
    scene.volume(labels={ZONE: "a"})
    scene.claim()
    scene.bind_claim()


def claim_of_one_pod(scene):
    scene.volume()
    scene.claim("ReadWriteOncePod")
    scene.bind_claim()
    scene.put(pod("owner", **MOUNTED), on="e1")


def mounting(claim):
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}


def csi_node(limit, name="e1"):
    driver = {"name": "csi.example.com", "nodeID": name, "topologyKeys": None}
    spec = {"drivers": [{**driver, "allocatable": {"count": limit}}]}
    return {"metadata": {"name": name}, "spec": spec}


def no_slot(scene):
    """One volume of the driver may be attached to the node, and another pod's is."""
    scene.world.api.create(CSI_NODES, csi_node(1))
    scene.csi_claim("data")
    scene.csi_claim("theirs")
    scene.put(pod("owner", **mounting("theirs")), on="e1")


WEB = {"labels": {"app": "web"}, **spread("web")}

HELP = {
    "room": (ONE, full, {}, lambda s: s.remove("big")),
    "resize of itself": (ONE, full, {"cpu": "500m"}, lambda s: (
        s.resize("big", "3700m"), s.resize("waiting", "300m"))),
    "node grows": (
        ONE, full, {},
        lambda s: s.patch(NODES, "e1", {"status": {"allocatable": {"cpu": "5"}}}, "status"),
    ),
    "new node": (ONE, full, {}, lambda s: s.world.api.create(NODES, zoned("e2", "y"))),
    "port": (ONE, ported, {"ports": (80,)}, lambda s: s.remove("other")),
    "enemy relabelled": (
        ONE, enemies, apart(term("enemy")),
        lambda s: s.label(PODS, "enemy", "default", app="tame"),
    ),
    "friend comes": (ONE, nothing, near(term("friend")), lambda s: s.put(pod("friend"), on="e1")),
    "namespace relabelled": (
        ONE, friend_elsewhere, near(term("friend", **FRIENDLY)),
        lambda s: s.label(NAMESPACES, "shop", friendly="yes"),
    ),
    "friend's zone relabelled": (
        (zoned("e1", "x", cpu="1"), zoned("e2", "y")), lambda s: s.put(pod("friend"), on="e1"),
        near(term("friend")), lambda s: s.label(NODES, "e2", zone="x"),
    ),
    "spread, matching pod begins to go": (
        TWO, uneven, WEB, lambda s: (
            s.patch(PODS, "w-1", {"metadata": {"finalizers": ["example.com/stay"]}}, "", "default"),
            s.remove("w-1"),
        ),
    ),
    "untaint": (
        (zoned("e1", "x", taints=[TAINT]),), nothing, {},
        lambda s: s.patch(NODES, "e1", {"spec": {"taints": None}}),
    ),
    "toleration": (
        (zoned("e1", "x", taints=[TAINT]),), nothing, {},
        lambda s: s.patch(
            PODS, "waiting", {"spec": {"tolerations": [
                *s.pod("waiting")["spec"].get("tolerations", ()),
                {"key": "k", "operator": "Exists"},
            ]}}, "", "default"
        ),
    ),
    "uncordon": (
        (zoned("e1", "x", unschedulable=True),), nothing, {},
        lambda s: s.patch(NODES, "e1", {"spec": {"unschedulable": False}}),
    ),
    "tier": (
        (zoned("e1", "x", tier=""),), nothing, {},
        lambda s: s.label(NODES, "e1", **{"kubedsm.io/tier": "edge"}),
    ),
    "claim bound": (ONE, claimed, MOUNTED, lambda s: s.bind_claim()),
    "volume's zone": (
        (zoned("e1", "x", labels={ZONE: "b"}),), volume_of_a_zone, MOUNTED,
        lambda s: s.label(PERSISTENT_VOLUMES, "pv", **{ZONE: "b"}),
    ),
    "claim of one pod": (ONE, claim_of_one_pod, MOUNTED, lambda s: s.remove("owner")),
    "volume detached": (ONE, no_slot, MOUNTED, lambda s: s.remove("owner")),
    "more volumes allowed": (
        ONE, no_slot, MOUNTED, lambda s: s.patch(CSI_NODES, "e1", {"spec": csi_node(2)["spec"]}),
    ),
    "CSINode gone": (ONE, no_slot, MOUNTED, lambda s: s.world.api.delete(CSI_NODES, "", "e1")),
    "its volume attached for another pod": (
        ONE, no_slot, MOUNTED, lambda s: s.put(pod("reader", **MOUNTED), on="e1"),
    ),
    "disk": (
        ONE, lambda s: s.put(pod("owner", **DISK), on="e1"), DISK, lambda s: s.remove("owner"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HELP.values(), ids=HELP)
async def test_help_is_noticed_within_a_second(case):
    nodes, prepare, spec, help_comes = case
    async with waiting(nodes, prepare, **spec) as scene:
        help_comes(scene)
        await scene.world.until(lambda: scene.bound, SOON)


IN_VAIN = {
    "too little room": (ONE, lambda s: (s.put(pod("big", cpu="3900m"), on="e1"),
                                        s.put(pod("small", cpu="100m"), on="e1")),
                        {}, lambda s: s.remove("small")),
    "room on a node that is tainted": (
        (zoned("e1", "x", taints=[TAINT]), zoned("e2", "y", cpu="1")),
        lambda s: (s.put(pod("big", cpu="4"), on="e1"), s.put(pod("small"), on="e2")), {},
        lambda s: s.remove("big"),
    ),
    "a stranger leaves": (
        ONE, lambda s: (enemies(s), s.put(pod("stranger"), on="e1")), apart(term("enemy")),
        lambda s: s.remove("stranger"),
    ),
    "node shrinks": (
        ONE, full, {},
        lambda s: s.patch(NODES, "e1", {"status": {"allocatable": {"cpu": "3"}}}, "status"),
    ),
    "another taint": (
        (zoned("e1", "x", taints=[TAINT]),), nothing, {},
        lambda s: s.patch(NODES, "e1", {"spec": {"taints": [{**TAINT, "value": "w"}]}}),
    ),
    "node full from the start": (
        ONE, full, {}, lambda s: s.world.api.create(NODES, zoned("e2", "y", cpu="500m")),
    ),
    "another driver's volume detached": (
        ONE, lambda s: (no_slot(s), s.csi_claim("other", "other.example.com"),
                        s.put(pod("third", **mounting("other")), on="e1")),
        MOUNTED, lambda s: s.remove("third"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_VAIN.values(), ids=IN_VAIN)
async def test_what_cannot_help_causes_no_decision(case):
    nodes, prepare, spec, change = case
    async with waiting(nodes, prepare, **spec) as scene:
        before = scene.policy.decisions
        change(scene)
        await asyncio.sleep(LONG)
        assert not scene.bound
        assert scene.policy.decisions == before


def refusing(plural):
    """Forbid all requests for a resource."""
    forbidden = RequestFault(Forbidden(403, "Forbidden", f"{plural} is forbidden"))
    return Failing(lambda request: request.path.endswith(f"/{plural}"), forbidden)


async def test_a_pod_waits_for_the_right_to_see_its_claim():
    async with emulated(*ONE) as world, world.scheduler(refusing("persistentvolumeclaims")):
        world.create_pod("mounting", **MOUNTED)
        await world.until(lambda: world.events("FailedScheduling"), 5)
        [event] = world.events("FailedScheduling")
        assert "KubeDSM may not list PersistentVolumeClaims" in event["message"]
        world.create_pod("plain")
        await world.until_bound(1, 2)


async def test_limits_that_may_not_be_seen_are_none():
    async with emulated(*ONE) as world, world.scheduler(refusing("csinodes")) as runtime:
        scene = Waiting(world, None)
        no_slot(scene)
        world.create_pod("waiting", **MOUNTED)
        await world.until(lambda: scene.bound, 2)
        assert not runtime.mirror.surroundings.observes(CSINode)
