"""Decisions among pods with rules about each other, beside trying everything; and with a solver."""

import random
from collections import Counter

import pytest

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import serving_order
from kubedsm.objective.objective import Objective
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.programming.programme import Solved, Status
from kubedsm.solvers.available import Highs
from kubedsm_lab.baselines.registry import POLICIES
from support import drawing
from support.placement_literal import (
    best_of_all,
    half_or_all,
    homes_of,
    is_allowed_in_turn,
    most_served,
    served,
    standing,
)
from support.rule_instances import drawn_batch
from support.ruled_instances import ruled_batch

#: it makes the same of equal programmes, however busy the machine is
SOLVER = Highs(nodes=2000)


def decided(snapshot, batch, solver=None, **bounds):
    bounds = Bounds(solver=solver, **bounds)
    return immediate_schedule(snapshot, batch, half_or_all, Objective(), bounds=bounds)


def one_at_a_time(snapshot, batch, seed):
    kube_scheduler = POLICIES["kube-scheduler"](half_or_all, Objective())
    return kube_scheduler.place(snapshot, sorted(batch, key=serving_order), random.Random(seed))


@pytest.mark.parametrize(("solver", "proven"), [(None, 0.5), (SOLVER, 0.9)])
def test_what_is_proven_is_the_best_and_the_others_are_mostly(solver, proven):
    seen = Counter()
    for seed in drawing.drawn(range(600), one_in=6):
        snapshot, batch = drawn_batch(seed)
        if len(batch) > 4 or len(snapshot.nodes) > 4:
            continue
        decision = decided(snapshot, batch, solver)
        reached = standing(snapshot, batch, homes_of(decision), half_or_all)
        best = best_of_all(snapshot, batch)
        assert reached <= best
        if decision.proof.placed:
            assert reached[0] == best[0], seed
            assert reached == best or not decision.proof.qos, seed
        seen["all"] += 1
        seen["qos"] += decision.proof.qos
        seen["worse"] += reached < best
    assert seen["qos"] >= proven * seen["all"], seen
    assert solver or seen["qos"] < seen["all"], seen
    assert seen["worse"] <= 0.05 * seen["all"], seen


def test_hardly_ever_does_an_order_exist_in_which_more_are_placed():
    """Whoever comes first, and wherever they go, by kube-scheduler's rules, or one by one by it."""
    seen = Counter()
    for seed in drawing.drawn(range(1000, 1500)):
        snapshot, batch = drawn_batch(seed)
        decision = decided(snapshot, batch)
        reached = served(batch, homes_of(decision))
        if decision.unplaced and len(batch) <= 6:
            most = most_served(snapshot, batch)
            assert reached <= most
            seen["fewer"] += reached < most
        theirs = served(batch, homes_of(one_at_a_time(snapshot, batch, seed)))
        seen["ours"] += reached > theirs
        seen["theirs"] += reached < theirs
        seen["batches"] += 1
    assert seen["fewer"] <= 0.01 * seen["batches"], seen
    # There it was lucky with its nodes.
    assert seen["theirs"] <= 0.006 * seen["batches"], seen
    assert seen["ours"] >= 3, seen


@pytest.mark.parametrize("seed", [142, 151, 167, 689, 7213, 7231, 8417])
def test_where_the_first_order_that_comes_to_mind_places_fewer(seed):
    snapshot, batch = drawn_batch(seed)
    assert served(batch, homes_of(decided(snapshot, batch))) == most_served(snapshot, batch)


def test_with_a_solver_never_fewer_than_kube_scheduler_and_mostly_the_most_there_can_be():
    seen = Counter()
    for seed in drawing.drawn(range(40), one_in=6):
        snapshot, batch = ruled_batch(seed)
        ours, before = decided(snapshot, batch, SOLVER), decided(snapshot, batch)
        theirs = one_at_a_time(snapshot, batch, seed)
        numbers = [served(batch, homes_of(decision)) for decision in (ours, before, theirs)]
        assert numbers[0] == max(numbers), seed
        assert is_allowed_in_turn(snapshot, ours.bindings), seed
        seen["batches"] += 1
        seen["proven the best"] += ours.proof.placed and ours.proof.qos
        seen["fewer without"] += ours.proof.placed and numbers[1] < numbers[0]
    assert seen["proven the best"] >= 0.9 * seen["batches"]
    assert seen["fewer without"]


class FindsNothing:
    name = "finds nothing"

    def maximise(self, programme, goal, deadline, hint=None, *, plain=False):
        return Solved(Status.UNKNOWN)


@pytest.mark.parametrize("solver", [FindsNothing(), SOLVER])
def test_without_answers_it_is_decided_as_without_a_solver(solver):
    """Nobody is asked once it is late: then pods are put where they may be as they come."""
    late = {"deadline": Deadline(lambda: 1.0, 1.0)} if solver is SOLVER else {}
    for seed in drawing.drawn(range(10)):
        snapshot, batch = ruled_batch(seed)
        found = decided(snapshot, batch, solver, **late)
        assert found.bindings == decided(snapshot, batch, **late).bindings


def test_what_is_not_proven_is_told_with_its_bound():
    snapshot, batch = ruled_batch(22)
    before, ours = decided(snapshot, batch), decided(snapshot, batch, SOLVER)
    placed, *_ = before.certificates
    assert (placed.goal, placed.value) == ("pods placed", len(before.bindings))
    assert placed.bound >= len(ours.bindings) > placed.value
    assert not ours.certificates


def test_pods_of_a_higher_priority_that_need_one_of_a_lower_come_to_it():
    """Five of them, at the node of the one, while others of theirs have no rule that binds them."""
    snapshot, batch = ruled_batch(25)
    assert served(batch, homes_of(decided(snapshot, batch))) == [13, 1]
    assert served(batch, homes_of(decided(snapshot, batch, SOLVER))) == [14, 1]


@pytest.mark.parametrize("seed", [4, 10, 111])
def test_rules_in_the_way_of_the_second_plan_are_kept_by_the_third(seed):
    snapshot, batch = ruled_batch(seed)
    assert decided(snapshot, batch, SOLVER).proof.qos
