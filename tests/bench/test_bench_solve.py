"""Beyond the bounds: never fewer pods than one at a time, and how far from the best.

The long form is `kubedsm bench solve`.
"""

import itertools

import pytest

from kubedsm.objective.objective import NANO, Objective
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.solvers.available import Highs
from kubedsm_lab.baselines.in_turn import InTurn
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.bench.solve.instances import Instance, batches, crowded, ruled
from kubedsm_lab.bench.solve.oracle import best_moves, best_placement
from kubedsm_lab.bench.solve.run import Task, carry_out, move, place, place_with
from kubedsm_lab.bench.solve.verdict import Algorithm
from support.drawing import drawn_cases
from support.placement_instances import drawn
from support.suggest_instances import crowded_case


def instance(of, objective, batch=()):
    """Every workload of a case or instance of the tests has its promise."""
    workloads = {each.workload for each in of.snapshot.pods.values()}
    targets = {workload: of.qos_targets(workload) for workload in workloads}
    return Instance("drawn", of.snapshot, batch, targets, objective)


@pytest.mark.parametrize("seed", drawn_cases(range(60)))
def test_the_oracle_knows_no_better_than_a_proven_decision(seed):
    of, objective = drawn(seed), Objective(gamma=seed % 2 * 10)
    decision = immediate_schedule(of.snapshot, of.batch, of.qos_targets, objective)
    best = best_placement(instance(of, objective, of.batch))
    assert decision.proof.placed
    assert decision.proof.qos
    assert best.proven
    assert sum(reach.found for reach in best.placed) == len(decision.bindings)
    assert sum(reach.found for reach in best.qos) == pytest.approx(decision.score_after / NANO)


@pytest.mark.parametrize("number", drawn_cases(range(40)))
def test_the_oracle_knows_no_better_than_proven_moves(number):
    case = next(itertools.islice(all_running(), number, None))
    found = suggest(case.snapshot, case.qos_targets, case.objective, case.limits)
    best = best_moves(instance(case, case.objective), case.limits)
    assert found.proven
    assert best.proven
    assert best.qos[0].found == pytest.approx(found.after.qos / NANO)


def all_running():
    """Cases with room in the cloud for whatever leaves the edge, so that all moves can be made."""
    cases = (crowded_case(seed, roomy=True) for seed in itertools.count())
    return (case for case in cases if len(case.snapshot.placed) == len(case.snapshot.pods))


#: of its search, whatever it finds by then; where that is little, the bound is still one
NODES = 40


def test_a_batch_beyond_the_bounds_never_has_fewer_pods_placed_than_one_at_a_time():
    """Without a solver, too. Pods of higher priority come first."""
    for of in itertools.islice(batches(0), 6):
        beside = place_with(InTurn(kube_scheduler, of.qos_targets, of.objective), of)
        assert place_with(KubeDSM(of.qos_targets, of.objective), of).placed >= beside.placed


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 2, 4, 9])
def test_with_a_solver_as_many_are_placed_as_can_be(number):
    of = next(itertools.islice(batches(0), number, None))
    judged = place(Task(of, nodes=NODES))
    assert judged.best.proven
    assert judged.is_not_fewer(Algorithm.SOLVED)
    assert judged.is_most(Algorithm.SOLVED)
    assert judged.qos_part(Algorithm.SOLVED) > 0.99
    assert judged.ways[Algorithm.UNSOLVED].placed <= judged.ways[Algorithm.SOLVED].placed


@pytest.mark.long
@pytest.mark.parametrize("number", [4, 9])
def test_rules_among_pods_cost_no_placement_that_they_allow(number):
    of = next(itertools.islice(ruled(0), number, None))
    judged = place(Task(of, nodes=NODES))
    assert judged.best.proven
    assert judged.is_not_fewer(Algorithm.UNSOLVED)
    assert judged.is_most(Algorithm.SOLVED)


@pytest.mark.long
def test_suggestions_beyond_the_bounds_gain_what_the_best_do():
    parts = []
    for of in itertools.islice(crowded(0), 3):
        asked = KubeDSM(of.qos_targets, of.objective, solver=Highs(nodes=NODES))
        found = asked.suggest(of.snapshot, lambda _: None)
        carry_out(of.snapshot, found, SuggestLimits())
        gained = (found.after.qos - found.before.qos) / NANO
        best = best_moves(of, SuggestLimits()).qos[0].found - found.before.qos / NANO
        assert gained <= best + 1e-6
        assert found.proven or found.certificate.bound / NANO >= best - 1e-6
        parts.append(gained / best)
    assert sum(parts) / len(parts) >= 0.97
    judged = move(Task(next(crowded(0)), nodes=NODES))
    assert judged.first_part(Algorithm.SOLVED) >= 0.97
    assert judged.last_part(Algorithm.SOLVED) >= 0.985


@pytest.mark.long
def test_what_is_proven_is_the_best_where_columns_are_parallel():
    """HiGHS 1.15.1 proves less than there is, unless it is kept from joining them."""
    of = next(each for each in batches(0) if each.name == "batch 0.187")
    judged = place(Task(of, nodes=NODES))
    assert judged.best.proven
    assert judged.ways[Algorithm.SOLVED].proven
