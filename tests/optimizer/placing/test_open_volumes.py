"""Open nodes as pods of a batch come and go, and batches of pods with volume claims."""

import random

import attrs
import numpy as np
import pytest

from kubedsm.model.model import ClaimReference, SchedulingRules, Tier
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.model.surroundings import (
    Claim,
    CSIDriver,
    CSINode,
    CSIVolume,
    StorageCapacity,
    StorageClass,
    Volume,
)
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.problem import is_plain
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.placing.settling import OpenNodes
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.plugin import Scene
from support import drawing
from support.placement_instances import node, pod, resources, snapshot
from support.rule_instances import CSI, HOST, LOCAL, STATIC, ZONE, drawn_batch, knowing, unbound
from support.rule_instances import drawn as drawn_ruled


def at(name):
    return (Requirement(HOST, "In", (name,)),)


def edge_nodes(count):
    return [node(f"n{n}", Tier.EDGE, labels={HOST: f"n{n}"}) for n in range(count)]


def mounting(name, *claims):
    rules = SchedulingRules(claims=tuple(ClaimReference("shop", claim) for claim in claims))
    return pod(name, f"db-{int(name[1:]) % 20}", resources(0.5, 1), rules=rules)


def drawn(seed):
    """Return a cluster in which pods compete for volumes, storage and attachments."""
    rng = random.Random(seed)
    nodes = edge_nodes(4)
    hosts = [each.name for each in nodes]
    things = [CSIDriver(CSI, reports_capacity=rng.random() < 0.5)]
    things += [CSINode(host, {CSI: rng.randint(1, 3)}) for host in hosts if rng.random() < 0.4]
    things += [StorageCapacity("s", host, CSI, at(host), rng.randint(1, 9)) for host in hosts]
    for number in range(rng.randint(0, 5)):
        where = (NodeSelectorTerm(at(rng.choice(hosts))),) if rng.random() < 0.8 else None
        of = rng.choice((STATIC, STATIC, LOCAL))
        things.append(
            Volume(
                f"v{number}",
                where,
                capacity=rng.randint(2, 6),
                storage_class=of,
                access_modes=("ReadWriteOnce",),
                available=True,
            )
        )
    names = [f"c{number}" for number in range(6)]
    things += [
        unbound(name, rng.randint(1, 4), rng.choice((STATIC, LOCAL, CSI, CSI))) for name in names
    ]
    batch = [mounting(f"p{n}", *rng.sample(names, rng.choice((1, 1, 2)))) for n in range(5)]
    shot = snapshot(nodes, batch)
    return attrs.evolve(shot, surroundings=knowing(*things)), batch


def crowds(seed, draw):
    """Pods of a batch that are put and taken anywhere: what is known, beside the rules."""
    rng = random.Random(seed)
    shot, batch = draw(seed)
    rules = Feasibility.of(shot)
    known, skews = OpenNodes(rules, shot.surroundings, batch), rules.skews(batch)
    homes = {}
    for _ in range(12):
        each = rng.choice(batch)
        for other in batch:
            if rng.random() < 0.5:  # so that it is remembered, for a while
                known.of(other)
        if each.uid in homes:
            node = homes.pop(each.uid)
            known.add_step((each, node, -1))
            rules = rules.without_pod(each.uid)
        else:
            node = homes[each.uid] = rng.choice(rules.index.names)
            known.add_step((each, node, 1))
            rules = rules.with_pod(each, node)
        by = 1 if each.uid in homes else -1
        skews.change(known.like(each), rules.index.positions[node], by)
        if rng.random() < 0.5:
            # Without any assignment or offer of the states before.
            fresh = Scene(rules.index, rules.room, rules.scene.residents, shot.surroundings)
            fresh = attrs.evolve(rules, scene=fresh, verdicts={}, static={}, widened={})
            yield [p for p in batch if p.uid not in homes], known, skews, fresh


@pytest.mark.parametrize("draw", [drawn_ruled, drawn_batch, drawn])
def test_a_node_takes_a_pod_if_it_is_open_has_the_room_and_is_even(draw):
    closed = 0
    for seed in drawing.drawn(range(150)):
        for out, known, skews, rules in crowds(seed, draw):
            for each in out:
                found = known.of(each) & skews.open(known.like(each))
                found = found & ~rules.room.short(each.requests)
                assert (found == rules.taking(each)).all(), seed
                closed += not found.all()
    assert closed > 150


def drawn_unrestricted(seed):
    """Return a cluster in which most claims of a batch exclude no node."""
    rng = random.Random(seed)
    nodes = [node(f"n{n}", Tier.EDGE, labels={HOST: f"n{n}", ZONE: f"z{n % 2}"}) for n in range(4)]
    rare = lambda: rng.random() < 0.03  # noqa: E731
    things = [CSIDriver(CSI, reports_capacity=rng.random() < 0.5)]
    things += [CSINode(host, {CSI: rng.randint(1, 5)}) for host in ("n0", "n1")]
    things += [
        StorageCapacity("s", f"s{n}", CSI, nodes, rng.randint(2, 12), rng.choice((None, 4, 9)))
        for n, nodes in enumerate((at("n1"), ()))
        if not rare()
    ]
    if rare():
        free = {"capacity": 5, "access_modes": ("ReadWriteOnce",), "available": True}
        things.append(Volume("spare", None, storage_class=LOCAL, **free))
    names = [f"c{number}" for number in range(4)]
    for name in names:
        if rng.random() < 0.5:
            more = {"selected_node": "n2"} if rare() else {}
            more |= {"failed_on": frozenset({"n1"})} if rare() else {}
            of = STATIC if rare() else rng.choice((LOCAL, CSI))
            claim = attrs.evolve(unbound(name, 2, of), **more)
            things += [Volume("kept", claim=("shop", name, ""))] if rare() else []
        else:
            claim = Claim("shop", name, volume=f"v-{name}", bound=not rare(), lost=rare())
            reached = {"nodes": (NodeSelectorTerm(at("n3")),)} if rare() else {}
            reached |= {"labels": {ZONE: "z1"}} if rare() else {}
            reached |= {"csi": CSIVolume(CSI, name)} if rng.random() < 0.3 else {}
            things += [] if rare() else [Volume(claim.volume, **reached)]
        things.append(attrs.evolve(claim, once_per_pod=rare()))
    shared = rare()
    batch = [
        mounting(f"p{n}", rng.choice(names) if shared else names[n]) for n in range(len(names))
    ]
    shot = snapshot(nodes, batch)
    return attrs.evolve(shot, surroundings=knowing(*things)), batch


def test_claims_of_a_plain_batch_exclude_no_node_at_any_time():
    plain = ruled = 0
    for seed in drawing.drawn(range(300)):
        rng = random.Random(seed)
        shot, batch = drawn_unrestricted(seed)
        rules, closed = Feasibility.of(shot), False
        left = rng.sample(batch, len(batch))
        while left:
            open_to = [rules.taking(pod) | rules.room.short(pod.requests) for pod in left]
            closed |= not np.all(open_to)
            rules = rules.with_pod(left.pop(), rng.choice(rules.index.names))
        is_found = is_plain(shot, batch)
        assert not (is_found and closed), seed
        plain += is_found
        ruled += closed
    assert plain > 30
    assert ruled > 30


@pytest.mark.parametrize(
    ("claim", "pods", "expected"),
    [
        (unbound("c", 1, LOCAL), 1, True),
        (unbound("c", 1, LOCAL), 2, False),
        (unbound("c", 1, "now"), 1, False),
        (Claim("shop", "c", volume="v", bound=True), 2, True),
        (Claim("shop", "c", volume="v", bound=True, once_per_pod=True), 2, False),
    ],
)
def test_a_shared_claim_is_unrestricted_if_bound(claim, pods, expected):
    batch = [mounting(f"p{n}", "c") for n in range(pods)]
    known = knowing(claim, StorageClass("now", provisioner=CSI), Volume("v"))
    shot = attrs.evolve(snapshot(edge_nodes(2), batch), surroundings=known)
    assert is_plain(shot, batch) is expected


def storage(*of):
    return StorageCapacity("s", "all", CSI, *of)


SPARE = {"capacity": 5, "access_modes": ("ReadWriteOnce",), "available": True}


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (storage((), 4), True),
        (storage((), 3), False),
        (storage((), 3, 9), False),
        (storage(at("n0"), 9), False),
        (Volume("spare", None, storage_class=CSI, **SPARE), False),
    ],
)
def test_storage_for_all_claims_of_a_batch_leaves_the_claims_unrestricted(thing, expected):
    batch = [mounting(f"p{n}", f"c{n}") for n in range(2)]
    claims = [unbound(f"c{n}", 2, CSI) for n in range(2)]
    driver = CSIDriver(CSI, reports_capacity=isinstance(thing, StorageCapacity))
    known = knowing(*claims, driver, thing)
    assert is_plain(attrs.evolve(snapshot(edge_nodes(2), batch), surroundings=known), batch) is (
        expected
    )


def test_a_waiting_claim_of_a_placed_pod_is_restricted_to_its_node():
    batch = [attrs.evolve(mounting("p1", "c"), node_name="n0"), mounting("p2", "c")]
    known = knowing(unbound("c", 1, LOCAL))
    assert not is_plain(attrs.evolve(snapshot(edge_nodes(2), batch), surroundings=known), batch[1:])


def _list_things(of, count, nodes):
    """Return claims of one StorageClass for `count` pods, with volumes or storage on each node."""
    hosts = [each.name for each in nodes]
    yield from (unbound(f"c{n}", 5, of) for n in range(count))
    if of == STATIC:
        for number in range(count):
            where = (NodeSelectorTerm(at(hosts[number % len(hosts)])),)
            yield Volume(
                f"v{number}",
                where,
                capacity=5,
                storage_class=STATIC,
                access_modes=("ReadWriteOnce",),
                available=True,
            )
    if of == CSI:
        yield CSIDriver(CSI, reports_capacity=True)
        yield from (CSINode(host, {CSI: 5}) for host in hosts)
        yield from (StorageCapacity("s", host, CSI, at(host), 30) for host in hosts)


@pytest.mark.parametrize(("of", "most"), [(LOCAL, 0), (CSI, 3), (STATIC, 5)])
def test_a_batch_with_claims_judges_each_pod_a_few_times(of, most, monkeypatch):
    count, nodes = 60, edge_nodes(60)
    batch = [mounting(f"p{n}", f"c{n}") for n in range(count)]
    known = knowing(*_list_things(of, count, nodes))
    shot = attrs.evolve(snapshot(nodes, batch), surroundings=known)
    judged, judge = [], Feasibility._judge_class
    monkeypatch.setattr(
        Feasibility, "_judge_class", lambda self, like: judged.append(like) or judge(self, like)
    )
    decision = immediate_schedule(shot, batch, lambda _: QosTarget(), Objective())
    assert len(decision.bindings) == count
    assert len(judged) <= most * count
