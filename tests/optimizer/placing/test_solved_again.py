"""Batches whose rules are in the way of the first plan, with somebody who solves programmes.

    KUBEDSM_RULED_BATCHES=200 pytest -s tests/optimizer/placing/test_solved_again.py

makes the long form, and prints how far decisions are from the best that there could be.
"""

import os
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
from support.batch_orders import is_allowed_in_turn, qos_targets, served
from support.placement_literal import standing
from support.ruled_batches import ruled_batch

BATCHES = int(os.environ.get("KUBEDSM_RULED_BATCHES", "40"))
#: it makes the same of equal programmes, however busy the machine is
SOLVER = Highs(nodes=2000)


class FindsNothing:
    name = "finds nothing"

    def maximise(self, programme, goal, deadline, hint=None, *, plain=False):
        return Solved(Status.UNKNOWN)


def decided(snapshot, batch, solver=SOLVER, **bounds):
    bounds = Bounds(solver=solver, **bounds)
    return immediate_schedule(snapshot, batch, qos_targets, Objective(), bounds=bounds)


def one_at_a_time(snapshot, batch, seed):
    kube_scheduler = POLICIES["kube-scheduler"](qos_targets, Objective())
    return kube_scheduler.place(snapshot, sorted(batch, key=serving_order), random.Random(seed))


def reached(snapshot, batch, decision):
    homes = {binding.pod.uid: binding.node for binding in decision.bindings}
    return standing(snapshot, batch, homes, qos_targets)


def test_never_fewer_than_kube_scheduler_and_mostly_the_most_there_can_be():
    seen = Counter()
    for seed in drawing.drawn(range(BATCHES), one_in=6):
        snapshot, batch = ruled_batch(seed)
        ours, before = decided(snapshot, batch), decided(snapshot, batch, None)
        theirs = one_at_a_time(snapshot, batch, seed)
        numbers = [served(batch, decision) for decision in (ours, before, theirs)]
        assert numbers[0] == max(numbers), seed
        assert is_allowed_in_turn(snapshot, ours.bindings), seed
        seen["batches"] += 1
        for name, decision in (("solved", ours), ("settled", before), ("in turn", theirs)):
            seen[f"{name}: pods"] += len(decision.bindings)
            seen[f"{name}: proven the most"] += decision.proof.placed
            seen[f"{name}: proven the best"] += decision.proof.placed and decision.proof.qos
            if ours.proof.placed:
                seen[f"{name}: the most"] += served(batch, decision) == numbers[0]
            if ours.proof.placed and ours.proof.qos:
                best = reached(snapshot, batch, ours)
                seen[f"{name}: the best"] += reached(snapshot, batch, decision) == best
    print("\n".join(f"{name}: {number}" for name, number in sorted(seen.items())))  # noqa: T201
    assert seen["solved: proven the most"] >= 0.9 * seen["batches"]
    assert seen["solved: proven the best"] >= 0.9 * seen["batches"]
    assert seen["settled: the most"] < seen["solved: the most"]


@pytest.mark.parametrize("solver", [FindsNothing(), SOLVER])
def test_without_answers_it_is_decided_as_without_a_solver(solver):
    """Nobody is asked once it is late: then pods are put where they may be as they come."""
    late = {"deadline": Deadline(lambda: 1.0, 1.0)} if solver is SOLVER else {}
    for seed in drawing.drawn(range(10)):
        snapshot, batch = ruled_batch(seed)
        found = decided(snapshot, batch, solver, **late)
        assert found.bindings == decided(snapshot, batch, None, **late).bindings


def test_what_is_not_proven_is_told_with_its_bound():
    snapshot, batch = ruled_batch(22)
    before, ours = decided(snapshot, batch, None), decided(snapshot, batch)
    placed, *_ = before.certificates
    assert (placed.goal, placed.value) == ("pods placed", len(before.bindings))
    assert placed.bound >= len(ours.bindings) > placed.value
    assert not ours.certificates


def test_pods_of_a_higher_priority_that_need_one_of_a_lower_come_to_it():
    """Five of them, at the node of the one, while others of theirs have no rule that binds them."""
    snapshot, batch = ruled_batch(25)
    assert served(batch, decided(snapshot, batch, None)) == [13, 1]
    assert served(batch, decided(snapshot, batch)) == [14, 1]


@pytest.mark.parametrize("seed", [4, 10, 111])
def test_rules_in_the_way_of_the_second_plan_are_kept_by_the_third(seed):
    snapshot, batch = ruled_batch(seed)
    assert decided(snapshot, batch).proof.qos
