"""Dumps on which decisions were once found wanting, and what is decided on them now."""

from collections import Counter

import attrs
import pytest

from kubedsm.cli.inputs import mirror_of
from kubedsm.cli.migration_advice import advise
from kubedsm.cli.placement import place_pods, placement_tables
from kubedsm.config.settings import Configuration, load_file
from kubedsm.kube.wire import dump as dumps
from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Tier
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.suggestion import MoveKind
from kubedsm.solvers.available import Highs
from support.printed import printed
from support.recorded import CASES

PRICE = Configuration().migration.price


def read(name):
    """The best known values of the cases are those of the paper's objective."""
    configured = CASES / f"{name}.yaml"
    configuration = load_file(configured) if configured.exists() else Configuration()
    objective = attrs.evolve(configuration.objective, evenness=0.0)
    configuration = attrs.evolve(configuration, objective=objective)
    return dumps.read((CASES / f"{name}.json").read_bytes(), name), configuration


def suggested(name, **migration):
    """What is suggested; where moves are free, unless they are given a price."""
    dump, configuration = read(name)
    settings = attrs.evolve(configuration.migration, **({"price": 0.0} | migration))
    configuration = attrs.evolve(configuration, migration=settings)
    snapshot = mirror_of(dump, configuration).snapshot()
    return advise(snapshot, configuration).suggestion


def moved(suggestion):
    return {(move.pod.name, move.target) for move in suggestion.moves}


def qos_after(suggestion):
    return round(suggestion.after.qos / 1e9, 3)


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        # The cache does not leave its readers.
        ("h11-affinity-broken", set()),
        ("h11b-after-the-move-readers-cannot-scale", set()),
        # No more pods come than the spread of another allows.
        ("h12-spread-of-others-broken", {("b-t0-5", "e1")}),
        # A pod that came to be near another is not left by it.
        (
            "suggest-rules2-111",
            {("w0-t0-3", "e04"), ("w0-t0-7", "e04"), ("w1-t0-12", "e01"), ("w3-t0-9", "e04")},
        ),
        # No pod leaves the edge that no node of a full cloud takes. And if it could, the two that
        # came for it would gain no more than it loses.
        ("h10-full-cloud-swap", set()),
    ],
)
def test_moves_break_no_rule_and_leave_no_pod_without_a_node(name, moves):
    assert moved(suggested(name)) == moves


@pytest.mark.parametrize(
    ("name", "legs", "qos"), [("suggest-promise-23", 6, 9.945), ("suggest-stranded-10", 6, 19.705)]
)
def test_a_stopover_is_a_move_more(name, legs, qos):
    found = suggested(name)
    assert len(found.legs) == legs
    assert qos_after(found) == qos


@pytest.mark.parametrize("name", ["h03-swap-for-nothing", "h04-beyond-promise"])
def test_next_to_nothing_and_a_surplus_are_worth_no_move(name):
    assert suggested(name).moves
    assert not suggested(name, price=PRICE).moves
    # However cheap moves are, there is nothing to gain beyond the promise.
    assert bool(suggested(name, price=0.1).moves) == (name == "h03-swap-for-nothing")


def test_a_promise_is_kept_by_moves_and_its_surplus_is_not_increased():
    found = suggested("h05-surplus-swap", price=PRICE)
    assert len(found.legs) == 2
    broken = [w for w, share in found.before.shares.items() if share.ratio < 0.1]
    assert [w for w, share in found.after.shares.items() if share.ratio < 0.1] == []
    gained = [
        w for w, share in found.after.shares.items() if share.edge > found.before.shares[w].edge
    ]
    assert gained == broken


def test_room_that_a_move_leaves_in_the_cloud_is_counted_within_the_time():
    found = suggested("suggest-tightcloud-34")
    assert qos_after(found) == 0.090
    assert found.proven
    [leaving] = [leg for leg in found.legs if leg.move.kind is MoveKind.EDGE_TO_CLOUD]
    assert leaving.needs == {"shop/w4-t0-7"}
    found = place_pods(*read("place-big-7"), Deadline(lambda: 1.0, 1.0))
    assert not found.decision.proof.placed
    found = advise(*solved("suggest-manyw-7")).suggestion
    assert (qos_after(found), round(found.before.qos / NANO, 3)) == (86.862, 24.8)
    assert found.proven
    assert found.certificate.bound == found.after.qos - found.before.qos


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("h08-batch-mate-spread", 6),
        ("place-rules-121", 25),
        ("h06-colocation-zone", 6),
        ("place-rules-218", 8),
    ],
)
def test_all_are_placed_that_kube_scheduler_might_place_one_by_one(name, number):
    dump, configuration = read(name)
    decision = place_pods(dump, configuration).decision
    assert (len(decision.bindings), len(decision.unplaced)) == (number, 0)


@pytest.mark.parametrize(
    ("name", "number", "qos"), [("place-big-7", 200, -3.05), ("place-big-43", 128, -1.36)]
)
@pytest.mark.parametrize("solver", [None, Highs(nodes=1)], ids=["without", "highs"])
def test_all_are_placed_beyond_the_bounds(name, number, qos, solver):
    dump, configuration = read(name)
    snapshot = mirror_of(dump, configuration).snapshot()
    policy = attrs.evolve(configuration.policy, solver=solver)
    decision = policy.decide_batch(snapshot, snapshot.schedulable(snapshot.pods.values()))
    assert (len(decision.bindings), decision.proof.placed) == (number, True)
    assert solver is None or decision.score_after / 1e9 >= qos
    [qos_left] = decision.certificates
    assert (qos_left.goal, qos_left.gap > 0) == ("QoS", True)


def test_higher_priority_leaves_zones_even_and_old_large_pods_do_not_wait():
    dump, configuration = read("place-mixed-110")
    decision = place_pods(dump, configuration).decision
    assert Counter(binding.pod.pod_class.priority for binding in decision.bindings) == {
        100: 7,
        10: 5,
    }
    # Of those alike the oldest.
    found = {b.pod.name for b in decision.bindings if b.pod.workload.name.startswith("w1")}
    assert found == {f"w1-t0-{n}" for n in range(1, 5)}
    placement = place_pods(*read("h01-old-large-starved"))
    bound = Counter(binding.pod.workload.name for binding in placement.decision.bindings)
    assert bound == {"big": 1, "small": 8}
    assert placement.lost_to_age == 7
    shown = placement_tables(placement, 0.0)
    assert "7 more pods would be placed without batch.patience" in printed(shown)


def after_all_rounds(name):
    """The shares, edge and total, once nothing more is suggested; and how many moves it took."""
    dump, configuration = read(name)
    snapshot, number = mirror_of(dump, configuration).snapshot(), 0
    for _ in range(10):
        moves = advise(snapshot, configuration).suggestion.moves
        number += len(moves)
        snapshot = snapshot.with_placed({move.pod.uid: move.target for move in moves})
        if not moves:
            break
    shares = {str(w): (share.edge, share.total) for w, share in snapshot.census.shares.items()}
    return shares, number


def test_a_promise_out_of_reach_of_one_suggestion_is_kept_after_the_next_or_not_begun():
    assert after_all_rounds("h09-seven-moves-gamma") == ({"shop/x": (7, 7)}, 7)
    shares, number = after_all_rounds("h09b-promise-out-of-reach")
    assert (shares["shop/x"], number) in (((8, 8), 16), ((0, 8), 0))


def solved(name):
    """The snapshot, and a configuration that gives a solver time, and takes moves for free."""
    dump, configuration = read(name)
    configuration = attrs.evolve(
        configuration,
        migration=attrs.evolve(configuration.migration, price=0.0),
        solver=attrs.evolve(configuration.solver, kind="highs", budget=60.0),
    )
    return mirror_of(dump, configuration).snapshot(), configuration


@pytest.mark.parametrize(("configured", "checkout"), [(True, 32), (False, 0)])
def test_the_busiest_is_served_first_where_rates_are_told(configured, checkout):
    dump, configuration = read("h02-busiest-starved")
    decision = place_pods(dump, configuration if configured else Configuration()).decision
    edge = Counter(b.pod.workload.name for b in decision.bindings if b.tier is Tier.EDGE)
    assert edge["checkout"] == checkout
