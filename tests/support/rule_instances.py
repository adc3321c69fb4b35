"""Small clusters with every kind of rule about pods, named or drawn at random."""

import random
from functools import cache

import attrs

from kubedsm.model.model import (
    EVERY_ADDRESS,
    ClaimReference,
    HostPort,
    PodAffinityTerm,
    PodClass,
    Preferences,
    SchedulingRules,
    SpreadConstraint,
    Taint,
    Tier,
    Toleration,
    Uid,
    Workload,
)
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.model.surroundings import (
    Claim,
    CSIDriver,
    CSINode,
    CSIVolume,
    Namespace,
    StorageCapacity,
    StorageClass,
    Surroundings,
    Volume,
)
from support.placement_instances import node, resources, snapshot
from support.pods import made_pod

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
TAINT = Taint("dedicated", "ml", "NoSchedule")
DISLIKED = Taint("old", "", "PreferNoSchedule")
CSI, LOCAL, STATIC = "csi.example.com", "local-path", "static"
_CLASSES = (
    StorageClass(STATIC, waits_for_consumer=True, provisioner="kubernetes.io/no-provisioner"),
    StorageClass(LOCAL, waits_for_consumer=True, provisioner="rancher.io/local-path"),
    StorageClass(CSI, waits_for_consumer=True, provisioner=CSI),
)


def app(*names):
    """Return the selector of pods with one of the app labels."""
    return (Requirement("app", "In", names),)


def pod(
    name,
    labels=(),
    *,
    on=None,
    requests=None,
    namespace="shop",
    terminating=False,
    priority=0,
    **rules,
):
    made = made_pod(
        name,
        uid=f"uid-{name}",
        namespace=namespace,
        requests=requests or resources(1, 1),
        rules=SchedulingRules(**rules),
        priority=priority,
        node_name=on or None,
        terminating=terminating,
        labels=dict(labels),
    )
    return attrs.evolve(made, workload=Workload(namespace, "Pod", name))


def zoned(name, zone=None, **more):
    labels = {HOST: name, **({ZONE: zone} if zone else {}), **more.pop("labels", {})}
    return node(name, more.pop("tier", Tier.EDGE), labels=labels, **more)


def near(selector, key=ZONE, **more):
    return PodAffinityTerm(key, selector, ("shop",), **more)


def evenly(selector, key=ZONE, skew=1, **more):
    return SpreadConstraint(key, skew, selector, more.pop("namespace", "shop"), **more)


def cluster(nodes, pods, surroundings=None):
    return attrs.evolve(snapshot(nodes, pods), surroundings=surroundings or Surroundings())


def knowing(*things):
    """Return surroundings with the storage classes and the given objects, of every storage kind."""
    known = Surroundings()
    for kind in (Claim, Volume, StorageClass, CSIDriver, StorageCapacity, CSINode):
        known = known.with_kind(kind)
    for thing in (*_CLASSES, *things):
        known = known.with_object(thing)
    return known


def unbound(name, storage, of, **more):
    """Return a claim that waits for its first consumer."""
    return Claim("shop", name, storage=storage, storage_class=of, uid=f"uid-{name}", **more)


_APPS = "abc"


def _selector(rng):
    kind = rng.random()
    if kind < 0.06:
        return None
    if kind < 0.12:
        return ()
    if kind < 0.6:
        return app(rng.choice(_APPS))
    if kind < 0.75:
        return app(*rng.sample(_APPS, 2))
    return (
        Requirement(
            rng.choice(("app", "side")),
            rng.choice(("Exists", "DoesNotExist", "NotIn")),
            (rng.choice(_APPS),),
        ),
    )


def _term(rng):
    chosen = rng.random()
    namespaces = ("shop",) if chosen < 0.7 else ("other", "shop")[: rng.randint(0, 2)]
    selected = None
    if chosen > 0.8 or not namespaces:
        selected = rng.choice(((), (Requirement("team", "In", ("x",)),)))
    key = rng.choice((ZONE, ZONE, HOST))
    return PodAffinityTerm(key, _selector(rng), tuple(namespaces), selected)


def _constraint(rng, namespace):
    return SpreadConstraint(
        rng.choice((ZONE, ZONE, HOST)),
        rng.randint(1, 2),
        _selector(rng),
        namespace,
        rng.choice((1, 1, 1, 2, 3)),
        rng.random() < 0.7,
        rng.random() < 0.4,
    )


def _node_affinity(rng):
    kind = rng.random()
    if kind < 0.6:
        return None
    values = (rng.choice("123"),)
    expression = Requirement("gen", rng.choice(("Gt", "Lt", "In", "NotIn", "Exists")), values)
    if kind < 0.8:
        return (NodeSelectorTerm((expression,)),)
    name = Requirement("metadata.name", rng.choice(("In", "NotIn")), (f"n{rng.randint(0, 5)}",))
    both = NodeSelectorTerm((expression,), (name,))
    return rng.choice(((both,), (both, NodeSelectorTerm()), (NodeSelectorTerm((), (name,)),)))


def _rules(rng, namespace):
    def some(odds, make):
        return tuple(make() for _ in range(rng.choice(odds)))

    return {
        "tolerations": some((0, 0, 1), lambda: Toleration("dedicated", "Exists")),
        "node_affinity": _node_affinity(rng),
        "ports": some(
            (0, 0, 0, 1),
            lambda: HostPort(
                rng.choice((80, 81)),
                rng.choice(("TCP", "TCP", "UDP")),
                rng.choice((EVERY_ADDRESS, "10.0.0.1", "10.0.0.2")),
            ),
        ),
        "affinity": some((0, 0, 0, 1, 2), lambda: _term(rng)),
        "anti_affinity": some((0, 0, 0, 1, 2), lambda: _term(rng)),
        "spread": some((0, 0, 0, 1, 2), lambda: _constraint(rng, namespace)),
        "claims": some(
            (0, 0, 0, 0, 1), lambda: ClaimReference(namespace, rng.choice(("disk", "once", "far")))
        ),
        "preferences": _preferences(rng, namespace) if rng.random() < 0.3 else Preferences(),
    }


def _preferences(rng, namespace):
    def some(make):
        return tuple((rng.choice((1, 10, 100)), make()) for _ in range(rng.choice((0, 0, 1, 2))))

    def on_node():
        operator = rng.choice(("Gt", "In", "Exists"))
        return NodeSelectorTerm((Requirement("gen", operator, (rng.choice("12"),)),))

    constraints = tuple(_constraint(rng, namespace) for _ in range(rng.choice((0, 0, 1, 2))))
    return Preferences(
        some(on_node), some(lambda: _term(rng)), some(lambda: _term(rng)), constraints
    )


def drawn_pod(rng, name, on=None):
    namespace = rng.choice(("shop", "shop", "other"))
    labels = {"app": rng.choice(_APPS), "name": name}
    if rng.random() < 0.3:
        labels["side"] = "a"
    return pod(
        name,
        labels,
        on=on,
        namespace=namespace,
        terminating=on is not None and rng.random() < 0.15,
        requests=resources(rng.choice((0, 0.5, 1)), rng.choice((0, 1))),
        priority=rng.choice((0, 0, 0, 10, 1000)),
        **_rules(rng, namespace),
    )


def drawn(seed):
    """Draw a cluster and its pending pods."""
    rng = random.Random(seed)
    nodes = [
        zoned(
            f"n{i}",
            rng.choice(("x", "y", "z", None)),
            tier=rng.choice((Tier.EDGE, Tier.EDGE, Tier.CLOUD, None)),
            taints=[t for t, odds in ((TAINT, 0.25), (DISLIKED, 0.15)) if rng.random() < odds],
            unschedulable=rng.random() < 0.1,
            labels={"gen": rng.choice(("1", "2", "3", "new"))} if rng.random() < 0.8 else {},
        )
        for i in range(rng.randint(1, 6))
    ]
    existing = [
        drawn_pod(rng, f"old-{i}", on=rng.choice(nodes).name) for i in range(rng.randint(0, 8))
    ]
    waiting = [drawn_pod(rng, f"new-{i}") for i in range(rng.randint(1, 4))]
    return cluster(nodes, [*existing, *waiting], _surroundings(rng, nodes)), waiting


def drawn_batch(seed):
    """Draw a cluster, and replicas of a few workloads with one or two rules each."""
    rng = random.Random(seed)
    nodes = [
        zoned(
            f"n{i}",
            rng.choice(("x", "x", "y", "y", "z", None)),
            tier=rng.choice((Tier.EDGE, Tier.CLOUD)),
            cpu=rng.choice((2, 4)),
            taints=[t for t, odds in ((TAINT, 0.1), (DISLIKED, 0.15)) if rng.random() < odds],
            labels={"gen": rng.choice(("1", "2", "3"))},
        )
        for i in range(rng.choice((2, 3, 4, 4, 5, 6)))
    ]
    existing = _replicas(rng, "old", 1)
    existing = [attrs.evolve(old, node_name=rng.choice(nodes).name) for old in existing]
    waiting = [p for i in range(rng.choice((1, 2, 2, 3))) for p in _replicas(rng, f"new-{i}", 3)]
    return cluster(nodes, [*existing, *waiting], _surroundings(rng, nodes)), waiting


def _replicas(rng, name, most):
    one = drawn_pod(rng, name)
    asked = {
        field: value
        for field, value in attrs.asdict(one.pod_class.rules, recurse=False).items()
        if value
    }
    kept = rng.sample(sorted(asked), min(len(asked), rng.choice((0, 1, 1, 2, 2))))
    rules = SchedulingRules(**{field: asked[field] for field in kept})
    pod_class = PodClass(resources(rng.choice((0.5, 1)), 1), rules, one.pod_class.priority)
    return [
        attrs.evolve(one, uid=Uid(f"uid-{name}-{i}"), name=f"{name}-{i}", pod_class=pod_class)
        for i in range(rng.randint(1, most))
    ]


def csi_node(rng, name):
    """Draw a CSINode with volume limits for both drivers, one, or none."""
    limits = {driver: rng.choice((0, 1, 1, 2)) for driver in ("fast", "slow")}
    return CSINode(name, dict(rng.sample(sorted(limits.items()), rng.choice((0, 1, 2, 2)))))


def _surroundings(rng, nodes):
    surroundings = _around_every_cluster()
    for each in nodes:
        if rng.random() < 0.6:
            surroundings = surroundings.with_object(csi_node(rng, each.name))
    return surroundings


@cache
def _around_every_cluster():
    only_x = (NodeSelectorTerm((Requirement(ZONE, "In", ("x",)),)),)
    claims = [
        Claim(namespace, name, volume=f"pv-{name}", bound=True, once_per_pod=name == "once")
        for namespace in ("shop", "other")
        for name in ("disk", "once", "far")
    ]
    surroundings = Surroundings()
    for thing in (
        *claims,
        Volume("pv-disk", csi=CSIVolume("fast", "disk")),
        Volume("pv-once", labels={ZONE: "x__y"}, csi=CSIVolume("fast", "once")),
        Volume("pv-far", only_x, csi=CSIVolume("slow", "far")),
        Namespace("other", {"team": "x"}),
        StorageClass("local", waits_for_consumer=True),
    ):
        surroundings = surroundings.with_object(thing)
    return surroundings
