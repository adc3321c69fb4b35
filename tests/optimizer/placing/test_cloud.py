"""Pods in the cloud: capacity, least allocation, and the sampled window of nodes."""

import random
from collections import Counter

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm.model import node_index
from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.model.measured import Measured, Usage
from kubedsm.model.model import (
    PodAffinityTerm,
    Preferences,
    SchedulingRules,
    SpreadConstraint,
    Taint,
    Tier,
    serving_order,
)
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.objective.load import LoadGoal
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.best_fit import order_by_size
from kubedsm.optimizer.matching.problem import PlacementProblem
from kubedsm.optimizer.placing.cloud import (
    allocation_score,
    allocation_scores,
    place_least_allocated,
)
from kubedsm.optimizer.placing.heuristics import place_one_by_one
from kubedsm.optimizer.policies import kubedsm
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from support import drawing
from support.drawn_problems import drawn_batch, drawn_packing
from support.placement_instances import (
    NO_RULES,
    RULES,
    drawn,
    drawn_requests,
    node,
    pod,
    resources,
    snapshot,
)
from support.rule_instances import DISLIKED, HOST, ZONE, app


def literal_spread(packing, counts):
    """Each pod on the node that is best of all as it comes."""
    loads = packing.nothing()
    for kind in order_by_size(packing, largest_first=True):
        for _ in range(int(counts[kind])):
            room = packing.room_after(loads)
            rated = [
                (_key(packing, kind, n, loads, room), n)
                for n in range(len(packing.nodes))
                if loads[n, kind] < packing.most[n, kind]
                and ((packing.requests[kind] <= room[n]) | (packing.requests[kind] == 0)).all()
            ]
            if rated:
                loads[min(rated)[1], kind] += 1
    return loads


def _key(packing, kind, n, loads, room):
    charged = 0
    if packing.ladders:
        charged = int(packing.ladders.steps[packing.ladders.which[n, kind], loads[n, kind]])
    size = packing.allocatable[n, :2].tolist()
    used = (packing.allocatable - room + packing.requests[kind])[n, :2].tolist()
    score = allocation_score(size, used)
    return int(packing.penalties[n, kind]), charged, -score, int(loads[n].sum())


def literal_least_allocated(packing, counts):
    loads = literal_spread(packing, counts)
    if packing.ladders and loads.sum() < counts.sum():
        packing = attrs.evolve(packing, ladders=None)
        loads = max(loads, literal_spread(packing, counts), key=packing.worth)
    if packing.penalties.any() and loads.sum() < counts.sum():
        packing = attrs.evolve(packing, penalties=np.zeros_like(packing.penalties))
        loads = max(loads, literal_spread(packing, counts), key=packing.worth)
    return loads


def test_each_pod_goes_to_the_best_of_all_nodes():
    short = several = shared = charged = disliked = 0
    for seed in drawing.drawn(range(600)):
        packing, _ = drawn_packing(seed)
        for counts in (packing.counts, packing.counts // 2):
            loads = place_least_allocated(packing, counts)
            assert loads.tolist() == literal_least_allocated(packing, counts).tolist(), seed
            short += bool(0 < loads.sum() < counts.sum())
            several += bool((loads > 1).any())
            shared += bool(((loads > 0).sum(axis=1) > 1).any())
            charged += packing.ladders is not None
            disliked += bool((loads * packing.penalties).any())
    assert min(short, several, shared, charged, disliked) >= 10


def literal_one_by_one(whole, number):
    """All nodes rated for each pod."""
    room, loads = whole.free.copy(), whole.nothing()
    size = np.maximum(whole.allocatable[:, :2], 1)
    line = sorted((serving_order(p), kind) for kind, of in enumerate(whole.kinds) for p in of.pods)
    for _, kind in line:
        asked, best = whole.requests[kind], None
        for row in range(len(room)):
            if (room[row] < asked).any() or loads[row, kind] >= whole.most[row, kind]:
                continue
            before = (size[row] - room[row, :2]) / size[row]
            then = size[row] - room[row, :2] + asked[:2]
            after = then / size[row]
            balance = abs(before[1] - before[0]) - abs(after[1] - after[0])
            score = allocation_scores(size[[row]], then[None])[0] + 200 * (row < number)
            rated = score + 25 * balance
            if best is None or rated > best[0]:
                best = rated, row
        if best is not None:
            room[best[1]] -= asked
            loads[best[1], kind] += 1
    return loads


def test_one_by_one_is_as_if_all_nodes_were_rated_for_each_pod():
    left_out = []
    for seed in drawing.drawn(range(150)):
        _, edge, cloud = drawn_batch(seed, 14)
        whole = PlacementProblem.of(edge.kinds, edge.rows + cloud.rows)
        found = place_one_by_one(whole, len(edge.free))
        assert (found == literal_one_by_one(whole, len(edge.free))).all(), seed
        left_out.append(int(found.sum()) < int(whole.counts.sum()))
    assert 0.1 < sum(left_out) / len(left_out) < 0.9


POLICY = KubeDSM(lambda workload: QosTarget(TARGETS.get(workload.name, 1.0)), Objective())
TARGETS = {"b": 0.5, "c": 0.0}
GIB = 2**30


@pytest.fixture(autouse=True)
def small_clouds_are_large(monkeypatch):
    monkeypatch.setattr(node_index, "_FEWEST_NODES", 3)


def sampling(percentage):
    return attrs.evolve(POLICY, cloud_percentage=percentage)


def clouds(number, cpu=4, **more):
    return [
        node(f"c{at}", Tier.CLOUD, cpu, labels={ZONE: f"z{at % 3}"}, **more) for at in range(number)
    ]


def waiting(number, cpu=1.0, rules=NO_RULES):
    return [
        pod(f"p{n}", "abc"[n % 3], resources(cpu, 0.1), created=float(n), rules=rules)
        for n in range(number)
    ]


def drawn_cluster(seed):
    """Few edge nodes and a cloud with little room, of which some takes only some pods."""
    rng = random.Random(seed)
    nodes = [node(f"e{n}", Tier.EDGE, rng.choice((1, 2, 4))) for n in range(rng.randint(0, 2))]
    for at in range(rng.randint(4, 12)):
        labels = {ZONE: f"z{rng.randint(0, 2)}"} | ({"disk": "ssd"} if rng.random() < 0.4 else {})
        cpu, pods = rng.choice((1, 2, 4, 8)), rng.choice((1, 2, 110, 110))
        taints = [Taint("dedicated", "ml", "NoSchedule")] if rng.random() < 0.2 else []
        nodes.append(node(f"c{at:02}", Tier.CLOUD, cpu, 8, pods, labels=labels, taints=taints))
    classes = [(drawn_requests(rng), rng.choice(RULES)) for _ in range(rng.randint(1, 3))]
    batch = []
    for n in range(rng.choice((1, rng.randint(2, 8), 12))):
        requests, rules = rng.choice(classes)
        batch.append(pod(f"p{n}", rng.choice("abc"), requests, rules=rules, created=float(n)))
    return snapshot(nodes, batch), batch


@given(st.integers(0, 2**32), st.integers(0, 99))
def test_as_many_pods_are_placed_as_by_the_whole_cloud_at_the_same_qos(seed, percentage):
    shot, batch = drawn_cluster(seed)
    whole = POLICY.decide_batch(shot, batch, start=seed)
    found = sampling(percentage).decide_batch(shot, batch, start=seed)
    assert len(found.bindings) == len(whole.bindings)
    assert found.score_after == whole.score_after
    assert (found.proof.placed, found.proof.qos) == (whole.proof.placed, whole.proof.qos)
    if found.looked_at is None:
        assert found == whole
        return
    assert not found.proof.whole
    of_tier, index = {tier: {n.name for n in shot.of_tier(tier)} for tier in Tier}, shot.index
    nodes, others = (
        {index.names[at] for at in mask.nonzero()[0]}
        for mask in (found.looked_at.nodes(index), found.looked_at.others(index))
    )
    assert nodes | others == of_tier[Tier.CLOUD]
    assert (len(nodes), len(nodes | others)) == (found.looked_at.number, found.looked_at.of)
    assert len(nodes) < found.looked_at.of
    assert {b.node for b in found.bindings} <= nodes | of_tier[Tier.EDGE]
    assert all(len(why) == len(shot.nodes) for why in found.unplaced.values())


def test_with_all_of_it_or_a_small_cloud_nothing_changes(monkeypatch):
    monkeypatch.undo()
    for seed in drawing.drawn(range(60)):
        case = drawn(seed)
        plain = POLICY.decide_batch(case.snapshot, case.batch)
        for percentage in (0, 1, 100):
            assert sampling(percentage).decide_batch(case.snapshot, case.batch, start=seed) == plain
    shot = snapshot(clouds(120), batch := waiting(9))
    assert POLICY.decide_batch(shot, batch, start=7) == POLICY.decide_batch(shot, batch)
    assert POLICY.decide_batch(shot, batch).looked_at is None
    assert sampling(10).decide_batch(shot, batch).looked_at.number == 100
    assert sampling(10).decide_batch(snapshot(clouds(99), batch), batch).looked_at is None


def test_every_node_is_looked_at_as_often_as_any_other_give_or_take_a_round():
    nodes = [*clouds(11), *clouds(2, cpu=0.1), node("e1", Tier.EDGE, 1)]
    nodes = list({n.name: n for n in nodes}.values())
    times, start = Counter(), 0
    for number in range(40):
        batch = waiting(1 + number % 4, rules=RULES[-1] if number % 7 == 0 else NO_RULES)
        shot = snapshot(nodes, batch)
        found = sampling((1, 40, 60)[number % 3]).decide_batch(shot, batch, start=start).looked_at
        if found is not None:
            assert found.first == start
            start = found.following
            times.update(shot.index.names[at] for at in found.nodes(shot.index).nonzero()[0])
            of_all = [times[n.name] for n in shot.of_tier(Tier.CLOUD)]
            assert max(of_all) - min(of_all) <= 1
    assert min(times.values()) > 5


def test_it_is_looked_further_until_enough_nodes_take_the_pod():
    far = [attrs.evolve(n, labels={"disk": "ssd"} if n.name > "c5" else {}) for n in clouds(10)]
    shot = snapshot(far, batch := waiting(2, rules=RULES[-1]))
    found = sampling(1).decide_batch(shot, batch).looked_at
    assert (found.number, found.of) == (9, 10)
    # What nothing takes has no say in how far.
    lost = pod("lost", "a", resources(100), created=9.0)
    found = sampling(1).decide_batch(
        snapshot(clouds(10), [*(more := waiting(2)), lost]), [*more, lost]
    )
    assert found.looked_at.number == 3
    assert len(found.unplaced[lost.uid]) == 10


def about_many_nodes():
    """Rules and wishes that look at more than a node by itself."""
    liked = Preferences(node_affinity=((5, NodeSelectorTerm((Requirement("x", "Exists", ()),))),))
    return (
        SchedulingRules(spread=(SpreadConstraint(HOST, 1, app("x"), "shop"),)),
        SchedulingRules(anti_affinity=(PodAffinityTerm(HOST, app("x"), ("shop",)),)),
        SchedulingRules(preferences=liked),
    )


def test_what_many_nodes_are_about_sees_all_of_them():
    for rules in about_many_nodes():
        shot = snapshot(clouds(9), batch := [*waiting(4), pod("r", "a", resources(1), rules=rules)])
        assert sampling(1).decide_batch(shot, batch, start=4) == POLICY.decide_batch(shot, batch)
    avoided = clouds(9, taints=[DISLIKED])
    shot = snapshot(avoided, batch := waiting(4))
    assert sampling(1).decide_batch(shot, batch, start=4) == POLICY.decide_batch(shot, batch)


def test_load_deals_no_pod_out_to_a_node_that_was_not_looked_at():
    batch = waiting(3)
    uses = {f"c{at}": Usage(3000.0, 3 * GIB) for at in range(8)} | {"c8": Usage(0.0, 0.0)}
    measured = Measured(60.0, uses, {p.workload: Usage(100.0, 0.0) for p in batch})
    shot = attrs.evolve(snapshot(clouds(9), batch), measured=measured)
    policy = attrs.evolve(POLICY, load=LoadGoal())
    assert {b.node for b in policy.decide_batch(shot, batch).bindings} & {"c8"}
    found = attrs.evolve(policy, cloud_percentage=1).decide_batch(shot, batch)
    seen = found.looked_at.nodes(shot.index)
    assert not seen[8]
    assert all(seen[shot.index.positions[b.node]] for b in found.bindings)


def test_what_is_not_looked_at_does_not_keep_a_batch_from_being_decided_at_once(monkeypatch):
    pods = [pod(f"a-{n}", "a", resources(1 + n / 10)) for n in range(4)]
    shot = snapshot([node("e1", Tier.EDGE), *clouds(9)], pods)
    monkeypatch.setattr(kubedsm, "_AT_ONCE", 4 * (1 + 3 + 3))
    found = sampling(1).at_once(shot, pods, (), NO_DEADLINE, 5)
    assert found is not None
    assert found[0].looked_at.first == 5
    assert POLICY.at_once(shot, pods, (), NO_DEADLINE) is None
    liked = [pod("r", "a", resources(1), rules=about_many_nodes()[2]), *pods[1:]]
    ruled = snapshot([node("e1", Tier.EDGE), *clouds(9)], liked)
    assert sampling(1).at_once(ruled, liked, (), NO_DEADLINE) is None
