"""Pods of a decision go where their tier's nodes are used evenly, and nothing else changes."""

import random
from collections import Counter
from statistics import pstdev

import attrs
import pytest

from kubedsm.model.deadline import Deadline
from kubedsm.model.measured import Measured, Usage
from kubedsm.model.model import Preferences
from kubedsm.model.node_index import zone_of
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.objective.load import Capacity, LoadGoal
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.replica_spread import pairs
from kubedsm.objective.site_demand import SiteGoal
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.plugins.feasibility import Feasibility, is_worse
from support import drawing
from support.measured_loads import drawn_use, edge, measure
from support.placement_instances import drawn, pod, resources, snapshot
from support.placement_literal import homes_of
from support.rule_instances import drawn_batch, zoned
from support.rule_instances import pod as ruled_pod
from support.ruled_instances import ruled_batch


def drawn_sample(shot, rng):
    """Return the snapshot with a random usage sample, in which some objects are not measured."""
    workloads = sorted({pod.workload for pod in shot.pods.values()})
    uses = {workload: drawn_use(rng) for workload in workloads}
    before = {uid: node for uid, node in sorted(shot.placed.items()) if rng.random() < 0.7}
    other = {name: drawn_use(rng) for name in sorted(shot.nodes)}
    sample = measure(attrs.evolve(shot, placed=before), uses, other).measured
    sample = attrs.evolve(
        sample,
        nodes={name: use for name, use in sample.nodes.items() if rng.random() < 0.9},
        workloads={workload: use for workload, use in uses.items() if rng.random() < 0.8},
        came={uid: sample.at - rng.choice((0, 150)) for uid in before if rng.random() < 0.3},
    )
    return attrs.evolve(shot, measured=sample)


GIB = 2**30
GOAL = LoadGoal()
POLICY = KubeDSM(lambda _: QosTarget(), Objective(), load=GOAL)
BLIND = attrs.evolve(POLICY, load=None)
SOME = Usage(400.0, 0.0)
IDLE, BUSY, FULL = Usage(0.0, 0.0), Usage(2000.0, 0.2 * GIB), Usage(3600.0, 3.6 * GIB)


def waiting(number, service="web", cpu=0.1):
    return [
        pod(f"{service}-{n}", service, resources(cpu, 0.1), created=float(n)) for n in range(number)
    ]


def sampled(nodes, pods, uses, of_pod=SOME):
    """Nodes that use that, by name, and waiting pods whose workloads use that."""
    of_pods = {p.workload: of_pod for p in pods}
    return attrs.evolve(snapshot(nodes, pods), measured=Measured(60.0, uses, of_pods))


def homes(decision):
    return {b.pod.name: b.node for b in decision.bindings}


def test_a_pod_that_follows_its_users_goes_to_no_idle_node_of_another_site():
    nodes = [edge(f"e{n}", labels={"site": site}) for n, site in enumerate("aab")]
    pods, demand = waiting(1), {"a": 1.0}
    goal = SiteGoal(("site",), lambda _: demand, None, lambda _: None, 0.01, 0.04, 0.08)
    shot = sampled(nodes, pods, {"e0": BUSY, "e1": SOME, "e2": IDLE})
    assert homes(POLICY.decide_batch(shot, pods)) == {"web-0": "e2"}
    near = attrs.evolve(POLICY, sites=goal)
    assert homes(near.decide_batch(shot, pods)) == {"web-0": "e1"}


def test_what_a_pod_likes_is_added_up_with_the_score():
    """A preferred node weighs 200 here, the score some 30: at weight 9 it decides."""
    ssd = ((100, NodeSelectorTerm((Requirement("disk", "Exists"),))),)
    picky = ruled_pod("p", preferences=Preferences(node_affinity=ssd))
    nodes = [zoned("e1", labels={"disk": "ssd"}), zoned("e2")]
    shot = sampled(nodes, [picky], {"e1": Usage(2400.0, 0.0), "e2": IDLE}, IDLE)
    assert homes(POLICY.decide_batch(shot, [picky])) == {"p": "e1"}
    heavy, none = (attrs.evolve(POLICY, load=attrs.evolve(GOAL, weight=w)) for w in (9.0, 0.0))
    found = heavy.decide_batch(shot, [picky])
    assert homes(found) == {"p": "e2"}
    assert not found.proof.preferences
    assert none.decide_batch(shot, [picky]) == BLIND.decide_batch(shot, [picky])


def test_nobody_goes_where_room_is_not_there_yet():
    """The old pod is about to leave e2, which is idle: of its room nobody is sent there."""
    old = attrs.evolve(pod("old", "old", resources(3), on="e2"), phase="Running", ready=True)
    new = waiting(1, cpu=3)
    nodes = [edge("e1"), edge("e2")]
    shot = sampled(nodes, [old, *new], {"e1": BUSY, "e2": IDLE})
    decision, held = POLICY.decide_ahead(shot, new, [old.uid])
    assert (homes(decision), held) == ({"web-0": "e1"}, ())
    assert homes(POLICY.decide_batch(shot.without([old.uid]), new)) == {"web-0": "e2"}


def clusters():
    for seed in drawing.drawn(range(40)):
        instance = drawn(seed, most=8)
        yield seed, instance.snapshot, instance.batch
    for seed in drawing.drawn(range(20)):
        yield seed, *drawn_batch(seed)
        yield seed, *ruled_batch(seed, most=10)


def test_against_trying_every_node_for_every_pod():
    changed = 0
    for number, (seed, bare, batch) in enumerate(clusters()):
        rng = random.Random(f"{seed} {number}")
        shot = drawn_sample(bare, rng)
        goal = LoadGoal(
            rng.choice((1.0, 1.0, 5.0)), rng.choice((0.85, 9.0)), capacity=(Capacity(net=100.0),)
        )
        policy = attrs.evolve(POLICY, load=goal, default_spread=rng.random() < 0.8)
        plain = attrs.evolve(policy, load=None).decide_batch(shot, batch)
        found = policy.decide_batch(shot, batch)
        assert found.bindings == _literally(plain, shot, goal, policy.default_spread)
        changed += found.bindings != plain.bindings
        _as_good(found, plain, shot, policy.default_spread)
    assert changed >= 3


@pytest.mark.parametrize(
    "seed",
    [
        *(325, 477, 563, 585),  # a pod would go and leave another against its rules
        *(225, 273, 385, 509),  # the rules would have others come before it
        1023,  # one that was left over would have room
    ],
)
def test_so_it_is_where_others_are_in_the_way(seed):
    bare, batch = ruled_batch(seed, most=10)
    shot = drawn_sample(bare, random.Random(seed))
    goal = LoadGoal(5.0, 9.0, capacity=(Capacity(),))
    policy = attrs.evolve(POLICY, load=goal, default_spread=bool(seed % 3))
    plain = attrs.evolve(policy, load=None).decide_batch(shot, batch)
    found = policy.decide_batch(shot, batch)
    assert found.bindings == _literally(plain, shot, goal, policy.default_spread)
    _as_good(found, plain, shot, policy.default_spread)


def _as_good(found, plain, shot, spread):
    assert [(b.pod, b.tier) for b in found.bindings] == [(b.pod, b.tier) for b in plain.bindings]
    assert found.shares_after == plain.shares_after
    assert found.unplaced.keys() == plain.unplaced.keys()
    assert found.bindings == plain.bindings or not found.proof.fragmentation
    state = Feasibility.of(shot)
    for binding in found.bindings:
        assert state.rejection(binding.pod, binding.node) is None
        state = state.with_pod(binding.pod, binding.node)
    assert not any(state.feasible(shot.pods[uid]) for uid in found.unplaced) or (
        found.bindings == plain.bindings
    )
    if spread:
        assert _together(shot, found) <= _together(shot, plain)


def _together(shot, decision):
    """Pairs of replicas on a node, and in a zone, of pods that leave that to us."""
    own = {b.pod.workload for b in decision.bindings if b.pod.pod_class.rules.spread}
    own |= {b.pod.workload for b in decision.bindings if b.pod.pod_class.rules.preferences.spread}
    placed = {**shot.placed, **homes_of(decision)}
    counted = [shot.pods[uid] for uid in placed if shot.pods[uid].counts_for_qos]
    counted = [(p.workload, shot.nodes[placed[p.uid]]) for p in counted if p.workload not in own]
    on_node = Counter((workload, at.name) for workload, at in counted)
    in_zone = Counter((workload, zone_of(at)) for workload, at in counted)
    return sum(map(pairs, on_node.values())) + sum(map(pairs, in_zone.values()))


def _literally(decision, shot, goal, spread):
    """Each in turn tried on every node, everything looked at anew."""
    placed = homes_of(decision)
    given = {}
    for pod_, here, tier in decision.bindings:
        everyone = Feasibility.of(shot.with_placed(placed))
        others = Feasibility.of(
            shot.with_placed({u: n for u, n in placed.items() if u != pod_.uid})
        )
        come = Feasibility.of(shot.with_placed(given))
        if come.rejection(pod_, here):
            return decision.bindings
        open_to = [here]
        for name in others.feasible(pod_):
            moved = shot.with_placed({**placed, pod_.uid: name})
            if (
                name != here
                and shot.nodes[name].tier is tier
                and come.rejection(pod_, name) is None
                and not (spread and _closer(shot, placed, pod_, here, name))
            ):
                open_to.append(name)
        scores = {name: _score(shot, goal, given, pod_, name) for name in open_to}
        penalties = dict(zip(open_to, others.penalties(pod_, open_to), strict=True))
        ranked = [here]
        if scores[here] is not None:
            known = [name for name in open_to if scores[name] is not None]
            ranked = sorted(
                known,
                key=lambda name: (penalties[name] - goal.weight * scores[name], name != here, name),
            )
        for name in ranked:
            moved = Feasibility.of(shot.with_placed({**placed, pod_.uid: name}))
            everybody = shot.pods.values()
            if name == here or not is_worse(
                everyone.broken_rules(everybody), moved.broken_rules(everybody)
            ):
                break
        placed[pod_.uid] = given[pod_.uid] = name
    final = Feasibility.of(shot.with_placed(placed))
    if any(final.feasible(shot.pods[uid]) for uid in decision.unplaced):
        return decision.bindings
    return tuple(b._replace(node=placed[b.pod.uid]) for b in decision.bindings)


def _closer(shot, placed, pod_, here, there):
    """Whether it would join more of its replicas there."""
    rules = pod_.pod_class.rules
    if rules.spread or rules.preferences.spread:
        return False
    everywhere = {**shot.placed, **placed}
    alike = [
        shot.nodes[name]
        for uid, name in everywhere.items()
        if uid != pod_.uid
        and shot.pods[uid].workload == pod_.workload
        and shot.pods[uid].counts_for_qos
    ]
    joined = [
        sum(at.name == name for at in alike)
        + sum(zone_of(at) == zone_of(shot.nodes[name]) for at in alike)
        for name in (here, there)
    ]
    return joined[1] > joined[0]


def _score(shot, goal, given, pod_, name):
    """In plain numbers; None if too little is known."""
    sample, size = shot.measured, shot.nodes[name].allocatable
    came = [(pod_, 1.0), *((shot.pods[uid], 1.0) for uid, at in given.items() if at == name)]
    for uid, at in shot.placed.items():
        if at == name and not shot.pods[uid].finished:
            known = sample.at - sample.came.get(uid, sample.at - 300.0)
            part = 1.0 if sample.placed.get(uid) != at else 1.0 - known / 300.0
            came.append((shot.pods[uid], part))
    ratios = []
    for what, most in (
        ("cpu", size.cpu),
        ("memory", size.memory),
        ("net", goal.capacity[0].net),
        ("disk", None),
    ):
        used = getattr(sample.nodes.get(name, Usage()), what)
        if used is None or not most:
            continue
        for each, part in came:
            measured = getattr(sample.workloads.get(each.workload, Usage()), what)
            used += part * (getattr(each.requests, what, 0) if measured is None else measured)
        ratios.append(used / most)
    if max(ratios, default=0.0) > goal.high_usage:
        return round(100 * (goal.high_usage - max(ratios)), 6)
    return round(max(0.0, (1 - pstdev(ratios)) * 100), 6) if len(ratios) > 1 else None


def test_who_has_no_time_leaves_it_as_it_is():
    nodes, pods = [edge("e1"), edge("e2")], waiting(1)
    shot = sampled(nodes, pods, {"e1": FULL, "e2": IDLE})
    late = Deadline(lambda: 1.0)
    assert homes(POLICY.decide_batch(shot, pods, late)) == homes(
        BLIND.decide_batch(shot, pods, late)
    )
