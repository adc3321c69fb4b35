from collections import Counter

import attrs
import numpy as np
import pytest
from msgspec.structs import replace

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import MOST_OF_A_NODE, Resources, Tier, Workload
from kubedsm.model.node_index import NodeRows
from kubedsm.model.quantities import parse_units
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.optimizer.matching.best_fit import add_by_ejection_chains, best_fit_increasing
from kubedsm.optimizer.matching.match import Bounds, build_table, match
from kubedsm.optimizer.matching.problem import PlacementProblem, group_kinds
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
