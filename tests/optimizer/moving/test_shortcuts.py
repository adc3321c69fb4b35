"""What a suggestion passes over changes nothing: it equals one that passes over nothing."""

import random
from collections import Counter

import attrs
import numpy as np
import pytest

from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving import best_changes
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS, suggest
from kubedsm.optimizer.moving.within_tier import find_concentrated
from support import drawing
from support.suggest_instances import crowded_case, drawn_case, wide_case
from support.suggest_literal import literally_left

#: So few that not all workloads are looked at together.
FEW = attrs.evolve(SUGGEST_BOUNDS, states=60_000, loads=400)


def suggested(case, bounds):
    return suggest(case.snapshot, case.qos_targets, case.objective, case.limits, bounds=bounds)


@pytest.fixture
def thorough(monkeypatch):
    """Every node, every change on every node."""

    def pass_over_nothing():
        everywhere = property(lambda problem: np.arange(len(problem.nodes)))
        monkeypatch.setattr(EdgeProblem, "changeable", everywhere)
        monkeypatch.setattr(
            best_changes, "select_cheapest", lambda costs, _: np.ones(costs.shape, dtype=np.bool_)
        )
        monkeypatch.setattr(
            best_changes,
            "group_equal_rows",
            lambda looks: (np.arange(len(looks)), np.arange(len(looks))),
        )

    return pass_over_nothing


@pytest.mark.parametrize("bounds", [Bounds(10**9, 10**12, 40_000), FEW])
def test_what_is_passed_over_changes_no_suggestion(bounds, thorough):
    seeds = drawing.drawn_cases(range(40))
    found = {seed: suggested(wide_case(seed), bounds) for seed in seeds}
    thorough()
    for seed in seeds:
        assert found[seed] == suggested(wide_case(seed), bounds), seed
    seen = Counter(move.kind for each in found.values() for move in each.moves)
    assert len(seen) == 3, seen
    assert not all(each.moves for each in found.values())
    assert bounds is FEW or sum(each.proven for each in found.values()) > 3


@pytest.mark.parametrize("draw", [drawn_case, crowded_case, wide_case])
def test_the_ten_best_left_alone_are_those_of_all(draw):
    named = 0
    for seed in drawing.drawn(range(60)):
        case = draw(seed)
        case = attrs.evolve(case, limits=attrs.evolve(case.limits, spread=False))
        found = suggested(case, SUGGEST_BOUNDS)
        assert [left.pod for left in found.rejected] == literally_left(case, found), seed
        named += len(found.rejected)
    assert named > 3


def test_what_one_node_would_take_is_told_by_who_is_where():
    at_risk = 0
    for seed in drawing.drawn(range(300)):
        shot, rng = drawn_case(seed).snapshot, random.Random(seed)
        pods = [attrs.evolve(p, ready=p.uid in shot.placed) for p in shot.pods.values()]
        strange = [attrs.evolve(p, scheduler_name="other") for p in pods if rng.random() < 0.2]
        shot = attrs.evolve(shot, pods={p.uid: p for p in (*pods, *strange)})
        moved = {uid: rng.choice(sorted(shot.nodes)) for uid in shot.placed if rng.random() < 0.2}
        for targets in ({}, moved):
            expected = literally_on_one_node(shot, {**shot.placed, **targets})
            assert find_concentrated(shot, targets) == expected, seed
            at_risk += len(expected)
    assert at_risk > 25


def literally_on_one_node(shot, placed):
    pods = {}
    for pod in shot.pods.values():
        if pod.scheduler_name == shot.scheduler_name and pod.counts_for_qos:
            pods.setdefault(pod.workload, []).append(pod)
    return {
        workload: members
        for workload, members in pods.items()
        if sum(pod.ready for pod in members) > 1 and len({placed.get(p.uid) for p in members}) == 1
    }
