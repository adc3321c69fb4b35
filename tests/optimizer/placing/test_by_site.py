import math
import tracemalloc
from collections import Counter

import attrs
import pytest

from kubedsm.model.model import HostPort, SchedulingRules, Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.site_demand import SiteDemand
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS, suggest
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.optimizer.placing.settling import place_one_at_a_time
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.solvers.available import Highs
from support import drawing
from support.placement_instances import Instance, batch_of, node, pod, resources, snapshot
from support.site_instances import (
    LABELS,
    at_sites,
    best_reached,
    counted,
    decided,
    demand_of,
    drawn_by_site,
    literal_qos,
    most_reachable,
    plain_target,
    pods_of,
    reached,
    resilient,
    site_node,
)
from support.suggest_instances import running

SHARE, FAR = Objective(), Objective(gamma=10)
#: no exact search
NO_SEARCH = Bounds(states=1)


def by_site(case, decision):
    """Count the pods of each workload by site."""
    nodes = case.snapshot.nodes
    return Counter(
        (b.pod.workload.name, nodes[b.node].labels.get("site", "cloud")) for b in decision.bindings
    )


def of_site(case, decision):
    sites = Counter()
    for (_, site), number in by_site(case, decision).items():
        sites[site] += number
    return sites


def keeping(kept, **weights):
    """Return a target whose replicas survive the loss of any one site to this part."""
    demand = demand_of(weights) if weights else SiteDemand((), 1.0)
    return QosTarget(demand=attrs.evolve(demand, kept=kept))


def drawn_resilient(seed):
    return resilient(drawn_by_site(seed), seed)


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


@pytest.mark.parametrize(
    ("draw", "seeds"),
    [(drawn_by_site, range(3000, 3400)), (drawn_resilient, range(9000, 9500))],
)
def test_equals_enumeration(draw, seeds):
    seen = Counter()
    objectives = SHARE, FAR, Objective(evenness=0.65), Objective("latency")
    for seed in drawing.drawn(seeds, one_in=6):
        case, objective = draw(seed), objectives[seed % 4]
        seen["drawn"] += 1
        if not has_exact_targets(case):
            seen["approximate target"] += 1
            continue
        decision = decided(case, objective)
        assert reached(case, decision, objective) == best_reached(case, objective), seed
        seen["proven"] += decision.proof.qos
        seen["several sites"] += len({site for _, site in by_site(case, decision)}) > 2
        seen["unplaced"] += bool(decision.unplaced)
    assert min(seen[name] for name in ("proven", "several sites", "unplaced")) >= 3, seen
    assert seen["approximate target"] < seen["drawn"] / 5, seen


def test_memory_does_not_grow_with_the_number_of_classes():
    """65,536 numbers of 8 bytes for each of 16 classes would be 8 MiB."""
    pods = [one for i in range(16) for one in pods_of(f"s{i}", 1, cpu=1 + i / 64)]
    case = at_sites({"a": 1.9}, pods, {f"s{i}": plain_target(a=1) for i in range(16)})
    tracemalloc.start()
    assert decided(case).proof.qos
    assert tracemalloc.get_traced_memory()[1] < 6 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("draw", "seeds"),
    [(drawn_by_site, range(3400, 3550)), (drawn_resilient, range(9300, 9400))],
)
def test_above_the_limit_never_below_one_at_a_time_and_proof_is_true(draw, seeds):
    proven = short = 0
    for seed in [3004, *drawing.drawn(seeds)]:
        case = draw(seed)
        decision = decided(case, bounds=NO_SEARCH)
        exact = decided(case)
        assert reached(case, decision) <= reached(case, exact)
        short += reached(case, decision) < reached(case, exact)
        if decision.proof.qos and decision.proof.placed:
            proven += 1
            assert reached(case, decision) == reached(case, exact), seed
    assert proven > 10
    assert short < 20


def test_replicas_go_to_sites_in_proportion_to_demand():
    targets = {"cart": plain_target(a=3, b=1)}
    case = at_sites({"a": 8, "b": 8, "c": 8}, pods_of("cart", 8), targets)
    for bounds in (None, NO_SEARCH):
        decision = decided(case, bounds=bounds)
        assert by_site(case, decision) == {("cart", "a"): 6, ("cart", "b"): 2}
        assert decision.proof.qos


def test_pods_follow_the_latency_matrix_among_many_sites():
    sites = [f"s{i:02}" for i in range(60)]
    pairs = {("s07", "s37"): 0.9, ("s07", "s12"): 0.7}
    targets = {"cart": QosTarget(demand=demand_of({"s07": 1}, 0.5, pairs.items()))}
    case = at_sites(dict.fromkeys(sites, 1), pods_of("cart", 3), targets)
    assert set(by_site(case, decided(case))) == {("cart", site) for site in ("s07", "s12", "s37")}


def test_more_combinations_than_64_bits_count_are_not_tried():
    sites = dict.fromkeys((f"s{i:02}" for i in range(17)), 1)
    case = at_sites(sites, pods_of("cart", 15), {"cart": plain_target(**sites)})
    decision = decided(case)  # 16 to the power of 17
    assert len(by_site(case, decision)) == 15
    assert not decision.proof.preferences


def test_above_the_limit_replicas_go_to_the_nodes_of_the_site_without_any():
    nodes = [site_node(f"edge-a-{i}", "a") for i in range(3)]
    there = pod("p", "cart", resources(1), on="edge-a-0")
    pods = [pod(f"q{i}", "cart", resources(1)) for i in range(2)]
    shot = snapshot([*nodes, node("cloud", Tier.CLOUD, 64, 512)], [there, *pods])
    case = counted(Instance(shot, tuple(pods), {"cart": plain_target(a=1)}))
    decision = decided(case, bounds=NO_SEARCH)
    assert {binding.node for binding in decision.bindings} == {"edge-a-1", "edge-a-2"}


def test_pods_under_rules_between_pods_go_to_their_sites_one_at_a_time():
    rules = SchedulingRules(ports=(HostPort(80),))
    nodes = [site_node(f"edge-{site}-{i}", site) for site in "ab" for i in range(3)]
    pods = [pod(f"p{i}", "cart", resources(1), rules=rules) for i in range(4)]
    cloud = node("cloud", Tier.CLOUD, 64, 512)
    targets = {"cart": plain_target(a=1, b=1)}
    case = counted(Instance(snapshot([*nodes, cloud], pods), tuple(pods), targets))
    for bounds in (None, NO_SEARCH):
        assert by_site(case, decided(case, bounds=bounds)) == {("cart", "a"): 2, ("cart", "b"): 2}
    batch = batch_of(case.snapshot, case.batch, case.qos_targets, LABELS)
    placed = place_one_at_a_time(batch, Feasibility.of(case.snapshot)).placed.values()
    assert Counter(name[:6] for _, name in placed) == {"edge-a": 2, "edge-b": 2}


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
    found = of_site(case, decided(case, bounds=bounds))
    left = sum(found.values()) - max(found.values())
    assert left >= math.ceil(kept * 6)
    assert found["a"] == expected["a"]
    assert found["cloud"] == 0


def test_pods_that_stand_together_are_migrated_apart_and_stay_there():
    pods = [running(f"cart-{n}", "cart", resources(1), "edge-a") for n in range(4)]
    case = at_sites({"a": 8, "b": 8, "c": 8}, pods, {"cart": keeping(0.5, a=1)})
    limits = SuggestLimits(max_moves=20, max_edge_reorder=20, price=10.0)
    bounds = attrs.evolve(SUGGEST_BOUNDS, solver=Highs())
    settings = {"bounds": bounds, "site_labels": LABELS}
    found = suggest(case.snapshot, case.qos_targets, SHARE, limits, **settings)
    assert len(found.moves) == 2
    homes = {move.pod.uid: move.target for move in found.moves}
    moved = [attrs.evolve(p, node_name=homes.get(p.uid, p.node_name)) for p in pods]
    then = at_sites({"a": 8, "b": 8, "c": 8}, moved, case.targets)
    assert found.after.qos == pytest.approx(1e9 * literal_qos(then, {}, SHARE), abs=100)
    again = suggest(then.snapshot, then.qos_targets, SHARE, limits, **settings)
    assert not again.moves
