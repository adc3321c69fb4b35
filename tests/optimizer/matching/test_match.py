"""`match` and its parts against literal forms: loads of nodes, the walk over nodes, best fit."""

import itertools
import random
from collections import Counter
from itertools import product

import attrs
import numpy as np
import pytest
from msgspec.structs import replace

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import MOST_OF_A_NODE, Resources, Tier, Workload
from kubedsm.model.node_index import NodeRows
from kubedsm.model.quantities import parse_units
from kubedsm.objective.fragmentation import SCALE, Fragmentation, Measure, request_mix
from kubedsm.optimizer.matching import node_walk
from kubedsm.optimizer.matching.best_fit import BestFit, add_by_ejection_chains, best_fit_increasing
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds, Digits, build_table, match
from kubedsm.optimizer.matching.node_walk import Options, walk_nodes
from kubedsm.optimizer.matching.problem import Ladders, PlacementProblem, Rank, group_kinds
from kubedsm_lab.bench import instances
from kubedsm_lab.emulator.paper import SERVICES
from support import drawing
from support.drawn_problems import drawn_packing
from support.literal_rules import reasons
from support.placement_instances import drawn, node, pod, resources, snapshot
from support.placement_literal import literal_match

#: Edge nodes n2, n3, n4 of the papers, in turn: cores, 10^9 bytes.
_NODES = ((5, 5), (4, 4), (7, 5))


def paper_instance(pods, nodes):
    """Return pending pods of services A to D in turn, and empty edge nodes."""
    edge = [_edge_node(index) for index in range(nodes)]
    waiting = [_service_pod(index) for index in range(pods)]
    return instances.snapshot(edge, waiting, {node.name: node.allocatable for node in edge})


def _edge_node(index):
    cores, gigabytes = _NODES[index % len(_NODES)]
    allocatable = Resources(cpu=cores * 1000, memory=gigabytes * 10**9, pods=110)
    return instances.node(f"edge-{index:03}", Tier.EDGE, allocatable)


def _service_pod(index):
    service = list(SERVICES)[index % len(SERVICES)]
    demand = SERVICES[service]
    requests = Resources(cpu=demand.cores * 1000, memory=parse_units(demand.memory), pods=1)
    workload = Workload("default", "Deployment", service)
    return instances.pod(f"{service}-{index:03}", workload, requests, created=float(index))


SMALL = Bounds(states=2)


def matched(shot, measure=Measure.UNUSABLE, bounds=None):
    fragmentation = Fragmentation(measure, request_mix(shot))
    waiting = [p for p in shot.pods.values() if not p.node_name]
    return match(waiting, shot.of_tier(Tier.EDGE), shot.free, fragmentation, bounds)


def room_after(shot, targets):
    """The free room with the pods on their targets; asserts that each fits."""
    free = dict(shot.free)
    for waiting, name in targets:
        assert reasons(waiting.pod_class, shot.nodes[name], free[name]) == ()
        free[name] -= waiting.requests
    return free


@pytest.mark.parametrize("measure", list(Measure))
def test_equals_the_literal_form(measure):
    seen = Counter()
    for seed in drawing.drawn(range(320)):
        case = drawn(seed, most=8)
        shot, edge = case.snapshot, case.tier(Tier.EDGE)
        fragmentation = Fragmentation(measure, request_mix(shot))
        literal = literal_match(case.batch, edge, shot.free, fragmentation)
        found = match(case.batch, edge, shot.free, fragmentation)
        assert len({waiting.uid for waiting, _ in found}) == len(found)
        cost = fragmentation.of(NodeRows.of(edge, room_after(shot, found)))
        assert (len(found), cost) == literal.optimum, seed
        seen["partial"] += 0 < len(found) < len(case.batch)
        seen["whole"] += 0 < len(found) == len(case.batch)
        seen["overcommitted"] += any(free.cpu < 0 for free in shot.free.values())
        seen["several"] += len({name for _, name in found}) > 1
    assert min(seen.values()) >= 5, seen


def test_beyond_the_bounds_it_never_overcommits():
    placed = possible = 0
    for seed in drawing.drawn(range(300)):
        shot = drawn(seed).snapshot
        exact, rough = matched(shot), matched(shot, bounds=SMALL)
        room_after(shot, rough)
        assert len(rough) <= len(exact)
        placed += len(rough)
        possible += len(exact)
    assert placed >= 0.95 * possible


@pytest.mark.parametrize("bounds", [Bounds(states=20), Bounds(steps=20), Bounds(loads=4)])
def test_every_bound_is_kept(bounds):
    shot = paper_instance(16, 3)
    rows = NodeRows.of(shot.nodes.values(), shot.free)
    problem = PlacementProblem.of(group_kinds(shot.pods.values(), rows), rows)
    measured = Fragmentation(Measure.UNUSABLE, request_mix(shot))
    assert build_table(problem, measured, Bounds()) is not None
    assert build_table(problem, measured, bounds) is None


@pytest.mark.parametrize(("amount", "placed"), [(MOST_OF_A_NODE, 1), (2**63 - 1, 0)])
def test_quantities_near_the_end_of_64_bits(amount, placed):
    huge = replace(resources(0, 0, 1), memory=amount)
    at = attrs.evolve(node("e1", Tier.EDGE), allocatable=replace(huge, pods=110))
    pods = [pod(f"a-{i}", "a", huge) for i in range(3)]
    assert len(matched(snapshot([at], pods))) == placed


def test_ejection_chains_place_more_that_fits_and_seldom_less_than_could_be():
    placed = most = before = 0
    for seed in drawing.drawn(range(300)):
        packing, _ = drawn_packing(seed)
        packing = attrs.evolve(packing, ladders=None)
        begun = best_fit_increasing(packing)
        found = add_by_ejection_chains(packing, begun, 3, 100, NO_DEADLINE)
        assert (packing.room_after(found) >= 0).all()
        assert (found <= packing.most).all()
        assert (found.sum(axis=0) <= packing.counts).all()
        assert found.sum() >= begun.sum()
        late = add_by_ejection_chains(packing, begun, 3, 100, Deadline(lambda: 1.0))
        assert (late == begun).all()
        table = build_table(packing, None, Bounds())
        best = max((sum(v) for v in np.argwhere(table.costs() < 2**61).tolist()), default=0)
        before += int(begun.sum())
        placed += int(found.sum())
        most += best
    assert before < placed <= most
    assert placed >= most - 2


def literal_table(packing, fragmentation, digits):
    """Of every vector its cost and its placement, from all loads that fit on all nodes."""
    best = {(0,) * len(packing.kinds): (0, ())}
    for n in range(len(packing.nodes)):
        options = [
            (load, _cost(packing, fragmentation, digits, n, load)) for load in _fitting(packing, n)
        ]
        following = {}
        for vector, (cost, placed) in best.items():
            for load, more in options:
                then = tuple(a + b for a, b in zip(vector, load, strict=True))
                if (np.array(then) <= packing.counts).all():
                    # Of equal ones that which puts least on the last nodes, in lexicographic order.
                    way = (cost + more, (load, *placed))
                    following[then] = min(way, following.get(then, way))
        best = following
    return {vector: (cost, placed[::-1]) for vector, (cost, placed) in best.items()}


def _fitting(packing, n):
    for load in product(*(range(count + 1) for count in packing.counts.tolist())):
        if (load <= packing.most[n]).all():
            asked = np.array(load) @ packing.requests
            if ((asked <= packing.free[n]) | (asked == 0)).all():
                yield load


def _cost(packing, fragmentation, digits, n, load):
    cost = 0
    if fragmentation:
        room = packing.free[[n]] - np.array([load]) @ packing.requests
        cost = int(fragmentation.costs(packing.axes, packing.allocatable[[n]], room)[0])
        cost >>= digits.lost
    if packing.ladders:
        for kind, number in enumerate(load):
            steps = packing.ladders.steps[packing.ladders.which[n, kind]]
            cost += digits.charge * int(steps[:number].sum())
    return cost + digits.penalty * int(packing.penalties[n] @ load)


def test_the_table_is_that_of_all_loads_on_all_nodes():
    pruned = tried_everywhere = charged = disliked = 0
    for seed in drawing.drawn(range(600)):
        packing, fragmentation = drawn_packing(seed)
        literal = literal_table(packing, fragmentation, Digits.of(packing))
        table = build_table(packing, fragmentation, Bounds())
        costs = table.costs()
        reached = {v: int(costs[v]) for v in np.ndindex(costs.shape) if costs[v] < UNREACHABLE}
        assert reached == {vector: cost for vector, (cost, _) in literal.items()}, seed
        for vector, (_, placed) in literal.items():
            loads = table.loads(np.array(vector, dtype=np.int64))
            assert [tuple(load) for load in loads.tolist()] == list(placed), (seed, vector)
        everywhere = sum(len(list(_fitting(packing, n))) for n in range(len(packing.nodes)))
        pruned += len(table.tried.loads) < everywhere
        tried_everywhere += len(table.tried.loads) == everywhere > 0
        charged += packing.ladders is not None
        disliked += bool(packing.penalties.any())
    assert min(pruned, tried_everywhere, charged, disliked) >= 40


def alike_nodes(number, waiting, steps=None, size=4):
    nodes = [node(f"e{i}", Tier.EDGE, cpu=size, memory=size) for i in range(number)]
    pods = [pod(f"p{i}", "web", resources(1, 1)) for i in range(waiting)]
    shot = snapshot(nodes, pods)
    which = np.arange(number)[:, None] % 2
    ladders = None if steps is None else Ladders(which, np.array(steps, dtype=np.int64))
    rows = NodeRows.of(nodes, shot.free)
    return PlacementProblem.of(group_kinds(pods, rows), rows, ladders=ladders)


def test_of_nodes_that_are_alike_only_the_first_are_tried():
    table = build_table(alike_nodes(9, 3), None, Bounds())
    assert table.tried.nodes.tolist() == [0, 1, 2]
    # One pod on three nodes, two on two, three on one; and none on each.
    assert sorted(table.tried.loads.ravel().tolist()) == [0, 0, 0, 1, 1, 1, 2, 2, 3]


def test_no_more_pods_are_tried_on_a_node_than_are_charged_as_little_as_on_empty_ones():
    table = build_table(alike_nodes(9, 3, [[0, 1, 2], [1, 2, 3]]), None, Bounds())
    assert table.tried.nodes.tolist() == [0, 2, 4]
    assert sorted(table.tried.loads.ravel().tolist()) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("size", [1, 2])
def test_loads_are_enumerated_once_for_nodes_that_are_alike(size):
    packing = alike_nodes(50, 3, size=size)
    assert build_table(packing, None, Bounds(loads=size + 1)) is not None
    assert build_table(packing, None, Bounds(loads=size)) is None


def test_a_table_that_would_be_too_large_anyway_is_not_begun():
    packing = alike_nodes(50, 3)
    assert build_table(packing, None, Bounds(states=3, loads=0)) is None
    assert build_table(packing, None, Bounds(steps=64 * 8)) is None


def test_only_fragmentation_gives_way_where_costs_are_too_large_for_64_bits():
    nodes = [node(f"e{i}", Tier.EDGE) for i in range(300)]
    pods = [pod(f"p{i}", "web", resources(0.1, 0.1)) for i in range(3)]
    shot = snapshot(nodes, pods)
    rows = NodeRows.of(nodes, shot.free)
    of_batch = group_kinds(pods, rows)
    for crowd, exact in ((10, True), (10**7, False)):
        steps = np.array([[crowd, crowd + 1, crowd + 2]], dtype=np.int64)
        ladders = Ladders(np.zeros((300, 1), dtype=np.int64), steps)
        packing = PlacementProblem.of(of_batch, rows, ladders=ladders)
        digits = Digits.of(packing)
        assert (digits.lost == 0) is exact
        assert digits.charge > len(nodes) * (SCALE >> digits.lost)
        assert digits.penalty > digits.charge * ladders.greatest([3])
        assert digits.penalty * 2 < UNREACHABLE
        table = build_table(packing, Fragmentation(mix=request_mix(shot)), Bounds())
        assert table.charges(np.array([3])) == 3 * crowd


STATES = np.array(list(itertools.product(range(-2, 3), repeat=2)), dtype=np.int64)


def drawn_walk(rng, nodes):
    found = []
    for _ in range(nodes):
        number = rng.randint(0, 5)
        vectors = [[rng.randint(-3, 3), rng.randint(-3, 3)] for _ in range(number)]
        costs = [rng.randint(-3, 9) for _ in range(number)]
        found.append(
            Options(
                np.array(vectors, dtype=np.int64).reshape(-1, 2), np.array(costs, dtype=np.int64)
            )
        )
    return found


def every_way(options, ceiling):
    """The least cost of every state, one way after the other."""
    listed = {tuple(state) for state in STATES.tolist()}
    reached = {(0, 0): 0}
    for option in options:
        following = dict(reached)
        for (x, y), cost in reached.items():
            pairs = zip(option.vectors.tolist(), option.costs.tolist(), strict=True)
            for (dx, dy), more in pairs:
                at, total = (x + dx, y + dy), cost + more
                if at in listed and total <= ceiling and total < following.get(at, UNREACHABLE):
                    following[at] = total
        reached = following
    return [reached.get(tuple(state), UNREACHABLE) for state in STATES.tolist()]


@pytest.mark.parametrize("table", [2**22, 0])
def test_finds_the_cheapest_way_to_every_state(table, monkeypatch):
    monkeypatch.setattr(node_walk, "_TABLE", table)
    for seed in drawing.drawn(range(60)):
        rng = random.Random(seed)
        options, ceiling = drawn_walk(rng, rng.randint(0, 4)), rng.choice((5, 12))
        ceilings = np.full(len(STATES), ceiling)
        found = walk_nodes(STATES, ceilings, options, Bounds(steps=10**6))
        assert found.costs.tolist() == every_way(options, ceiling)
        for state, cost in enumerate(found.costs.tolist()):
            if cost < UNREACHABLE:
                check_choices(found, options, state, cost)


def check_choices(found, options, state, cost):
    total, spent = np.zeros(2, dtype=np.int64), 0
    for option, choice in zip(options, found.choices(state), strict=True):
        if choice is not None:
            total = total + choice
            spent += min(
                c for v, c in zip(option.vectors, option.costs, strict=True) if (v == choice).all()
            )
    assert (total == STATES[state]).all()
    assert spent == cost


def test_gives_up_beyond_the_steps():
    options = [Options(np.array([[1, 0]]), np.array([1]))] * 3
    ceilings = np.full(len(STATES), 99)
    assert walk_nodes(STATES, ceilings, options, Bounds(steps=2)) is None
    assert walk_nodes(STATES, ceilings, options, Bounds(steps=100)) is not None


def test_gives_up_when_vectors_have_no_code():
    states = np.array([[0] * 8, [2**9] * 8], dtype=np.int64)
    assert walk_nodes(states, np.full(2, 99), [], Bounds(steps=100)) is None


def literal_place(packing, loads, kind):
    """Where it likes best, then where it leaves least; None if it fits nowhere."""
    room = packing.room_after(loads)
    scale = np.maximum(packing.allocatable[:, :2].max(axis=0, initial=1), 1)
    rated = [
        (int(packing.penalties[n, kind]), float((room[n, :2] / scale).sum()), n)
        for n in range(len(packing.nodes))
        if loads[n, kind] < packing.most[n, kind] and (room[n] >= packing.requests[kind]).all()
    ]
    return min(rated)[2] if rated else None


def test_each_pod_goes_where_it_leaves_least_of_all_nodes():
    placed = refused = 0
    for seed in drawing.drawn(range(400)):
        packing, _ = drawn_packing(seed)
        rng, loads = random.Random(seed), packing.nothing()
        room = BestFit(packing)
        for at in range(9):
            if at == 4:  # go on from there
                room = BestFit(packing, room.loads)
            kind = rng.randrange(len(packing.kinds))
            node = literal_place(packing, loads, kind)
            assert room.place(kind) == node, seed
            if node is None:
                refused += 1
            else:
                loads[node, kind] += 1
                placed += 1
            assert room.loads.tolist() == loads.tolist(), seed
    assert min(placed, refused) >= 100


@pytest.mark.parametrize(
    ("cores", "requests", "overdue", "begun", "limits", "expected"),
    [
        # p2 can only have the first node, whose pod must go where the third is now.
        ((4, 3, 2), (1.5, 2.5, 3.5), None, {"p1": 0, "p0": 1}, (1, 9), {"p0", "p1"}),
        ((4, 3, 2), (1.5, 2.5, 3.5), None, {"p1": 0, "p0": 1}, (2, 0), {"p0", "p1"}),
        ((4, 3, 2), (1.5, 2.5, 3.5), None, {"p1": 0, "p0": 1}, (2, 9), {"p0", "p1", "p2"}),
        # One stays out for one of a greater turn, and for no other.
        ((2,), (1.5, 1.75), None, {"p0": 0}, (1, 9), {"p0"}),
        ((2,), (1.5, 1.75), "p1", {"p0": 0}, (1, 9), {"p1"}),
    ],
)
def test_pods_drive_each_other_out(cores, requests, overdue, begun, limits, expected):
    nodes = [node(f"n{at}", Tier.EDGE, cpu, 64) for at, cpu in enumerate(cores)]
    pods = [pod(f"p{at}", f"w{at}", resources(cpu)) for at, cpu in enumerate(requests)]
    rows = NodeRows.of(nodes, {each.name: each.allocatable for each in nodes})
    kinds = group_kinds(pods, rows)
    names = [kind.pods[0].name for kind in kinds]
    ranks = [Rank(overdue=1 if name == overdue else 0) for name in names]
    packing = PlacementProblem.of(
        [attrs.evolve(kind, rank=rank) for kind, rank in zip(kinds, ranks, strict=True)], rows
    )
    loads = packing.nothing()
    for name, at in begun.items():
        loads[at, names.index(name)] = 1
    placed = add_by_ejection_chains(packing, loads, *limits, NO_DEADLINE)
    assert {names[kind] for kind in np.flatnonzero(placed.sum(axis=0))} == expected
