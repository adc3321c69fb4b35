"""What the mirror counts along is what counting from scratch gives, whatever happened before."""

import importlib.util
import random
import sys

import attrs
import pytest

from kubedsm.config.settings import Configuration
from kubedsm.model import persistent_map
from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Node, NodeName, Resources, Tier, Uid
from kubedsm.model.residents import Selection, keys_looked_at
from kubedsm.model.snapshot import Snapshot
from support import drawing
from support.histories import CLASSES, RULED, happen
from support.placement_instances import node, pod, resources
from support.rule_instances import app


def from_scratch(seen: Snapshot) -> Snapshot:
    """The same, with nothing known of what adds up."""
    return attrs.evolve(seen, counted=None)


def decided(snapshot):
    waiting = snapshot.schedulable(snapshot.pods.values())
    return Configuration().policy.decide_batch(snapshot, waiting)


def history(seed, events=80, *, classes):
    rng = random.Random(seed)
    # Marks that no plan of ours knows do not take a pod out of the counts.
    mirror = ClusterMirror(followed={Uid("p1-0"), Uid("p2-1")})
    for version in range(events):
        happen(mirror, rng, version, classes)
        yield mirror


def test_room_reserved_for_a_bound_pod_besides_its_own_is_given_back():
    bound = pod("a", "a", resources(1), on="n1")
    mirror = ClusterMirror()
    for event in (NodeApplied(node("n1", Tier.EDGE)), PodApplied(bound)):
        mirror.apply(event)
    free = mirror.free["n1"]
    mirror.reserve("move-1", "n1", bound.requests)
    mirror.hand_over("move-1", bound.uid)
    mirror.apply(PodApplied(bound))
    assert mirror.free["n1"] == free
    mirror.check_invariants()


_ASKED = ((Selection(app("a"), ("shop",)),), (Selection(app("b", "c"), ("shop",), living=True),))


def standing_in(snapshot):
    residents = snapshot.residents
    books = attrs.asdict(residents, recurse=False)
    del books["nodes"], books["surroundings"], books["_covering"], books["selected"]
    columns = [residents.counts(selections).tolist() for selections in _ASKED]
    return books, columns, residents.nodes.names


@pytest.mark.parametrize("classes", [CLASSES, RULED], ids=["resources", "rules"])
def test_who_stands_where_and_what_is_decided_are_as_counted_from_scratch(classes):
    decisions = 0
    for seed in drawing.drawn(range(300), one_in=6):
        rng = random.Random(-seed)
        for mirror in history(seed, classes=classes):
            if seed % 3:
                mirror.snapshot().room.column("cpu")  # which is kept along from then on
            if rng.random() < 0.2:
                seen = mirror.snapshot()
                assert standing_in(seen) == standing_in(from_scratch(seen)), seed
        mirror.check_invariants()
        seen = mirror.snapshot()
        assert seen.census == from_scratch(seen).census, seed
        assert seen.census.looked_at == keys_looked_at(seen.census.classes)
        assert list(seen.census.shares) == sorted(seen.census.shares)
        for resource in ("cpu", "memory", "pods", "example.com/gpu"):
            columns = seen.room.column(resource), from_scratch(seen).room.column(resource)
            assert columns[0].tolist() == columns[1].tolist(), seed
        decision = decided(seen)
        assert repr(decision) == repr(decided(from_scratch(seen))), seed
        decisions += bool(decision.bindings)
    assert decisions > 10


def test_with_pods_placed_or_gone_it_is_what_is_counted_from_scratch():
    kept = 0
    for seed in drawing.drawn(range(100)):
        *_, mirror = history(seed, classes=RULED)
        seen, rng = mirror.snapshot(), random.Random(seed)
        seen.room.column("cpu")
        nodes = [*seen.nodes, NodeName("unknown"), None]
        targets = {uid: rng.choice(nodes) for uid in seen.pods if rng.random() < 0.2}
        for after in (seen.with_placed(targets), seen.without(targets)):
            kept += after.counted is not None
            assert after.census == from_scratch(after).census, seed
            assert after.room.column("cpu").tolist() == [
                after.free[name].cpu for name in after.index.names
            ]
            assert standing_in(after) == standing_in(from_scratch(after)), seed
            free = dict(seen.free)
            for uid in targets:
                pod, source, target = seen.pods[uid], seen.placed.get(uid), after.placed.get(uid)
                if source in free and not pod.finished:
                    free[source] += pod.requests
                if target is not None:
                    free[target] -= pod.requests
            assert free == dict(after.free), seed
        placed = {uid: node for uid, node in targets.items() if node in seen.nodes}
        left = {uid: node for uid, node in seen.placed.items() if uid not in targets}
        assert dict(seen.with_placed(targets).placed) == left | placed, seed
    assert kept > 20


def test_what_was_seen_stays_as_it_was():
    seen = []
    for mirror in history(7, events=200, classes=RULED):
        mirror.check_invariants()
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


def test_a_look_copies_nothing_until_something_changes():
    mirror = ClusterMirror()
    mirror.apply(NodeApplied(Node(NodeName("e1"), {}, Resources(8000))))
    first, second = mirror.snapshot(), mirror.snapshot()
    assert first.pods is second.pods
    assert first.free is second.free


@pytest.fixture(params=["immutables", "no immutables"])
def kind(request, monkeypatch):
    if request.param == "no immutables":
        monkeypatch.setitem(sys.modules, "immutables", None)
    spec = importlib.util.spec_from_file_location("fresh", persistent_map.__file__)
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    return fresh.Map


def test_updates_leave_former_maps_as_they_are(kind):
    rng, plain = random.Random(0), {}
    now, former = kind(), []
    for turn in range(300):
        former.append((now, dict(plain)))
        key = rng.randrange(20)
        if key in plain and turn % 2:
            now = now.delete(key)
            del plain[key]
        elif turn % 7:
            now, plain[key] = now.set(key, turn), turn
        else:
            now = now.update({key: turn, key + 1: turn})
            plain |= {key: turn, key + 1: turn}
    assert all(dict(map_.items()) == known for map_, known in [*former, (now, plain)])
