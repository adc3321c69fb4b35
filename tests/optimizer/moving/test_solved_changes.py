"""Suggestions by a solver, beside the DP where that can tell; and what the DP passes over."""

import random
from collections import Counter

import attrs
import numpy as np
import pytest

from kubedsm.model.model import Tier
from kubedsm.objective.fragmentation import Measure
from kubedsm.objective.gains import Gains, leading_gain
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.best_fit import greatest_allocatable, pod_size
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving import best_changes, integer_changes
from kubedsm.optimizer.moving.best_changes import bound_gain
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.exact import suggest_exact
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS, suggest
from kubedsm.optimizer.moving.suggestion import Cause, SuggestLimits, count_edge_changes, count_legs
from kubedsm.plugins.fit import shortages
from kubedsm.solvers.available import Highs
from support import drawing
from support.placement_instances import Instance, node, resources, snapshot
from support.placement_instances import pod as waiting_pod
from support.ruled_instances import ruled_case
from support.suggest_instances import (
    OBJECTIVES,
    ZONE,
    Case,
    crowded_case,
    drawn_case,
    problem_of,
    running,
)


def wide_case(seed):
    """Draw a cluster with more edge nodes than moves, mostly full, in several zones."""
    rng = random.Random(seed)
    nodes = [
        node(f"edge-{i:02}", Tier.EDGE, rng.choice((2, 2, 3)), 8, labels={ZONE: f"z{i % 3}"})
        for i in range(rng.randint(14, 24))
    ]
    nodes += [node(f"cloud-{i}", Tier.CLOUD, 64, 64) for i in range(2)]
    sizes = {f"s{at}": rng.choice((0.4, 0.5, 0.7, 1, 1.5)) for at in range(rng.randint(2, 9))}
    free = {n.name: n.allocatable for n in nodes}
    pods = []
    for i in range(rng.randint(40, 90)):
        service = rng.choice(sorted(sizes))
        requests = resources(sizes[service], 1)
        turn = sorted(nodes, key=lambda n: (n.tier is Tier.CLOUD) + rng.random() * 1.3)
        name = next((n.name for n in turn if not shortages(requests, free[n.name])), None)
        if name is None:
            pods.append(waiting_pod(f"{service}-{i}", service, requests))
            continue
        free[name] -= requests
        made = running(f"{service}-{i}", service, requests, name, created=float(i % 7))
        pods.append(attrs.evolve(made, ready=rng.random() < 0.95))
    targets = {s: QosTarget(rng.choice((0.2, 0.4, 0.6, 1.0)), rng.choice((1, 1, 2))) for s in sizes}
    limits = SuggestLimits(
        max_moves=rng.choice((2, 3, 4)),
        max_edge_reorder=rng.choice((0, 1, 3)),
        price=rng.choice((0.0, 5.0)),
        headroom=rng.choice((0.0, 0.0, 0.05)),
        spread=rng.random() < 0.6,
    )
    return Case(Instance(snapshot(nodes, pods), (), targets), limits, rng.choice(OBJECTIVES))


#: So few that the DP looks at nothing.
NOTHING = attrs.evolve(SUGGEST_BOUNDS, loads=0)
SOLVED = attrs.evolve(NOTHING, solver=Highs(seconds=600))


#: Why groups of moves are dropped: their pods are named first.
_DROPPED = {
    Cause.NO_GAIN,
    Cause.BELOW_ITS_PRICE,
    Cause.NOT_DEFRAGMENTING,
    Cause.TOO_LITTLE_DEFRAGMENTED,
    Cause.NEEDS_A_STOPOVER,
    Cause.CROWDS_REPLICAS,
    Cause.REFUSED_BY_A_RULE,
}


def literally_left(case, suggestion):
    """Return the ten pods that a suggestion should explain as not moved, in literal form."""
    shot, movable = case.snapshot, default_movable(case.snapshot)
    edge = shot.of_tier(Tier.EDGE)
    gains = Gains.of(shot, case.qos_targets, case.objective)
    sizes = [(node.allocatable.cpu, node.allocatable.memory) for node in edge]
    greatest = greatest_allocatable(np.array(sizes).reshape(-1, 2))
    moved = [*suggestion.moves, *suggestion.awaited]
    dropped = [left.pod for left in suggestion.rejected if left.why.cause in _DROPPED]
    named = {pod.uid for pod in (*dropped, *(move.pod for move in moved))}
    changes, first, scores = count_edge_changes(moved), {}, {}
    for pod in sorted(shot.pods.values(), key=leaving_turn):
        on_edge = shot.placed.get(pod.uid) in {node.name for node in edge}
        if pod.scheduler_name != shot.scheduler_name or not pod.counts_for_qos or on_edge:
            continue
        done = changes.get(pod.workload, 0)
        more = gains.of_workload(pod.workload, done + 1) - gains.of_workload(pod.workload, done)
        if pod.uid in named or more <= 0:
            continue
        said = movable(pod) if pod.node_name is not None else None
        key = pod.workload, pod.pod_class, said
        first.setdefault(key, pod)
        scores[key] = gains.level[pod.workload], -more / pod_size(pod.requests, greatest)
    ranked = sorted(first, key=lambda key: (scores[key], str(first[key])))
    return [*dropped, *(first[key] for key in ranked)][:10]


def levelled_problem(case, bounds=SUGGEST_BOUNDS, levels=1):
    workloads = sorted(case.snapshot.census.shares)
    priorities = {workload: at % levels for at, workload in enumerate(workloads)}
    return attrs.evolve(problem_of(case, Measure.UNUSABLE, priorities), bounds=bounds)


def many_case():
    return next(case for case in map(wide_case, range(99)) if len(case.instance.targets) > 8)


@pytest.mark.parametrize(
    ("draw", "seeds", "levels", "limits"),
    [
        (drawn_case, range(40), 1, {}),
        (crowded_case, range(20), 1, {}),
        (crowded_case, range(20, 40), 3, {}),
        (crowded_case, range(60, 80), 2, {"price": 5.0, "headroom": 0.1}),
        (wide_case, range(18), 2, {}),
        (ruled_case, range(25), 1, {}),
    ],
)
def test_the_moves_are_worth_what_those_of_the_dp_are(draw, seeds, levels, limits):
    seen = Counter()
    seeds = drawing.drawn_cases(seeds)
    for seed in seeds:
        case = draw(seed)
        case = attrs.evolve(case, limits=attrs.evolve(case.limits, **limits))
        problem = levelled_problem(case, levels=levels)
        best = suggest_exact(problem)
        found = suggest_exact(levelled_problem(case, SOLVED, levels))
        worth, most = problem.net(found.moves), problem.net(best.moves)
        if found.proven or best.proven:
            assert worth <= most or not best.proven, seed
            assert worth >= most or not found.proven, seed
        if found.proven and best.proven:
            assert count_legs(found.moves) == count_legs(best.moves), seed
            if found.certificate is not None:
                assert found.certificate.proven
                assert found.certificate.value == max(leading_gain(worth), 0), seed
        level, bound = bound_gain(problem)
        assert not any(most[:level]), seed
        assert most[level] <= bound, seed
        seen["proven"] += found.proven
        seen["moved"] += bool(found.moves)
        seen["less"] += worth < most
    # Those that rules refuse, and circles that the cloud cannot break, make it uncertain.
    assert seen["proven"] >= len(seeds) / 2, seen
    assert seen["less"] <= len(seeds) / 12, seen
    assert seen["moved"], seen


def test_without_a_solver_it_is_said_how_much_more_there_might_be():
    few = attrs.evolve(SUGGEST_BOUNDS, loads=60)
    alone = attrs.evolve(few, solver=Highs(seconds=600))
    problem = levelled_problem(many_case(), few)
    found = suggest_exact(problem)
    [value] = problem.net(found.moves)
    assert not found.proven
    assert 0 < found.certificate.value == value < found.certificate.bound
    solved = suggest_exact(levelled_problem(many_case(), alone))
    assert solved.proven
    assert value <= solved.certificate.value == solved.certificate.bound < found.certificate.bound


def test_beyond_what_a_solver_can_cope_with_the_search_goes_on_without_it(monkeypatch):
    monkeypatch.setattr(integer_changes, "MOST_PAIRS", 60)
    bounds = attrs.evolve(SUGGEST_BOUNDS, loads=60, solver=Highs(seconds=600))
    found = suggest_exact(levelled_problem(many_case(), bounds))
    assert found.moves
    assert not found.proven
    assert found.certificate.bound == bound_gain(levelled_problem(many_case()))[1]


def test_a_certificate_is_about_the_level_that_can_gain():
    """Pods of the highest priority are at the edge already."""
    nodes = [node("e1", Tier.EDGE, 16, 64), node("c1", Tier.CLOUD, 64, 64)]
    pods = [running("high", "high", resources(1), "e1", priority=10)]
    pods += [running(f"{s}-{n}", s, resources(1), "c1") for s in "abcd" for n in range(2)]
    few = attrs.evolve(SUGGEST_BOUNDS, loads=40)
    shot = snapshot(nodes, pods)
    found = suggest(shot, lambda _: QosTarget(), Objective(), SuggestLimits(), bounds=few)
    assert found.moves
    gained = found.after.qos - found.before.qos
    assert 0 < gained == found.certificate.value <= found.certificate.bound


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
