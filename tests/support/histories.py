"""Random histories of a mirror, and its complete state afterwards."""

import random

import attrs

from kubedsm.model.events import (
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
)
from kubedsm.model.mirror import ReservationError
from kubedsm.model.model import (
    ClaimReference,
    Disk,
    HostPort,
    Node,
    NodeName,
    Pod,
    PodClass,
    Preferences,
    Resources,
    SchedulingRules,
    Uid,
    Wishes,
    Workload,
)
from kubedsm.model.selectors import Requirement
from kubedsm.model.surroundings import Claim, CSINode, CSIVolume, Volume
from support.rule_instances import HOST, app, evenly, near

GI = 2**30
CLASSES = [
    PodClass(Resources(cpu, memory * GI, 1), SchedulingRules(), priority)
    for cpu, memory, priority in ((500, 1, 0), (1000, 1, 0), (1000, 2, 0), (2000, 1, 5))
]
_APART, _EVEN = near(app("a"), HOST), evenly(app("b"), HOST)
RULED = [
    PodClass(Resources(500, GI, 1), rules)
    for rules in (
        SchedulingRules(anti_affinity=(_APART,)),
        SchedulingRules(affinity=(near((Requirement("side", "Exists"),), HOST),)),
        SchedulingRules(spread=(_EVEN,)),
        SchedulingRules(preferences=Preferences(anti_affinity=((7, _APART),), spread=(_EVEN,))),
        SchedulingRules(ports=(HostPort(80),)),
        SchedulingRules(claims=(ClaimReference("shop", "c0"), ClaimReference("shop", "c1"))),
        SchedulingRules(claims=(ClaimReference("shop", "c1"),)),
        SchedulingRules(disks=(Disk("gcePersistentDisk", ("d",)),)),
    )
]
CLASSES[2] = attrs.evolve(
    CLASSES[2], requests=Resources(1000, 2 * GI, 1, (("example.com/gpu", 1),))
)


def node(rng):
    tier = rng.choice(("edge", "edge", "cloud", "fog"))
    gpus = (("example.com/gpu", 2),) if rng.random() < 0.3 else ()
    capacity = Resources(rng.randrange(1, 9) * 500, 8 * GI, 10, gpus)
    return Node(NodeName(f"n{rng.randrange(4)}"), {"kubedsm.io/tier": tier}, capacity)


def pod(rng, name, uid, version, classes=CLASSES):
    turn = rng.randrange(4)
    made = random.Random(uid) if rng.random() < 0.7 else rng
    return Pod(
        Uid(uid),
        "shop",
        name,
        Workload("shop", "Deployment", f"w{turn}"),
        made.choice(classes),
        rng.choice(("kubedsm", "kubedsm", "kubedsm", "other")),
        node_name=rng.choice((None, None, "n0", "n1", "gone")),
        phase=rng.choice(("Pending", "Running", "Running", "Failed")),
        terminating=rng.random() < 0.1,
        detached=rng.random() < 0.1,
        created=float(rng.randrange(50)),
        labels={"app": made.choice("abc"), made.choice(("side", "other")): "x"},
        resource_version=str(version),
        wishes=Wishes(qos=0.5) if rng.random() < 0.1 else None,
    )


def surrounding(rng):
    volume = Volume(f"v{rng.randrange(2)}", csi=CSIVolume("csi", f"h{rng.randrange(2)}"))
    claim = Claim("shop", f"c{rng.randrange(2)}", f"v{rng.randrange(2)}", bound=True)
    return rng.choice((volume, claim, CSINode(f"n{rng.randrange(4)}", {"csi": 1})))


def happen(mirror, rng, version, classes=CLASSES):
    name = f"p{rng.randrange(14)}"
    uid = f"{name}-{rng.randrange(2)}"
    if classes is RULED and rng.random() < 0.1:
        mirror.apply(SurroundingApplied(surrounding(rng)))
        return
    match rng.randrange(9):
        case 0 | 1:
            mirror.apply(NodeApplied(node(rng)))
        case 2:
            mirror.apply(NodeDeleted(NodeName(f"n{rng.randrange(4)}")))
        case 3:
            mirror.apply(PodDeleted(Uid(uid), "shop", name))
        case 4:
            try:
                mirror.reserve(uid, NodeName(f"n{rng.randrange(4)}"), CLASSES[0].requests)
            except ReservationError:
                mirror.release(uid)
        case 5:
            taken = f"p{rng.randrange(14)}-0"
            bound = (known := mirror.pod(Uid(taken))) is not None and known.node_name is not None
            if not mirror.has_reservation(taken) and not bound:
                mirror.hand_over(uid, taken)
        case _:
            mirror.apply(PodApplied(pod(rng, name, uid, version, classes)))


def state_of(mirror):
    """Return all that a mirror stores, independent of the order of events."""
    seen = mirror.snapshot()
    pods = {uid: attrs.asdict(pod, recurse=False) for uid, pod in seen.pods.items()}
    return {
        "nodes": sorted(seen.nodes.items()),
        "pods": sorted((uid, sorted(map(repr, fields.items()))) for uid, fields in pods.items()),
        "free": sorted(seen.free.items(), key=repr),
        "placed": sorted(seen.placed.items()),
        "surroundings": seen.surroundings,
        "measured": attrs.evolve(seen.measured, placed=dict(seen.measured.placed)),
        "census": sorted(map(repr, seen.census.shares.items())),
        "held": sorted(mirror._reservations.values(), key=repr),
        "claims": sorted(map(repr, mirror._claims.items())),
        "claimed": sorted(mirror.claimed.items()),
        "changes": mirror.changes,
    }
