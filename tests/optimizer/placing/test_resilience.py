"""Replicas at several sites: the loss of any one leaves the part that `resilience` asks for."""

import math
from collections import Counter

import attrs
import pytest

from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.site_demand import SiteDemand
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS, suggest
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.solvers.available import Highs
from support import drawing
from support.placement_instances import resources
from support.placement_literal import every_placement
from support.site_instances import (
    LABELS,
    at_sites,
    demand_of,
    drawn_by_site,
    literal_qos,
    most_reachable,
    pods_of,
    resilient,
)
from support.suggest_instances import running

OBJECTIVES = Objective(), Objective(gamma=10), Objective(evenness=0.65), Objective("latency")
NO_SEARCH = Bounds(states=1)


def keeping(kept, qos=1.0, **weights):
    demand = demand_of(weights) if weights else SiteDemand((), 1.0)
    return QosTarget(qos, demand=attrs.evolve(demand, kept=kept))


def decided(case, objective=OBJECTIVES[0], bounds=None):
    return immediate_schedule(
        case.snapshot, case.batch, case.qos_targets, objective, bounds=bounds, site_labels=LABELS
    )


def reached(case, decision, objective=OBJECTIVES[0]):
    homes = {binding.pod.uid: binding.node for binding in decision.bindings}
    return len(homes), literal_qos(case, homes, objective)


def by_site(case, decision):
    nodes = case.snapshot.nodes
    return Counter(nodes[b.node].labels.get("site", "cloud") for b in decision.bindings)


def test_equals_enumeration():
    seen = Counter()
    for seed in drawing.drawn(range(9000, 9300)):
        seen["instances"] += 1
        case, objective = resilient(drawn_by_site(seed), seed), OBJECTIVES[seed % 4]
        if not has_exact_targets(case):
            seen["approximate target"] += 1
            continue
        decision = decided(case, objective)
        best = max(
            (len(homes), literal_qos(case, homes, objective)) for homes in every_placement(case)
        )
        assert reached(case, decision, objective) == best, seed
        seen["proven"] += decision.proof.qos
        seen["several sites"] += len(by_site(case, decision)) > 2
    assert min(seen["proven"], seen["several sites"]) >= 5, seen
    assert seen["approximate target"] < 0.3 * seen["instances"], seen


def has_exact_targets(case):
    """Return False if the greatest reachable share, with latencies by pair, is an estimate."""
    return all(
        math.isclose(
            target.demand.reachable(share.total), most_reachable(target.demand, share.total)
        )
        for workload, share in case.snapshot.census.shares.items()
        for n in (share.total,)
        if (target := case.qos_targets(workload)).has_users
    )


def test_above_the_limit_never_below_one_at_a_time_and_proof_is_true():
    proven = short = 0
    for seed in drawing.drawn(range(9300, 9400)):
        case = resilient(drawn_by_site(seed), seed)
        decision, exact = decided(case, bounds=NO_SEARCH), decided(case)
        assert reached(case, decision) <= reached(case, exact)
        short += reached(case, decision) < reached(case, exact)
        if decision.proof.qos and decision.proof.placed:
            proven += 1
            assert reached(case, decision) == reached(case, exact), seed
    assert proven > 10
    assert short < 20


@pytest.mark.parametrize("bounds", [None, NO_SEARCH])
@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (0.0, {"a": 6}),
        (0.25, {"a": 4, "b": 2}),
        (0.5, {"a": 3, "b": 3}),
        (0.6, {"a": 2, "b": 2, "c": 2}),
    ],
)
def test_users_of_one_site_have_as_many_replicas_elsewhere_as_its_loss_must_leave(
    kept, expected, bounds
):
    case = at_sites({"a": 8, "b": 3, "c": 3}, pods_of("cart", 6), {"cart": keeping(kept, a=1)})
    found = by_site(case, decided(case, bounds=bounds))
    left = sum(found.values()) - max(found.values())
    assert left >= math.ceil(kept * 6)
    assert found["a"] == expected["a"]
    assert found["cloud"] == 0


def test_without_demand_replicas_are_even_over_many_sites():
    cpus = {f"s{i:02}": 8 for i in range(60)}
    case = at_sites(cpus, pods_of("cart", 120), {"cart": keeping(0.5)})
    assert set(by_site(case, decided(case)).values()) == {2}


def test_without_demand_replicas_are_at_several_sites():
    case = at_sites({"a": 8, "b": 8}, pods_of("cart", 4), {"cart": keeping(0.5)})
    assert by_site(case, decided(case)) == {"a": 2, "b": 2}


def test_a_single_site_cannot_be_resilient_and_is_filled_all_the_same():
    case = at_sites({"a": 8}, pods_of("cart", 4), {"cart": keeping(0.5)})
    assert by_site(case, decided(case)) == {"a": 4}


def test_pods_that_stand_together_are_migrated_apart_and_stay_there():
    pods = [running(f"cart-{n}", "cart", resources(1), "edge-a") for n in range(4)]
    case = at_sites({"a": 8, "b": 8, "c": 8}, pods, {"cart": keeping(0.5, a=1)})
    limits = SuggestLimits(max_moves=20, max_edge_reorder=20, price=10.0)
    bounds = attrs.evolve(SUGGEST_BOUNDS, solver=Highs())
    settings = {"bounds": bounds, "site_labels": LABELS}
    found = suggest(case.snapshot, case.qos_targets, OBJECTIVES[0], limits, **settings)
    assert len(found.moves) == 2
    homes = {move.pod.uid: move.target for move in found.moves}
    moved = [attrs.evolve(p, node_name=homes.get(p.uid, p.node_name)) for p in pods]
    then = at_sites({"a": 8, "b": 8, "c": 8}, moved, case.targets)
    assert found.after.qos == pytest.approx(1e9 * literal_qos(then, {}, OBJECTIVES[0]), abs=100)
    again = suggest(then.snapshot, then.qos_targets, OBJECTIVES[0], limits, **settings)
    assert not again.moves
