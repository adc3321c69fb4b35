"""Hints may be wrong in one direction only: no pod that fits is left unasked."""

import os
import random
from collections import Counter

import attrs
import pytest

from kubedsm.app.cluster_reflectors import EventHandler
from kubedsm.model.events import (
    Change,
    KindKnown,
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
    SurroundingDeleted,
)
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, PodClass, SchedulingRules, Tier, Uid
from kubedsm.model.surroundings import Claim, CSINode, CSIVolume, Namespace, Volume
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.plugin import EquivalenceClass
from kubedsm.plugins.plugins import BY_NAME
from kubedsm.process.clock import SystemClock
from kubedsm.process.supervisor import Supervisor
from kubedsm.scheduling.scheduling_queue import SchedulingQueue, Unschedulable, node_now_accepts
from support import drawing
from support.literal_rules import rejection
from support.placement_instances import resources
from support.rule_instances import HOST, TAINT, ZONE, csi_node, drawn, drawn_pod


def may_be_helped(pod: Pod, rules: frozenset[str], change: Change, mirror: ClusterMirror) -> bool:
    """Return whether to retry a pod that every node rejects by one of these rules."""
    if change.known is not None:
        return True
    candidate = EquivalenceClass(pod.pod_class, pod.namespace, tuple(sorted(pod.labels.items())))
    hints = [BY_NAME[rule].hint or node_now_accepts for rule in rules]
    if change.matters and any(hint(change, candidate, mirror) for hint in hints):
        return True
    node = change.node_after
    if node is None or change.node_before is not None:
        return False
    return rejection(pod.pod_class, node, mirror.free[node.name]) is None


CLUSTERS = int(os.environ.get("KUBEDSM_HINT_CLUSTERS", "200"))
EVENTS = 40
TIER = "kubedsm.io/tier"


@attrs.define
class World:
    """A random cluster that changes, and the pods that wait in it."""

    rng: random.Random
    mirror: ClusterMirror = None
    queue: SchedulingQueue = None
    handler: EventHandler = None
    waiting: dict = attrs.field(factory=dict)
    #: of each pod that is asleep, whether the change should wake it
    expected: dict = attrs.field(factory=dict)
    refused: set = attrs.field(factory=set)
    #: how often a change had a refused pod tried again, or not, and whether a node takes it now
    tries: Counter = attrs.field(factory=Counter)
    serial: int = 0

    @classmethod
    def drawn(cls, seed):
        world = cls(random.Random(f"events of {seed}"))
        world.queue = SchedulingQueue(SystemClock(), world.rng)
        world.mirror = ClusterMirror("kubedsm", on_released=world.released)
        expect, supervisor = (world.expect,), Supervisor(SystemClock(), world.rng)
        world.handler = EventHandler(
            world.mirror, world.queue, supervisor, on_pod=expect, on_gone=expect, on_other=expect
        )
        snapshot, waiting = drawn(seed)
        for node in snapshot.nodes.values():
            world.tell(NodeApplied(world.furnished(node)))
        known = snapshot.surroundings
        for kind in (Namespace, Claim, Volume, CSINode):
            for thing in known.of(kind).values():
                world.tell(SurroundingApplied(thing))
        for pod in snapshot.pods.values():
            if pod.node_name is not None:
                world.tell(PodApplied(pod))
        for pod in map(world.with_few_rules, waiting):
            for alike in (pod, *world.siblings(pod)):
                world.tell(PodApplied(alike))
                world.waiting[alike.uid] = alike
        return world

    def furnished(self, node):
        """The node, small, and mostly without what keeps all pods away at once."""
        open_to_all = {"taints": (), "unschedulable": False, "tier": Tier.EDGE}
        if self.rng.random() < 0.7:
            node = attrs.evolve(node, **open_to_all)
        return attrs.evolve(
            labelled(node, **{TIER: node.tier}), allocatable=resources(self.rng.choice((1, 2)), 4)
        )

    def with_few_rules(self, pod):
        """The pod with some of its rules: of a node by which many refuse, others say nothing."""
        rules, rng = pod.pod_class.rules, self.rng
        kept = rng.sample([field.name for field in attrs.fields(type(rules))], 4)
        few = SchedulingRules(**{name: getattr(rules, name) for name in kept})
        requests = resources(rng.choice((0, 1, 1, 2)), 0)
        return attrs.evolve(pod, pod_class=PodClass(requests, few, pod.pod_class.priority))

    def siblings(self, pod):
        """Pods that ask for the same, one of them with other labels."""
        for name, labels in (("twin", pod.labels), ("cousin", {"app": self.rng.choice("abc")})):
            uid = Uid(f"{pod.uid}-{name}")
            yield attrs.evolve(pod, uid=uid, name=f"{pod.name}-{name}", labels=labels)

    def tell(self, event):
        self.handler.handle(event)
        self.compare()

    def released(self, change, mirror):
        self.expect(change)
        self.queue.help(change, mirror)
        self.compare()

    def expect(self, change):
        """Ask for each pod that is asleep, by itself and by all its labels."""
        kinds = self.queue._unschedulable.class_of
        self.expected = {
            uid: may_be_helped(self.waiting[uid], kind.why.rules, change, self.mirror)
            for uid, kind in kinds.items()
            if not kind.awake
        }

    def compare(self):
        """See that the same were woken, but for a pod that has changed itself."""
        for uid, kind in self.queue._unschedulable.class_of.items():
            assert bool(kind.awake) == self.expected.get(uid, True), uid
        self.expected = {}

    def decide(self):
        """Ask for every pod that is to be tried, and see that it is every one that fits."""
        feasibility = Feasibility.of(self.mirror.snapshot())
        popped = set()
        while batch := self.queue.pop(99):
            popped.update(batch)
            for uid in batch:
                rejections = feasibility.rejections(self.waiting[uid])
                if len(rejections) == len(feasibility.nodes):
                    rules = frozenset(rejected.rule for rejected in rejections.values())
                    self.queue.add_unschedulable(self.waiting[uid], rules)
        for uid, pod in self.waiting.items():
            fits = bool(feasibility.feasible(pod))
            assert uid in popped or not fits, f"{pod} fits, and is not tried"
            if uid in self.refused:
                self.tries[uid in popped, fits] += 1
            (self.refused.discard if fits else self.refused.add)(uid)
            if fits:
                self.queue.add(pod)  # as if a batch before it had been full: it still waits

    def change(self):
        rng = self.rng
        makers = (
            (5, self.pod_comes), (4, self.pod_goes), (4, self.pod_changes), (1, self.node_comes),
            (1, self.node_goes), (4, self.node_changes), (2, self.surrounding_changes),
            (2, self.reservation), (1, self.waiting_pod_changes),
        )  # fmt: skip
        rng.choices([make for _, make in makers], [weight for weight, _ in makers])[0]()

    def others(self):
        return [p for p in self.mirror.snapshot().pods.values() if p.node_name is not None]

    def nodes(self):
        return list(self.mirror.snapshot().nodes.values())

    def pod_comes(self):
        if self.nodes():
            self.serial += 1
            on = self.rng.choice(self.nodes()).name
            later = drawn_pod(self.rng, f"later-{self.serial}", on=on)
            self.tell(PodApplied(later))

    def pod_goes(self):
        if self.others():
            pod = self.rng.choice(self.others())
            if self.rng.random() < 0.5:
                self.tell(PodDeleted(pod.uid, pod.namespace, pod.name))
            else:
                self.tell(PodApplied(attrs.evolve(pod, phase="Succeeded")))

    def pod_changes(self):
        if not self.others():
            return
        pod, rng = self.rng.choice(self.others()), self.rng
        smaller = attrs.evolve(pod.pod_class, requests=resources(rng.choice((0, 0.5)), 0))
        change = rng.choice((
            {"terminating": True},
            {"labels": {**pod.labels, "app": rng.choice("abc")}},
            {"labels": {"app": rng.choice("abc")}},
            {"pod_class": smaller},
        ))  # fmt: skip
        self.tell(PodApplied(attrs.evolve(pod, **change)))

    def node_comes(self):
        snapshot, _ = drawn(self.rng.randrange(10**6))
        node = self.rng.choice(list(snapshot.nodes.values()))
        self.serial += 1
        name = f"n{self.serial + 9}"
        renamed = attrs.evolve(node, name=NodeName(name))
        self.tell(NodeApplied(labelled(self.furnished(renamed), **{HOST: name})))

    def node_goes(self):
        if len(self.nodes()) > 1:
            self.tell(NodeDeleted(self.rng.choice(self.nodes()).name))

    def node_changes(self):
        if not self.nodes():
            return
        node, rng = self.rng.choice(self.nodes()), self.rng
        cores = resources(rng.choice((0.5, 1, 2)), 4)
        changed = rng.choice((
            labelled(node, **{ZONE: rng.choice("xyz")}),
            labelled(node, gen=rng.choice("123")),
            labelled(node, **{TIER: rng.choice((Tier.EDGE, None))}),
            attrs.evolve(node, taints=() if node.taints else (TAINT,)),
            attrs.evolve(node, unschedulable=not node.unschedulable),
            attrs.evolve(node, allocatable=cores),
        ))  # fmt: skip
        self.tell(NodeApplied(changed))

    def surrounding_changes(self):
        rng = self.rng
        name, namespace = rng.choice(("disk", "once", "far")), rng.choice(("shop", "other"))
        claim = Claim(namespace, name, f"pv-{name}", bound=rng.random() < 0.7)
        zone = rng.choice(({}, {ZONE: "x"}, {ZONE: "y__z"}))
        csi = rng.choice((None, CSIVolume("fast", name), CSIVolume("fast", "disk")))
        volume = Volume(f"pv-{name}", labels=zone, csi=csi)
        node = rng.choice([node.name for node in self.nodes()] or ["n0"])
        team = Namespace(namespace, rng.choice(({}, {"team": "x"})))
        self.tell(
            rng.choice((
                SurroundingApplied(claim),
                SurroundingApplied(attrs.evolve(claim, once_per_pod=name == "once")),
                SurroundingDeleted(Claim, (namespace, name)),
                SurroundingApplied(volume),
                SurroundingDeleted(Volume, (volume.name,)),
                SurroundingApplied(csi_node(rng, node)),
                SurroundingDeleted(CSINode, (node,)),
                SurroundingApplied(team),
                SurroundingDeleted(Namespace, (namespace,)),
                KindKnown(Claim),
            ))
        )  # fmt: skip

    def reservation(self):
        """Room is held for a pod, or for a move, and is given back, or the pod gets it."""
        self.serial += 1
        pod = drawn_pod(self.rng, f"held-{self.serial}")
        pod = attrs.evolve(pod, scheduler_name="kubedsm")
        nodes = [n.name for n in self.nodes() if not short(self.mirror.free[n.name], pod)]
        if not nodes:
            return
        node, of_a_move = self.rng.choice(nodes), self.rng.random() < 0.5
        holder = f"move-{self.serial}" if of_a_move else pod.uid
        if not of_a_move:
            self.tell(PodApplied(pod))
            self.queue.forget(pod.uid)
        self.mirror.reserve(holder, node, pod.requests)
        for each in self.waiting.values():
            self.queue.add(each)
        # No event says that room is held: who may follow the pod is told once that is bound.
        self.decide()
        if of_a_move or self.rng.random() < 0.5:
            self.mirror.release(holder)
            self.decide()
        else:
            elsewhere = self.rng.choice(nodes)
            self.tell(PodApplied(attrs.evolve(pod, node_name=elsewhere)))
            self.decide()
        self.tell(PodDeleted(pod.uid, pod.namespace, pod.name))

    def waiting_pod_changes(self):
        uid = self.rng.choice(list(self.waiting))
        pod = self.waiting[uid]
        pod = attrs.evolve(pod, labels={**pod.labels, "app": self.rng.choice("abc")})
        self.waiting[uid] = pod
        self.tell(PodApplied(pod))


def labelled(node, **labels):
    labels = {**node.labels, **labels}
    return attrs.evolve(node, labels={key: value for key, value in labels.items() if value})


def short(free, pod):
    return any(amount > max(0, free.amount(name)) for name, amount in pod.requests.items())


@pytest.mark.parametrize("half", range(2))
async def test_no_wake_up_is_lost(half):
    tries = Counter()
    for seed in drawing.drawn(range(half * CLUSTERS // 2, (half + 1) * CLUSTERS // 2), one_in=9):
        world = World.drawn(seed)
        world.decide()
        for _ in range(EVENTS):
            world.change()
            world.decide()
        tries += world.tries
    # Most changes help no pod, and of those few have a pod tried again.
    assert tries[False, False] > 4 * tries[True, False] > 0


def test_what_says_nothing_new_matters_to_nobody():
    snapshot, waiting = drawn(0)
    pod = attrs.evolve(waiting[0], node_name=NodeName("n0"))
    node = snapshot.nodes[NodeName("n0")]
    claim = Claim("shop", "disk")
    ready = attrs.evolve(pod, ready=True, phase="Running", labels=dict(pod.labels))
    for change in (
        Change(),
        Change(pod_after=waiting[0]),
        Change(pod_before=waiting[0]),
        Change(pod_before=pod, pod_after=ready),
        Change(node_before=node, node_after=attrs.evolve(node, labels=dict(node.labels))),
        Change(surrounding_before=claim, surrounding_after=attrs.evolve(claim)),
    ):
        assert not change.matters
    for change in (
        Change(pod_before=waiting[0], pod_after=pod),
        Change(pod_before=pod, pod_after=attrs.evolve(pod, labels={"app": "z"})),
        Change(pod_before=pod, pod_after=attrs.evolve(pod, terminating=True)),
    ):
        assert change.matters == {"pod"}


@pytest.mark.parametrize("rule", BY_NAME)
def test_new_labels_of_a_waiting_pod_matter_to_rules_that_look_at_them(rule):
    waiting = drawn_pod(random.Random(0), "p")
    relabelled = attrs.evolve(waiting, labels={**waiting.labels, "new": "label"})
    rules = frozenset({rule})
    told_apart = Unschedulable.of(waiting, rules) != Unschedulable.of(relabelled, rules)
    assert told_apart is (rule in {"PodTopologySpread", "InterPodAffinity"})
