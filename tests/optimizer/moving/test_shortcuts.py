"""What a suggestion passes over changes nothing: it equals one that passes over nothing."""

from collections import Counter

import attrs
import numpy as np
import pytest

from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving import best_changes
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS, suggest
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
    assert len(seen) >= 3, seen
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
