"""What the mirror counts along is what counting from scratch gives, whatever happened before."""

import random

import attrs
import pytest

from kubedsm.configuration.settings import Configuration
from kubedsm.core.world.events import (
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
)
from kubedsm.core.world.mirror import ClusterMirror, ReservationError
from kubedsm.core.world.model import (
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
    Workload,
)
from kubedsm.core.world.residents import Selection, keys_looked_at
from kubedsm.core.world.selectors import Requirement
from kubedsm.core.world.snapshot import Snapshot
from kubedsm.core.world.surroundings import Claim, CSINode, CSIVolume, Volume
from kubedsm.core.world.wishes import Wishes
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


def pod(rng, name, uid, version, classes):
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


def happen(mirror, rng, version, classes):
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
            if not mirror.reserved(taken) and not bound:
                mirror.hand_over(uid, taken)
        case _:
            mirror.apply(PodApplied(pod(rng, name, uid, version, classes)))


def from_scratch(seen: Snapshot) -> Snapshot:
    """The same, with nothing known of what adds up."""
    return attrs.evolve(seen, counted=None)


def decided(snapshot):
    waiting = snapshot.schedulable(snapshot.pods.values())
    return Configuration().policy.decide(snapshot, waiting)


def history(seed, events=80, classes=CLASSES):
    rng = random.Random(seed)
    # Marks that no plan of ours knows do not take a pod out of the counts.
    mirror = ClusterMirror(followed={Uid("p1-0"), Uid("p2-1")})
    for version in range(events):
        happen(mirror, rng, version, classes)
        yield mirror


@pytest.mark.parametrize("block", range(10))
def test_decisions_are_those_of_a_count_from_scratch(block):
    decisions = 0
    for seed in range(30 * block, 30 * block + 30):
        for mirror in history(seed):
            if seed % 3:
                mirror.snapshot().room.column("cpu")  # which is kept along from then on
        mirror.check_invariants()
        seen = mirror.snapshot()
        assert seen.census == from_scratch(seen).census, seed
        assert seen.census.looked_at == keys_looked_at(seen.census.classes)
        assert list(seen.shares()) == sorted(seen.shares())
        for resource in ("cpu", "memory", "pods", "example.com/gpu"):
            columns = seen.room.column(resource), from_scratch(seen).room.column(resource)
            assert columns[0].tolist() == columns[1].tolist(), seed
        decision = decided(seen)
        assert repr(decision) == repr(decided(from_scratch(seen))), seed
        decisions += bool(decision.bindings)
    assert decisions > 10


def test_without_some_pods_it_is_what_is_counted_from_scratch():
    for seed in range(100):
        *_, mirror = history(seed)
        seen, rng = mirror.snapshot(), random.Random(seed)
        seen.room.column("cpu")
        gone = [uid for uid in seen.pods if rng.random() < 0.2]
        for left in (
            seen.without(gone),
            seen.without(uid for uid in seen.pods if not seen.pods[uid].counts_for_qos),
        ):
            assert left.census == from_scratch(left).census, seed
            assert left.room.column("cpu").tolist() == [left.free[n].cpu for n in left.index.names]


_ASKED = ((Selection(app("a"), ("shop",)),), (Selection(app("b", "c"), ("shop",), living=True),))


def standing_in(snapshot):
    residents = snapshot.residents
    books = attrs.asdict(residents, recurse=False)
    del books["nodes"], books["surroundings"], books["_covering"], books["_known"]
    columns = [residents.counts(selections).tolist() for selections in _ASKED]
    return books, columns, residents.nodes.names


@pytest.mark.parametrize("block", range(10))
def test_who_stands_where_is_what_a_look_at_all_pods_finds(block):
    decisions = 0
    for seed in range(30 * block, 30 * block + 30):
        rng = random.Random(-seed)
        for mirror in history(seed, classes=RULED):
            if rng.random() < 0.2:
                seen = mirror.snapshot()
                assert standing_in(seen) == standing_in(from_scratch(seen)), seed
        mirror.check_invariants()
        seen = mirror.snapshot()
        assert seen.census.looked_at == keys_looked_at(seen.census.classes)
        decision = decided(seen)
        assert repr(decision) == repr(decided(from_scratch(seen))), seed
        decisions += bool(decision.bindings)
    assert decisions > 10


def test_what_was_seen_stays_as_it_was():
    seen = []
    for mirror in history(7, events=200, classes=RULED):
        snapshot = mirror.snapshot()
        copied = {
            name: dict(getattr(snapshot, name)) for name in ("nodes", "pods", "free", "placed")
        }
        seen.append((snapshot, copied, snapshot.census, standing_in(snapshot)))
    for snapshot, copied, census, standing in seen:
        assert standing_in(snapshot) == standing_in(from_scratch(snapshot)) == standing
        for name, then in copied.items():
            assert dict(getattr(snapshot, name)) == then
        assert from_scratch(snapshot).census == census


def test_a_snapshot_that_is_changed_is_counted_anew():
    mirror = ClusterMirror()
    mirror.apply(NodeApplied(Node(NodeName("e1"), {"kubedsm.io/tier": "edge"}, Resources(8000))))
    mine = Pod(Uid("u"), "shop", "p", Workload("shop", "Deployment", "w"), CLASSES[0], "kubedsm")
    mirror.apply(PodApplied(mine))
    seen = mirror.snapshot()
    [[workload, share]] = seen.shares().items()
    assert (share.edge, share.total) == (0, 1)
    assert seen.with_placed({mine.uid: NodeName("e1")}).shares()[workload].edge == 1
    mirror.apply(PodApplied(attrs.evolve(mine, node_name=NodeName("e1"))))
    bound = mirror.snapshot()
    assert bound.shares()[workload].edge == 1
    assert bound.without([mine.uid]).shares()[workload].edge == 0


def test_a_look_copies_nothing_until_something_changes():
    mirror = ClusterMirror()
    mirror.apply(NodeApplied(Node(NodeName("e1"), {}, Resources(8000))))
    first, second = mirror.snapshot(), mirror.snapshot()
    assert first.pods is second.pods
    assert first.free is second.free
