"""Beyond the bounds: never fewer pods than one at a time, and how far from the best.

The long form is `kubedsm bench solve`.
"""

import itertools
import json
import re

import attrs
import pytest

from kubedsm.model.model import Tier
from kubedsm.objective.objective import NANO, Objective, QosTarget
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import Leg, Move, MoveKind, SuggestLimits
from kubedsm.optimizer.placing.decision import Binding, Decision
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.solvers.available import Highs
from kubedsm_lab.baselines.in_turn import InTurn
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.bench.report import DisagreementError
from kubedsm_lab.bench.solve.instances import Instance, batches, crowded, ruled
from kubedsm_lab.bench.solve.oracle import Best, Reach, best_moves, best_placement
from kubedsm_lab.bench.solve.run import Task, carry_out, move, place, place_with
from kubedsm_lab.bench.solve.verdict import Moved, Moves, Placed, SolveResult, Standing, Way
from support.drawing import drawn_cases
from support.placement_instances import drawn, node, resources, snapshot
from support.printed import printed
from support.suggest_instances import crowded_case, running


def instance(of, objective, batch=()):
    """Every workload of a case or instance of the tests has its promise."""
    workloads = {each.workload for each in of.snapshot.pods.values()}
    promised = {workload: of.promises(workload) for workload in workloads}
    return Instance("drawn", of.snapshot, batch, promised, objective)


@pytest.mark.parametrize("seed", drawn_cases(range(60)))
def test_the_oracle_knows_no_better_than_a_proven_decision(seed):
    of, objective = drawn(seed), Objective(gamma=seed % 2 * 10)
    decision = immediate_schedule(of.snapshot, of.batch, of.promises, objective)
    best = best_placement(instance(of, objective, of.batch))
    assert decision.proof.placed
    assert decision.proof.qos
    assert best.proven
    assert sum(reach.found for reach in best.placed) == len(decision.bindings)
    waiting = {each.workload for each in of.batch}
    others = sum(
        objective.score(share.edge, share.total, promise.qos, promise.weight)
        for workload, share in of.snapshot.shares().items()
        if workload not in waiting
        for promise in [of.promises(workload)]
    )
    expected = (decision.score_after - others) / NANO
    assert sum(reach.found for reach in best.qos) == pytest.approx(expected)


@pytest.mark.parametrize("number", drawn_cases(range(40)))
def test_the_oracle_knows_no_better_than_proven_moves(number):
    case = next(itertools.islice(all_running(), number, None))
    found = suggest(case.snapshot, case.promises, case.objective, case.limits)
    best = best_moves(instance(case, case.objective), case.limits)
    assert found.proven
    assert best.proven
    assert best.qos[0].found == pytest.approx(found.after.qos / NANO)


def all_running():
    """Cases with room in the cloud for whatever leaves the edge, so that all moves can be made."""
    cases = (crowded_case(seed, roomy=True) for seed in itertools.count())
    return (case for case in cases if len(case.snapshot.placed) == len(case.snapshot.pods))


def test_moves_without_room_are_noticed():
    """Two pods that want each other's node: there is room for neither before the other is gone."""
    pods = [running(f"{name}-0", name, resources(2), f"edge-{name}") for name in "ab"]
    nodes = [node("edge-a", Tier.EDGE, 2), node("edge-b", Tier.EDGE, 2), node("cloud", Tier.CLOUD)]
    shot, limits = snapshot(nodes, pods), SuggestLimits()
    moves = [
        Move(each, each.node_name, nodes[1 - at].name, MoveKind.EDGE_TO_EDGE)
        for at, each in enumerate(pods)
    ]
    nothing = suggest(shot, lambda _: QosTarget(), Objective(), limits)
    for legs, why in (
        ([Leg(moves[0], moves[0].source, moves[0].target)], "finds no room"),
        ([Leg(moves[0], moves[0].source, moves[0].target)] * 7, "7 legs"),
    ):
        with pytest.raises(DisagreementError, match=why):
            carry_out(shot, attrs.evolve(nothing, moves=tuple(moves), legs=tuple(legs)), limits)


def test_a_node_that_does_not_take_a_pod_is_noticed():
    of = next(batches(0))
    everything = of.snapshot.of_tier(Tier.EDGE)[0]

    class Careless:
        def place(self, snapshot, pods, *_):
            return Decision(tuple(Binding(each, everything.name, Tier.EDGE) for each in pods))

    with pytest.raises(DisagreementError, match=f"{everything.name} does not take"):
        place_with(Careless(), of)


#: of its search, whatever it finds by then; where that is little, the bound is still one
NODES = 40


def test_a_batch_beyond_the_bounds_never_has_fewer_pods_placed_than_one_at_a_time():
    """Without a solver, too. Pods of higher priority come first."""
    for of in itertools.islice(batches(0), 12):
        beside = place_with(InTurn(kube_scheduler, of.promises, of.objective), of)
        assert place_with(KubeDSM(of.promises, of.objective), of).placed >= beside.placed


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 2, 4, 9])
def test_with_a_solver_as_many_are_placed_as_can_be(number):
    of = next(itertools.islice(batches(0), number, None))
    judged = place(Task(of, nodes=NODES))
    assert judged.best.proven
    assert judged.is_not_fewer(Way.SOLVED)
    assert judged.is_most(Way.SOLVED)
    assert judged.qos_part(Way.SOLVED) > 0.99
    assert judged.ways[Way.UNSOLVED].placed <= judged.ways[Way.SOLVED].placed


@pytest.mark.long
@pytest.mark.parametrize("number", [4, 9])
def test_rules_among_pods_cost_no_placement_that_they_allow(number):
    of = next(itertools.islice(ruled(0), number, None))
    judged = place(Task(of, nodes=NODES))
    assert judged.best.proven
    assert judged.is_not_fewer(Way.UNSOLVED)
    assert judged.is_most(Way.SOLVED)


@pytest.mark.long
def test_suggestions_beyond_the_bounds_gain_what_the_best_do():
    parts = []
    for of in itertools.islice(crowded(0), 3):
        asked = KubeDSM(of.promises, of.objective, solver=Highs(nodes=NODES))
        found = asked.suggest(of.snapshot, lambda _: None)
        carry_out(of.snapshot, found, SuggestLimits())
        gained = (found.after.qos - found.before.qos) / NANO
        best = best_moves(of, SuggestLimits()).qos[0].found - found.before.qos / NANO
        assert gained <= best + 1e-6
        assert found.proven or found.certificate.bound / NANO >= best - 1e-6
        parts.append(gained / best)
    assert sum(parts) / len(parts) >= 0.97
    judged = move(Task(next(crowded(0)), nodes=NODES))
    assert judged.first_part(Way.SOLVED) >= 0.97
    assert judged.last_part(Way.SOLVED) >= 0.985


@pytest.mark.long
def test_what_is_proven_is_the_best_where_columns_are_parallel():
    """HiGHS 1.15.1 proves less than there is, unless it is kept from joining them."""
    of = next(each for each in batches(0) if each.name == "batch 0.187")
    judged = place(Task(of, nodes=NODES))
    assert judged.best.proven
    assert judged.ways[Way.SOLVED].proven


def test_algorithms_are_compared_under_headings_that_are_words():
    reach, standing = (Reach(2.0, 2.0),), Standing((2,), (2.0,), True, (), 0.1)
    ways = dict.fromkeys((Way.SOLVED, Way.UNSOLVED, Way.KUBE_SCHEDULER), standing)
    placed = Placed("one", 2, 1, (0.0,), ways, Best(reach, reach), 0.1)
    moves = dict.fromkeys((Way.SOLVED, Way.UNSOLVED, Way.BEST), Moves(1.0, 1.0, 1.0, 1, 0.1))
    result = SolveResult([placed], [placed], [Moved("one", 9, 20, moves, 1.0, 1.0, True)])
    report = result.report()
    json.dumps(report.figures)
    shown = printed(report.rendered, 160)
    assert "the most" in shown
    assert "in the end" in shown
    assert not re.search(r"[a-z][A-Z]", shown.replace("QoS", "").replace("CPU", ""))
