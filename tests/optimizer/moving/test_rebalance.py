"""One move a suggestion to spread a workload, and no more than that."""

import itertools
import random
from collections import Counter

import attrs
import pytest

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Taint, Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import MoveKind, SuggestLimits
from kubedsm.plugins.fit import shortages
from support import drawing, suggest_instances
from support.literal_moves import broken, carried_out, stages
from support.literal_rules import reasons
from support.placement_instances import Instance, node, resources, snapshot
from support.rule_instances import app, near
from support.ruled_instances import leaning, member, ruled_case
from support.suggest_instances import OBJECTIVES, Case, crowded_case, drawn_case, running, told

ZONE = "topology.kubernetes.io/zone"
LIMITS = SuggestLimits(spread=True)
WITHIN_A_TIER = (MoveKind.EDGE_TO_EDGE, MoveKind.CLOUD_TO_CLOUD)
#: all that may be is there already
CONTENT = QosTarget(0.0)


def edge(name, cpu=4, zone=None, **more):
    return node(name, Tier.EDGE, cpu, 64, labels={ZONE: zone} if zone else {}, **more)


def cloud(name="c1", cpu=64, **more):
    return node(name, Tier.CLOUD, cpu, 64, **more)


def together(service, number, on, cpu=1, **more):
    """Pods of a service on one node, the later the younger."""
    return [
        running(f"{service}-{n}", service, resources(cpu), on, created=float(n), **more)
        for n in range(number)
    ]


def count_pairs(shot, workload=None):
    """Pairs of running replicas of a workload, or any, on a node; and in a zone."""
    replicas = [
        (pod.workload, shot.nodes[shot.placed[pod.uid]])
        for pod in shot.pods.values()
        if pod.uid in shot.placed and not pod.terminating and workload in (None, pod.workload)
    ]
    pairs = [
        (here, there)
        for (one, here), (other, there) in itertools.combinations(replicas, 2)
        if one == other
    ]
    on_node = sum(here is there for here, there in pairs)
    return on_node, sum(here.labels.get(ZONE) == there.labels.get(ZONE) for here, there in pairs)


def suggested(nodes, pods, limits=LIMITS, targets=None, **more):
    shot = snapshot(nodes, pods)
    how = {"objective": Objective(beta=0.0), "usual": CONTENT, **more}
    found = suggest_instances.suggested(nodes, pods, targets, limits, **how)
    after = after_moves(shot, found.moves)
    if all(move.rebalances for move in found.moves):
        assert found.after.qos == found.before.qos
        assert found.after.shares == found.before.shares
    if any(move.rebalances for move in found.moves) and found.after.qos == found.before.qos:
        assert sum(count_pairs(after)) < sum(count_pairs(shot))
    return found


def test_the_youngest_of_three_on_one_node_goes_to_another():
    found = suggested([edge("e1"), edge("e2"), cloud()], together("a", 3, "e1"))
    assert told(found) == {("a-2", "e1", "e2", "edge-to-edge")}
    [move] = found.moves
    assert move.rebalances
    assert move.purpose == "to spread shop/a over nodes"
    assert [leg.needs for leg in found.legs] == [frozenset()]
    assert found.proven


def drained():
    """Three nodes, and 18 pods of a service on two of them."""
    more = [attrs.evolve(p, name=f"{p.name}b", uid=f"{p.uid}b") for p in together("a", 9, "e2")]
    return [edge(f"e{n}", 24) for n in (1, 2, 3)], [*together("a", 9, "e1"), *more]


@pytest.mark.parametrize(("seconds", "left"), [(60.0, 9), (90.0, 8), (200.0, 7), (3600.0, 6)])
def test_replicas_spread_as_far_as_the_benefit_exceeds_the_price(seconds, left):
    nodes, pods = drained()
    limits = attrs.evolve(LIMITS, price=17.0)
    for _ in range(20):
        found = suggested(nodes, pods, limits, lasting=lambda _: seconds)
        pods = list(carried_out(snapshot(nodes, pods), found).pods.values())
    assert max(Counter(pod.node_name for pod in pods).values()) == left
    assert not found.moves
    assert found.may_pay_later == (left > 6)


def test_replicas_on_a_node_that_was_deleted_do_not_count():
    deleted, pods = edge("deleted"), together("web", 2, "deleted")
    shot = attrs.evolve(
        snapshot([deleted, edge("e1"), edge("e2")], pods),
        nodes={name: edge(name) for name in ("e1", "e2")},
    )
    assert suggest(shot, lambda _: CONTENT, Objective(beta=0.0), LIMITS).moves == ()


def test_a_node_that_it_likes_less_is_no_place_for_it():
    other = edge("e2", taints=(Taint("old", "", "PreferNoSchedule"),))
    assert not suggested([edge("e1"), other], together("a", 2, "e1")).moves


@pytest.mark.parametrize(
    "pods",
    [
        together("a", 1, "e1"),
        [*together("a", 2, "e1"), running("a-9", "a", resources(1), "e2")],
        [attrs.evolve(pod, ready=pod.name == "a-0") for pod in together("a", 2, "e1")],
        [attrs.evolve(pod, terminating=pod.name == "a-0") for pod in together("a", 2, "e1")],
        [attrs.evolve(pod, pinned="it is told to stay") for pod in together("a", 2, "e1")],
        [attrs.evolve(pod, scheduler_name="other") for pod in together("a", 2, "e1")],
    ],
    ids=["one", "on two", "one Ready", "one leaves", "pinned", "of another"],
)
def test_nothing_moves_that_need_not_or_must_not(pods):
    assert not suggested([edge("e1"), edge("e2"), cloud()], pods).moves


def test_the_most_pods_come_first_before_them_the_weight_and_first_the_priority():
    nodes = [edge("e1", 16), edge("e2", 1)]
    pods = [*together("a", 2, "e1"), *together("b", 3, "e1"), *together("c", 2, "e1")]
    assert told(suggested(nodes, pods)) == {("b-2", "e1", "e2", "edge-to-edge")}
    heavy = {"a": QosTarget(0.0, 2.0)}
    assert told(suggested(nodes, pods, targets=heavy)) == {("a-1", "e1", "e2", "edge-to-edge")}
    pods = [*pods[:5], *together("c", 2, "e1", priority=5)]
    assert told(suggested(nodes, pods, targets=heavy)) == {("c-1", "e1", "e2", "edge-to-edge")}


def test_it_goes_to_another_zone_rather_then_where_it_costs_least():
    pods = [*together("a", 2, "e1", 2), running("b-1", "b", resources(3), "c1")]
    # On e2, a would leave a core that is of no use; on e3 it leaves room for the three cores of b.
    nodes = [edge("e1", 4, "x"), edge("e2", 4, "x"), edge("e3", 5, "x"), cloud(unschedulable=True)]
    limits = attrs.evolve(LIMITS, max_cloud_to_edge=0)
    assert told(suggested(nodes, pods, limits)) == {("a-1", "e1", "e3", "edge-to-edge")}
    nodes[1] = edge("e2", 4, "y")
    assert told(suggested(nodes, pods, limits)) == {("a-1", "e1", "e2", "edge-to-edge")}


def test_in_the_cloud_it_goes_where_least_is_allocated():
    nodes = [cloud("c1"), cloud("c2", 8), cloud("c3", 32)]
    assert told(suggested(nodes, together("a", 2, "c1"))) == {("a-1", "c1", "c3", "cloud-to-cloud")}


def test_it_pays_only_where_the_workload_stays_as_it_is_for_long_enough():
    """It is worth a pod at the edge for that long."""
    nodes, pods = [edge("e1"), edge("e2", 1)], [*together("a", 3, "e1"), *together("b", 2, "e1")]
    priced = attrs.evolve(LIMITS, price=20.0)
    stays = {"a": 20.0, "b": 20.5}
    found = suggested(nodes, pods, priced, lasting=lambda w: stays[w.name])
    assert [move.pod.name for move in found.moves] == ["b-1"]
    stays["b"] = 19.0
    found = suggested(nodes, pods, priced, lasting=lambda w: stays[w.name])
    assert not found.moves
    assert found.may_pay_later
    assert [left.pod.name for left in found.rejected] == ["a-2"]
    assert "gains 20.0 pod-seconds, no more than its price of 20.0" in found.rejected[0].reason
    assert suggested(nodes, pods, LIMITS, lasting=lambda _: 0.0).moves


def test_the_deadline_ends_it():
    nodes, late = [edge("e1"), edge("e2")], Bounds(deadline=Deadline(lambda: 1.0))
    assert not suggested(nodes, together("a", 2, "e1"), bounds=late).moves


def test_who_has_rules_about_others_waits_until_nothing_else_moves():
    close = {"affinity": (near(app("a"), key=ZONE),)}
    nodes = [edge("e1", zone="x"), edge("e2", zone="x"), cloud()]
    pods = [member(f"a-{n}", "a", "e1", **close) for n in range(2)]
    assert [m.pod.workload.name for m in suggested(nodes, pods).moves] == ["a"]
    pods.append(running("b-1", "b", resources(1), "c1"))
    beside = suggested(nodes, pods, targets={"b": QosTarget(1.0)})
    assert [m.pod.workload.name for m in beside.moves] == ["b"]


def test_defragmenting_puts_nothing_at_risk():
    """Together the two of a would leave a whole node free, of use to who requests one."""
    nodes = [edge("e1"), edge("e2"), cloud()]
    pods = [running(f"a-{n}", "a", resources(2), f"e{n}") for n in (1, 2)]
    pods.append(attrs.evolve(running("d-1", "d", resources(4), "c1"), ready=False))
    tidy = SuggestLimits(defragment=True)
    assert len(suggested(nodes, pods, tidy).moves) == 1
    found = suggested(nodes, pods, attrs.evolve(tidy, spread=True))
    assert not found.moves
    # A third one, in the cloud, does not make it better.
    pods.append(running("a-3", "a", resources(1), "c1"))
    assert not suggested(nodes, pods, attrs.evolve(tidy, spread=True)).moves


def lumped(seed):
    """Pods of a service on one node, mostly, and room here and there."""
    rng = random.Random(seed)
    nodes = [
        node(f"{tier}-{n}", tier, rng.choice((2, 3, 4, 6)), 64, labels={ZONE: rng.choice("xy")})
        for tier in Tier
        for n in range(rng.choice((1, 2, 3)))
    ]
    free = {of.name: of.allocatable for of in nodes}
    pods, targets = [], {}
    for service in "abcd"[: rng.randint(1, 4)]:
        targets[service] = QosTarget(rng.choice((0.0, 0.5, 1.0)), rng.choice((1.0, 2.0)))
        home, requests = rng.choice(nodes).name, resources(rng.choice((0.5, 1, 2)))
        for n in range(rng.randint(1, 4)):
            on = home if rng.random() < 0.9 else rng.choice(nodes).name
            if not shortages(requests, free[on]):
                free[on] -= requests
                pods.append(running(f"{service}-{n}", service, requests, on, created=float(n)))
    limits = SuggestLimits(
        max_moves=rng.choice((1, 2, 4)),
        max_edge_reorder=rng.choice((0, 1, 3)),
        defragment=rng.random() < 0.3,
        spread=True,
    )
    return Case(Instance(snapshot(nodes, pods), (), targets), limits, rng.choice(OBJECTIVES))


def nodes_of(shot, workload):
    return [shot.placed.get(p.uid) for p in shot.pods.values() if p.workload == workload]


def after_moves(shot, moves):
    return shot.with_placed({move.pod.uid: move.target for move in moves})


def possible(shot, found):
    """All that could be done: by enumeration, whatever is best."""
    others = [m for m in (*found.moves, *found.awaited) if not m.rebalances]
    free = dict(shot.free)
    for move in others:
        for name in {move.target, move.stopover} - {None}:
            free[name] -= move.pod.requests
    busy = {move.pod.workload for move in others}
    movable = default_movable(shot)
    by_workload = {}
    for pod in shot.pods.values():
        ours = pod.scheduler_name == shot.scheduler_name and pod.counts_for_qos
        if pod.uid in shot.placed and ours:
            by_workload.setdefault(pod.workload, []).append(pod)
    for workload, pods in by_workload.items():
        on_node, in_zone = count_pairs(shot, workload)
        for pod in pods:
            source = shot.nodes[pod.node_name]
            for target in shot.nodes.values():
                then = count_pairs(shot.with_placed({pod.uid: target.name}), workload)
                if (
                    workload not in busy
                    and sum(pod.ready for pod in pods) > 1
                    and then[0] < on_node
                    and sum(then) < on_node + in_zone
                    and not movable(pod)
                    and target.tier is source.tier
                    and target is not source
                    and not reasons(pod.pod_class, target, free[target.name])
                ):
                    yield workload, pod.name, target.name


@pytest.mark.parametrize("draw", [lumped, drawn_case, crowded_case])
def test_one_is_made_if_and_only_if_one_can_be(draw):
    seen = Counter()
    for seed in drawing.drawn(range(300), one_in=6):
        case = draw(seed)
        shot, limits = case.snapshot, attrs.evolve(case.limits, spread=True)
        found = suggest(shot, case.qos_targets, case.objective, limits)
        made = [move for move in found.moves if move.rebalances]
        others = [move for move in found.moves if not move.rebalances]
        inside = sum(move.kind is MoveKind.EDGE_TO_EDGE for move in others)
        left = limits.max_moves - len(found.legs) + len(made) - len(found.awaited)
        could = [
            choice
            for choice in possible(shot, found)
            if left > 0
            and (shot.nodes[choice[-1]].tier is Tier.CLOUD or inside < limits.max_edge_reorder)
        ]
        assert len(made) == bool(could), seed
        if made:
            [move] = made
            workload = move.pod.workload
            assert (workload, move.pod.name, move.target) in could
            alone = {of: not len(set(nodes_of(shot, of))) > 1 for of, *_ in could}
            worth = {of: (alone[of], case.qos_targets(of).weight) for of, *_ in could}
            assert worth[workload] == max(worth.values())
            after = carried_out(shot, found)
            assert count_pairs(after, workload) < count_pairs(shot, workload)
            assert not any(leg.needs for leg in found.legs if leg.move.rebalances)
            without = suggest(shot, case.qos_targets, case.objective, case.limits)
            if not case.limits.spread and others != list(without.moves):
                # Of migrations with the same QoS, those that separate more replicas.
                assert count_pairs(after_moves(shot, others)) < count_pairs(
                    after_moves(shot, without.moves)
                ), seed
            assert found.after.shares == without.after.shares
            seen[move.kind] += 1
            seen["beside others"] += bool(others)
    if draw is lumped:
        assert min(seen[kind] for kind in (*WITHIN_A_TIER, "beside others")) >= 2, seen


def test_under_rules_between_pods_none_is_broken():
    seen = Counter()
    for seed in drawing.drawn(range(300), one_in=6):
        case = ruled_case(seed, leaning) if seed % 2 else ruled_case(seed)
        shot, limits = case.snapshot, attrs.evolve(case.limits, spread=True)
        found = suggest(shot, case.qos_targets, case.objective, limits)
        made = [move for move in found.moves if move.rebalances]
        carried_out(shot, found, seed)
        assert not any(broken(shot, after) for after in stages(shot, found)), seed
        seen["made"] += bool(made)
        seen["refused"] += not made and bool(list(possible(shot, found)))
    assert seen["made"], seen
    assert seen["refused"], seen


@pytest.mark.parametrize("defragment", [False, True])
def test_suggesting_again_and_again_comes_to_its_end(defragment):
    seen = Counter()
    for seed in drawing.drawn(range(300), one_in=6):
        case = lumped(seed)
        shot, limits = case.snapshot, attrs.evolve(case.limits, defragment=defragment)
        ranks = []
        for _ in range(40):
            found = suggest(shot, case.qos_targets, case.objective, limits)
            rank = (
                found.before.qos,
                -sum(count_pairs(shot)),
                -found.before.fragmentation,
            )
            assert not ranks or rank > ranks[-1], seed
            ranks.append(rank)
            if not found.moves:
                break
            shot = carried_out(shot, found)
            seen["rebalanced"] += any(move.rebalances for move in found.moves)
            seen["tidied"] += found.after.qos == found.before.qos and not any(
                move.rebalances for move in found.moves
            )
        else:
            raise AssertionError(f"no end for seed {seed}")
        left = [
            choice
            for choice in possible(shot, found)
            if limits.max_moves
            and (shot.nodes[choice[-1]].tier is Tier.CLOUD or limits.max_edge_reorder)
        ]
        assert not left, seed
        seen["several rounds"] += len(ranks) > 2
    assert seen["rebalanced"] >= 7, seen
    assert seen["several rounds"] >= 4, seen
    assert bool(seen["tidied"]) == defragment, seen
