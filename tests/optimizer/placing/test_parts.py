"""Batches in parts that have nothing to do with each other, against the same undivided."""

import random
from functools import partial

import attrs

from kubedsm.model.model import SchedulingRules, Taint, Tier, Toleration
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds, build_table
from kubedsm.optimizer.matching.problem import PlacementProblem, group_kinds
from kubedsm.optimizer.placing.batch_mip import choose_by_parts, split_kinds
from kubedsm.optimizer.placing.cloud import CloudRoom
from kubedsm.optimizer.placing.decision import choose_counts
from kubedsm.optimizer.placing.immediate import immediate_schedule, rank_pods
from kubedsm.optimizer.placing.split import list_demands
from support import drawing
from support.placement_instances import Instance, node, pod, resources, snapshot


def sites(seed, most=3):
    """Two sites: pods of each run on its own edge nodes, and in a cloud of its own or a common one.

    Where it is common it has room for all, or there is only little.
    """
    rng = random.Random(seed)
    nodes, pods = [], []
    cloud = rng.choice(("own", "endless", "scarce"))
    for site in "ab":
        taint = Taint("site", site, "NoSchedule")
        rules = SchedulingRules(tolerations=(Toleration("site", "Equal", site, "NoSchedule"),))
        for at in range(rng.randint(1, 2)):
            size = rng.choice((2, 3)), rng.choice((2, 4))
            nodes.append(node(f"e{site}{at}", Tier.EDGE, *size, taints=[taint]))
        if cloud == "own":
            nodes.append(node(f"c{site}", Tier.CLOUD, 2, 3, taints=[taint]))
        for service in (f"{site}0", f"{site}1"):
            requests = resources(rng.choice((0.5, 1, 1.5)), rng.choice((0.5, 1, 2)))
            both = site == "b" and seed % 5 == 0  # one of its workloads runs on both sites
            of = "a0" if both and service == "b0" else service
            for at in range(rng.randint(1, most)):
                priority = 10 * (seed % 3 == 0 and at % 2)
                named = f"{service}-{at}"
                pods.append(pod(named, of, requests, rules=rules, priority=priority))
    if cloud != "own":
        nodes.append(node("c", Tier.CLOUD, *((64, 64) if cloud == "endless" else (2, 3))))
    targets = {p.workload.name: QosTarget(rng.choice((0.5, 1.0)), rng.choice((1, 2))) for p in pods}
    return Instance(snapshot(nodes, pods), tuple(pods), targets)


def worth_of(made, edge, members, fragmentation):
    picks, on_edge, in_cloud = attrs.astuple(made.placement, recurse=False)
    placed = on_edge.sum(axis=0) + in_cloud.sum(axis=0)
    by_turn = {}
    for kind, number in zip(edge.kinds, placed.tolist(), strict=True):
        by_turn[kind.rank.turn] = by_turn.get(kind.rank.turn, 0) + number
    numbers = made.placement.on_edge_of
    worth = {}
    for member in members:
        value = int(member.values[numbers[member.workload]])
        worth[member.level] = worth.get(member.level, 0) + value
    fragmented = fragmentation.costs(edge.axes, edge.allocatable, edge.room_after(on_edge))
    assert sum(picks.values()) == on_edge.sum()
    return by_turn, worth, int(fragmented.sum())


def test_the_best_of_the_parts_is_the_best_of_the_whole():
    divided = whole = 0
    for seed in drawing.drawn(range(150)):
        case = sites(seed)
        at_edge, in_cloud = (case.snapshot.in_turn(tier) for tier in (Tier.EDGE, Tier.CLOUD))
        of_batch = group_kinds(case.batch, at_edge + in_cloud, rank_pods(case.batch, 0.0, 60.0))
        mix = request_mix(case.snapshot)
        fragmentation = Fragmentation(Measure.UNUSABLE, mix)
        edge = PlacementProblem.of(of_batch, at_edge, [vector for vector, _ in mix])
        cloud = CloudRoom.of(PlacementProblem.of(of_batch, in_cloud), Bounds())
        members = list_demands(edge, case.snapshot.census.shares, case.qos_targets, Objective())
        choose = partial(choose_counts, objective=Objective(), fragmentation=fragmentation)
        parts = split_kinds(edge, cloud, members)
        whole += len(parts) == 1
        divided += len(parts) > 1
        made = choose_by_parts(parts, edge, cloud, members, Bounds(), choose)
        undivided = choose(edge, cloud, members, Bounds())
        assert made.proof == undivided.proof
        assert worth_of(made, edge, members, fragmentation) == worth_of(
            undivided, edge, members, fragmentation
        )
        room = cloud.problem.room_after(made.placement.in_cloud)
        assert (room >= 0).all()
        assert (edge.room_after(made.placement.on_edge) >= 0).all()
    assert min(divided, whole) >= 20


def test_parts_are_within_bounds_that_the_whole_exceeds():
    """And what may be missing of the others adds up."""
    proven = short = 0
    for seed in drawing.drawn(range(40)):
        case = sites(seed, most=6)
        args = case.snapshot, case.batch, case.qos_targets, Objective()
        best = immediate_schedule(*args)
        assert best.proof.qos
        for states in (100, 200, 400, 800, 1600):
            decision = immediate_schedule(*args, bounds=Bounds(states=states))
            if decision.proof.placed and decision.proof.qos:
                assert decision.score_after == best.score_after
                assert len(decision.bindings) == len(best.bindings)
                proven += beyond(case, states)
            for each in decision.certificates:
                if (each.goal, each.of) == ("QoS", "") and decision.proof.placed:
                    assert each.value == decision.score_after - decision.score_before
                    assert each.bound >= best.score_after - best.score_before
                    short += 1
    assert min(proven, short) >= 5


def beyond(case, states):
    """Whether the undivided batch is beyond that bound."""
    at_edge = case.snapshot.in_turn(Tier.EDGE)
    of_batch = group_kinds(case.batch, at_edge + case.snapshot.in_turn(Tier.CLOUD))
    return build_table(PlacementProblem.of(of_batch, at_edge), None, Bounds(states=states)) is None
