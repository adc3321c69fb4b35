"""VolumeBinding: claims that wait for their first consumer, for pods one after the other."""

import random

import attrs
import pytest

from kubedsm.kube.wire import dump
from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import ClaimReference
from kubedsm.model.selectors import NodeSelectorTerm, Requirement, selects
from kubedsm.model.surroundings import (
    Claim,
    CSIDriver,
    StorageCapacity,
    StorageClass,
    Surroundings,
    Volume,
)
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.volume_binding import UNOBSERVED, VOLUME_BINDING, assign_claims
from support.drawing import drawn
from support.literal_rules import any_selects
from support.rule_instances import (
    CSI,
    HOST,
    LOCAL,
    STATIC,
    ZONE,
    cluster,
    knowing,
    pod,
    unbound,
    zoned,
)


@attrs.define
class Binder:
    """VolumeBinding as kube-scheduler runs it: one node at a time, with caches of assumed objects.

    After k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding/binder.go, FindPodVolumes
    and AssumePodVolumes, and k8s.io/component-helpers/storage/volume, FindMatchingVolume.
    """

    surroundings: object
    nodes: dict
    #: assumed claims with their nodes, whose storage counts here, unlike in kube-scheduler
    charged: list = attrs.field(factory=list)

    def feasible(self, pod):
        return sorted(name for name in self.nodes if self._find(pod, name) is not None)

    def assume(self, pod, name):
        for claim, volume in self._find(pod, name):
            if volume is None:
                if all(other.key != claim.key for other, _ in self.charged):
                    self.charged.append((claim, name))
                self._set(attrs.evolve(claim, selected_node=name))
            else:
                self._set(attrs.evolve(volume, claim=(*claim.key, claim.uid)))

    def _set(self, thing):
        self.surroundings = self.surroundings.with_object(thing)

    def _find(self, pod, name):
        """Return the pod's unbound claims with their volumes on the node; None if refused."""
        node, chosen, found = self.nodes[name], set(), []
        claims = [self.surroundings.of(Claim)[c.key] for c in pod.pod_class.rules.claims]
        for claim in sorted(claims, key=lambda c: (c.storage, c.namespace, c.name)):
            if claim.bound:
                volume = self.surroundings.of(Volume)[claim.volume,]
                if not _reaches(volume, node):
                    return None
                continue
            if claim.selected_node not in ("", name):
                return None
            volume = None if claim.selected_node else self._match(claim, node, chosen)
            if volume is None and not self._provisions(claim, node):
                return None
            chosen.add(volume.name if volume else "")
            found.append((claim, volume))
        return found

    def _match(self, claim, node, chosen):
        smallest = None
        volumes = sorted(self.surroundings.of(Volume).values(), key=lambda v: v.name)
        for volume in volumes:
            if volume.name in chosen or (volume.claim and not volume.is_for(claim)):
                continue
            if volume.capacity < claim.storage or not set(claim.access_modes) <= set(
                volume.access_modes
            ):
                continue
            if volume.is_for(claim):
                return volume if _reaches(volume, node) else None
            if not volume.available or volume.storage_class != claim.storage_class:
                continue
            if _reaches(volume, node) and (smallest is None or volume.capacity < smallest.capacity):
                smallest = volume
        return smallest

    def _provisions(self, claim, node):
        of = self.surroundings.of(StorageClass)[claim.storage_class,]
        # Unlike kube-scheduler: no second volume where one is reserved for the claim.
        reserved = any(v.is_for(claim) for v in self.surroundings.of(Volume).values())
        if of.provisioner == "kubernetes.io/no-provisioner" or reserved:
            return False
        if of.topologies and not any_selects(of.topologies, node.name, node.labels):
            return False
        driver = self.surroundings.of(CSIDriver).get((of.provisioner,))
        if driver is None or not driver.reports_capacity:
            return True
        return any(
            each.storage_class == claim.storage_class and self._has(each, claim, node)
            for each in self.surroundings.of(StorageCapacity).values()
        )

    def _has(self, segment, claim, node):
        counted = all(other.key != claim.key for other, _ in self.charged)
        taken = sum(
            other.storage
            for other, name in self.charged
            if counted
            and other.storage_class == claim.storage_class
            and selects(segment.nodes, self.nodes[name].labels)
        )
        limit = segment.capacity if segment.maximum is None else segment.maximum
        return (
            selects(segment.nodes, node.labels)
            and claim.storage <= limit
            and (not taken or claim.storage + taken <= segment.capacity)
        )


def _reaches(volume, node):
    return volume.nodes is None or any_selects(volume.nodes, node.name, node.labels)


NODES = [zoned(f"n{n}", "xy"[n % 2], labels={HOST: f"n{n}"}) for n in range(4)]


def on(*names, key=HOST):
    return (NodeSelectorTerm((Requirement(key, "In", names),)),)


def volume(name, capacity, *hosts, of=STATIC, **more):
    nodes = on(*hosts) if hosts else None
    modes = more.pop("access_modes", ("ReadWriteOnce",))
    more = {"available": True} | more
    return Volume(name, nodes, capacity=capacity, storage_class=of, access_modes=modes, **more)


def mounting(name, *claims):
    return pod(name, claims=tuple(ClaimReference("shop", claim) for claim in claims))


def feasible(newcomer, known, placed=()):
    feasibility = Feasibility.of(cluster(NODES, [newcomer, *(p for p, _ in placed)], known))
    for each, name in placed:
        feasibility = feasibility.with_pod(each, name)
    return feasibility.feasible(newcomer)


def reasons(newcomer, known, placed=()):
    feasibility = Feasibility.of(cluster(NODES, [newcomer, *(p for p, _ in placed)], known))
    for each, name in placed:
        feasibility = feasibility.with_pod(each, name)
    rejections = feasibility.rejections(newcomer, tier=False)
    return {name: rejections[name].reasons[0] for name in rejections}


ONE = mounting("a", "a")


@pytest.mark.parametrize(
    ("claim", "things", "nodes"),
    [
        (unbound("a", 5, STATIC), [volume("v", 5, "n1")], ["n1"]),
        (unbound("a", 5, STATIC), [volume("v", 4, "n1")], []),
        (unbound("a", 5, STATIC), [volume("v", 5, "n1", of=LOCAL)], []),
        (unbound("a", 5, STATIC), [volume("v", 5, "n1", available=False)], []),
        (unbound("a", 5, STATIC), [volume("v", 5, "n1", terminating=True)], []),
        (unbound("a", 5, STATIC), [volume("v", 5, "n1", block=True)], []),
        (unbound("a", 5, STATIC), [volume("v", 5, "n1", attributes_class="gold")], []),
        (
            unbound("a", 5, STATIC, attributes_class="gold"),
            [volume("v", 5, "n1"), volume("w", 9, "n2", attributes_class="gold")],
            ["n2"],
        ),
        (unbound("a", 5, STATIC, access_modes=("ReadWriteMany",)), [volume("v", 5, "n1")], []),
        (unbound("a", 5, STATIC), [volume("v", 5, "n1", claim=("shop", "b", ""))], []),
        (unbound("a", 5, STATIC), [volume("v", 5, "n1", claim=("shop", "a", "uid-a"))], ["n1"]),
        (unbound("a", 5, STATIC), [volume("v", 5, "n1", claim=("shop", "a", "other"))], []),
        (
            unbound("a", 5, STATIC, selector=(Requirement("disk", "In", ("ssd",)),)),
            [volume("v", 5, "n1"), volume("w", 5, "n2", labels={"disk": "ssd"})],
            ["n2"],
        ),
        (unbound("a", 5, LOCAL), [], ["n0", "n1", "n2", "n3"]),
        (unbound("a", 5, LOCAL, selected_node="n2"), [], ["n2"]),
        (unbound("a", 5, LOCAL, failed_on=frozenset({"n0", "n2"})), [], ["n1", "n3"]),
        (
            unbound("a", 5, LOCAL),
            [StorageClass(LOCAL, True, "rancher.io/local-path", on("x", key=ZONE))],
            ["n0", "n2"],
        ),
        (unbound("a", 5, CSI), [CSIDriver(CSI, reports_capacity=True)], []),
        (
            unbound("a", 5, CSI),
            [CSIDriver(CSI), StorageCapacity("s", "x", CSI, (), capacity=4)],
            ["n0", "n1", "n2", "n3"],
        ),
        (
            unbound("a", 5, CSI),
            [
                CSIDriver(CSI, reports_capacity=True),
                StorageCapacity("s", "x", CSI, (Requirement(ZONE, "In", ("x",)),), capacity=5),
                StorageCapacity("s", "y", CSI, (Requirement(ZONE, "In", ("y",)),), 9, maximum=4),
                StorageCapacity("s", "none", CSI, None, capacity=9),
            ],
            ["n0", "n2"],
        ),
    ],
)
def test_nodes_on_which_a_claim_can_be_bound(claim, things, nodes):
    assert feasible(ONE, knowing(claim, *things)) == nodes


def test_what_pods_placed_before_were_promised_of_a_storage_adds_up():
    claims = [unbound(name, size, CSI) for name, size in (("a", 4), ("b", 3), ("c", 3))]
    pool = StorageCapacity("s", "x", CSI, (), capacity=9)
    known = knowing(*claims, CSIDriver(CSI, reports_capacity=True), pool)
    placed = [(mounting(name, name), "n1") for name in "bc"]
    assert len(feasible(ONE, known, placed[:1])) == 4
    assert feasible(ONE, known, placed) == []


def test_of_volumes_alike_the_first_by_name_is_taken():
    names = [f"v{n}" for n in (4, 1, 3, 0, 2)]
    known = knowing(unbound("a", 5, STATIC), *(volume(name, 5, "n1") for name in names))
    placed = Feasibility.of(cluster(NODES, [ONE], known)).with_pod(ONE, "n1")
    [assigned] = assign_claims(placed.scene).values()
    assert assigned.volume == "v0"


@pytest.mark.parametrize(
    ("unobserved", "kind"),
    [(StorageClass, "StorageClasses"), (Volume, "PersistentVolumes")],
)
def test_unobserved_storage_keeps_the_pod_waiting_with_the_reason(unobserved, kind):
    kinds = dict(knowing(unbound("a", 5, LOCAL)).kinds)
    del kinds[unobserved]
    known = Surroundings(kinds)
    assert set(reasons(ONE, known).values()) == {UNOBSERVED.format(kind)}


def _draw(rng):
    """Return drawn surroundings, and pods with claims of them."""
    things = [
        volume(
            f"v{n}",
            rng.randint(1, 6),
            *rng.choice([(), ("n0",), ("n1",), ("n2",), ("n1", "n3")]),
            of=rng.choice((STATIC, LOCAL, CSI)),
            available=rng.random() < 0.9,
        )
        for n in range(rng.randint(0, 6))
    ]
    claims = [f"c{n}" for n in range(6)]
    for name in claims:
        selected = rng.choice(("n0", "n1")) if rng.random() < 0.1 else ""
        of = STATIC if not selected and rng.random() < 0.6 else rng.choice((LOCAL, CSI))
        things.append(unbound(name, rng.randint(1, 5), of, selected_node=selected))
    if rng.random() < 0.5:
        things.append(CSIDriver(CSI, reports_capacity=True))
    for zone in "xy":
        segment = (Requirement(ZONE, "In", (zone,)),)
        things.append(
            StorageCapacity("s", zone, CSI, segment, rng.randint(0, 9), rng.choice((None, None, 4)))
        )
    if rng.random() < 0.3:
        things.append(StorageClass(LOCAL, True, "rancher.io/local-path", on("x", key=ZONE)))
    rng.shuffle(claims)
    pods = [mounting(f"p{n}", *claims[n : n + rng.choice((1, 1, 2))]) for n in range(0, 5, 2)]
    if rng.random() < 0.3:
        pods.append(mounting("sharing", claims[0]))
    return knowing(*things), pods


def test_nodes_are_those_of_kube_scheduler_for_pods_one_after_the_other():
    placed_at_all = 0
    for seed in drawn(range(300)):
        rng = random.Random(seed)
        known, pods = _draw(rng)
        snapshot = cluster(NODES, pods, known)
        literal, feasibility = Binder(known, dict(snapshot.nodes)), Feasibility.of(snapshot)
        for each in pods:
            nodes = literal.feasible(each)
            assert feasibility.feasible(each) == nodes, (seed, each.name)
            if nodes:
                chosen = rng.choice(nodes)
                literal.assume(each, chosen)
                feasibility = feasibility.with_pod(each, chosen)
                placed_at_all += 1
        assigned = [each.volume for each in assign_claims(feasibility.scene).values()]
        taken = [name for name in assigned if name]
        assert len(taken) == len(set(taken))
    assert placed_at_all > 100


@pytest.mark.parametrize(
    ("change", "retried"),
    [
        (Change(surrounding_after=volume("v", 1, "n1", of=LOCAL)), True),
        (Change(surrounding_after=volume("v", 1, "n1", of=STATIC)), False),
        (Change(surrounding_after=StorageCapacity("s", "x", LOCAL)), True),
        (Change(surrounding_after=CSIDriver("other")), True),
        (Change(surrounding_after=unbound("a", 5, LOCAL)), True),
        (Change(surrounding_after=unbound("b", 5, LOCAL)), False),
        (Change(pod_before=attrs.evolve(mounting("o", "b"), node_name="n1")), True),
        (Change(pod_before=pod("o", on="n1")), False),
        (Change(node_before=NODES[0], node_after=zoned("n0", "y", labels={HOST: "n0"})), True),
        (Change(node_before=NODES[0], node_after=attrs.evolve(NODES[0], taints=())), False),
    ],
)
def test_changes_that_may_help_a_waiting_pod(change, retried):
    snapshot = cluster(NODES, [ONE], knowing(unbound("a", 5, LOCAL)))
    candidate = Feasibility.of(snapshot).equivalence(ONE)
    assert VOLUME_BINDING.hint(change, candidate, snapshot) is retried


def test_a_dump_without_any_volume_permits_provisioning():
    waits = {"provisioner": "rancher.io/local-path", "volumeBindingMode": "WaitForFirstConsumer"}
    node = {"metadata": {"name": "n1", "labels": {"kubedsm.io/tier": "edge"}}}
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    mount = {"name": "d", "persistentVolumeClaim": {"claimName": "a"}}
    metadata = {"name": "a", "namespace": "shop"}
    claim = {"kind": "PersistentVolumeClaim", "metadata": metadata}
    objects = [
        {"kind": "Node", **node, "status": {"allocatable": resources}},
        {"kind": "StorageClass", "metadata": {"name": LOCAL}, **waits},
        {**claim, "spec": {"storageClassName": LOCAL}},
        {"kind": "Pod", "metadata": {**metadata, "uid": "a"}, "spec": {"volumes": [mount]}},
    ]
    made = dump.of_objects(objects, "dump")
    assert [remark for remark in made.remarks if "PersistentVolume " in remark] == []
    mirror = ClusterMirror()
    for event in made.events:
        mirror.apply(event)
    snapshot = mirror.snapshot()
    assert Feasibility.of(snapshot).feasible(snapshot.pods["a"]) == ["n1"]
