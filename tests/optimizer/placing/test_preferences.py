"""What pods prefer: scored as kube-scheduler does, decisive only where nothing else is."""

from collections import Counter

import attrs
import numpy as np

from kubedsm.model.model import PodClass, Preferences, SchedulingRules, Tier
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.objective.fragmentation import SCALE
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds, Digits
from kubedsm.optimizer.matching.problem import PlacementProblem, group_ruled_kinds
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.plugins.feasibility import Feasibility
from support import drawing
from support.literal_rules import literal_penalties
from support.placement_instances import Instance, node, snapshot
from support.placement_literal import every_placement, homes_of, standing
from support.rule_instances import cluster, drawn, drawn_batch, pod


def qos_target(_):
    return QosTarget()


def decided(shot, pods, bounds=None):
    return immediate_schedule(shot, pods, qos_target, Objective(), bounds=bounds)


def wanting(name="p", labels=(), **preferences):
    return pod(name, labels, preferences=Preferences(**preferences))


def test_the_same_as_the_literal_form():
    seen = Counter()
    for seed in drawing.drawn(range(300)):
        shot, waiting = drawn(seed)
        feasibility = Feasibility.of(shot)
        nodes = sorted(shot.nodes.values(), key=lambda n: n.name)
        for newcomer in waiting:
            given = feasibility.penalties(newcomer, [n.name for n in nodes])
            assert given == literal_penalties(shot, newcomer, nodes), seed
            seen[bool(any(given))] += 1
    assert min(seen.values()) > 50, seen


def without_preferences(shot, pods):
    """The same cluster where no pod prefers anything."""

    def plain(one):
        rules = attrs.evolve(one.pod_class.rules, preferences=Preferences())
        return attrs.evolve(one, pod_class=attrs.evolve(one.pod_class, rules=rules))

    nodes = {
        name: attrs.evolve(n, taints=tuple(t for t in n.taints if t.effect == "NoSchedule"))
        for name, n in shot.nodes.items()
    }
    all_pods = {uid: plain(one) for uid, one in shot.pods.items()}
    return attrs.evolve(shot, nodes=nodes, pods=all_pods), [all_pods[p.uid] for p in pods]


def reached(shot, pods, decision):
    return standing(shot, pods, homes_of(decision), qos_target)


def test_they_never_change_how_many_are_placed_nor_qos():
    seen = Counter()
    for seed in drawing.drawn(range(300), one_in=6):
        shot, pods = drawn_batch(seed)
        plain = without_preferences(shot, pods)
        decision, indifferent = decided(shot, pods), decided(*plain)
        if decision.proof.qos and indifferent.proof.qos:
            assert reached(shot, pods, decision) == reached(*plain, indifferent), seed
            homes, others = ([b.node for b in d.bindings] for d in (decision, indifferent))
            seen[homes == others] += 1
    assert seen[False] >= 3, seen


def only_preferences(shot, pods):
    """The same cluster where no pod demands anything of others."""

    def mild(one):
        rules = SchedulingRules(preferences=one.pod_class.rules.preferences)
        pod_class = PodClass(one.requests, rules, one.pod_class.priority)
        return attrs.evolve(one, pod_class=pod_class)

    all_pods = {uid: mild(one) for uid, one in shot.pods.items()}
    return attrs.evolve(shot, pods=all_pods), [all_pods[p.uid] for p in pods]


def test_beyond_the_bounds_they_cost_nothing_either():
    unproven = 0
    for seed in drawing.drawn(range(300), one_in=6):
        shot, pods = only_preferences(*drawn_batch(seed))
        plain = without_preferences(shot, pods)
        for bounds in (Bounds(states=20), Bounds(loads=6)):
            decision, indifferent = decided(shot, pods, bounds), decided(*plain, bounds)
            assert reached(shot, pods, decision) >= reached(*plain, indifferent), seed
            unproven += not decision.proof.whole
    assert unproven > 12


def test_on_the_edge_nobody_could_like_it_better():
    seen = 0
    for seed in drawing.drawn(range(400), one_in=6):
        shot, pods = only_preferences(*drawn_batch(seed))
        nodes = [attrs.evolve(n, tier=Tier.EDGE) for n in shot.nodes.values()][:3]
        existing = [p for p in shot.pods.values() if p.node_name in {n.name for n in nodes}]
        pods = [attrs.evolve(p, pod_class=attrs.evolve(p.pod_class, priority=0)) for p in pods[:4]]
        shot = cluster(nodes, [*existing, *pods], shot.surroundings)
        decision = decided(shot, pods)
        assert decision.proof.preferences
        liked = {}
        feasibility = Feasibility.of(shot)
        for p in pods:
            names = feasibility.feasible(p)
            liked[p.uid] = dict(zip(names, feasibility.penalties(p, names), strict=True))
        total = sum(liked[b.pod.uid][b.node] for b in decision.bindings)
        best = max(
            (
                *standing(shot, pods, tried, qos_target),
                -sum(liked[uid][name] for uid, name in tried.items()),
            )
            for tried in every_placement(Instance(shot, tuple(pods), {}))
        )
        assert (*reached(shot, pods, decision), -total) == best, seed
        seen += total > 0
    assert seen >= 3


SSD = NodeSelectorTerm((Requirement("disk", "In", ("ssd",)),))


def test_they_come_before_least_allocated_in_the_cloud():
    nodes = [node("c1", Tier.CLOUD, cpu=16), node("c2", Tier.CLOUD, cpu=4, labels={"disk": "ssd"})]
    pods = [wanting(f"p{i}", node_affinity=((1, SSD),)) for i in range(5)]
    decision = decided(snapshot(nodes, pods), pods)
    assert Counter(b.node for b in decision.bindings) == {"c2": 4, "c1": 1}


def test_the_two_digits_of_a_cost_fit_into_64_bits():
    nodes = [node(f"e{i}", Tier.EDGE, labels={"disk": "ssd"} if i else {}) for i in range(300)]
    pods = [wanting(f"p{i}", node_affinity=((1, SSD),)) for i in range(3)]
    shot = snapshot(nodes, pods)
    [kind] = group_ruled_kinds(pods, Feasibility.of(shot), shot.surroundings)
    packing = PlacementProblem.of([kind], shot.in_turn(Tier.EDGE))
    few, many = packing, attrs.evolve(packing, counts=np.array([10**6]))
    for problem, exact in ((few, True), (many, False)):
        digits = Digits.of(problem)
        assert (digits.lost == 0) is exact
        assert digits.penalty > len(nodes) * (SCALE >> digits.lost)
        points = int(problem.counts.sum()) * max(kind.penalties.values())
        assert points * digits.penalty < UNREACHABLE
