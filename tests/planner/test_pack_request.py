"""For which pods it is thought about packing at all, and which of what is found is done."""

from types import SimpleNamespace

import pytest

from kubedsm.config.settings import load
from kubedsm.model.model import Tier, Uid
from kubedsm.model.sites import Away
from kubedsm.objective.lasting import Quiet, QuietPeriods
from kubedsm.optimizer.moving.suggestion import MoveKind
from kubedsm.planner.rebalancing_requests import NO_ROOM, NONE_PROVEN, PackRequest
from kubedsm.planner.requests import PlanningContext
from support.fixed_clock import FixedClock
from support.placement_instances import node, pod, resources, snapshot
from support.suggest_instances import running


def pieces(count=2, *, more=(), tier=Tier.CLOUD):
    """Pairs of nodes with a pod of 2 on each, and for each pair one of 3 that waits."""
    nodes = [node(f"n{i}", tier, 4) for i in range(2 * count)]
    pods = [running(f"r{i}", f"r{i}", resources(2), on=f"n{i}") for i in range(2 * count)]
    pods += [pod(f"w{i}", f"w{i}", resources(3)) for i in range(count)]
    return snapshot(nodes, [*pods, *more])


NOTHING_LEARNED = Quiet()


def asked(
    seen, refused=None, settings="", quiet=NOTHING_LEARNED, interrupted=lambda: False, **about
):
    configuration = load(settings, "test")
    mirror = SimpleNamespace(snapshot=lambda: seen)
    known = PlanningContext(
        mirror, (), lambda: configuration, lambda: configuration.policy, FixedClock(), interrupted
    )
    waiting = {p.uid for p in seen.pods.values() if p.waits_for_node}
    about = {"moving": frozenset(), "resting": frozenset(), "away": Away(), **about}
    question = PackRequest(
        quiet=quiet, budget=5.0, refused=frozenset(waiting if refused is None else refused), **about
    )
    return question.solve(known)


def awaited(packing):
    found = packing.suggestion
    return set() if found is None else {move.pod.name for move in found.awaited}


def test_moves_that_make_room_are_grouped_by_the_nodes_that_they_touch():
    packing = asked(pieces(2))
    found = packing.suggestion
    assert awaited(packing) == {"w0", "w1"}
    assert {move.kind for move in found.moves} == {MoveKind.CLOUD_TO_CLOUD}
    assert sorted(leg.move.group for leg in found.legs) == [0, 1]
    for leg in found.legs:
        [beside] = [move for move in found.awaited if move.group == leg.move.group]
        assert beside.target in {leg.source, leg.target}
        assert leg.move.purpose == f"to free capacity for {beside.pod}"
    assert packing.left == {}


def test_only_pods_that_were_refused_are_placed():
    assert awaited(asked(pieces(2), refused={Uid("uid-w1")})) == {"w1"}


@pytest.mark.parametrize(
    "sizes", [(4, 4), (4, 4, 4), (4, 4, None)], ids=["too little", "too small", "no tier"]
)
def test_for_a_pod_that_moving_cannot_help_nothing_is_thought_about(sizes):
    """5 cores, where 2 are free on each node."""
    nodes = [
        node(f"n{i}", None if size is None else Tier.CLOUD, size or 8)
        for i, size in enumerate(sizes)
    ]
    pods = [running(f"r{i}", "r", resources(2), on=n.name) for i, n in enumerate(nodes)]
    packing = asked(snapshot(nodes, [*pods, pod("w", "w", resources(5))]))
    assert packing.left == {Uid("uid-w"): NO_ROOM}
    assert packing.certificates == ()


def test_room_on_a_node_that_does_not_take_the_pod_counts_too():
    """Others may go there."""
    seen = snapshot(
        [node("n1", Tier.CLOUD, 4), node("n2", Tier.CLOUD, 4, unschedulable=True)],
        [running("r", "r", resources(2), on="n1"), pod("w", "w", resources(3))],
    )
    assert asked(seen).left == {Uid("uid-w"): NONE_PROVEN}


def test_what_may_not_be_moved_stays_and_that_is_proven():
    seen = pieces(1)
    resting = frozenset(pod.workload for pod in seen.pods.values())
    packing = asked(seen, resting=resting)
    assert packing.left == {Uid("uid-w0"): NONE_PROVEN}
    assert packing.rests
    off = asked(seen, settings="migration: {mode: off}")
    assert (off.suggestion, off.rests) == (None, False)


def test_what_is_not_thought_about_to_the_end_may_be_asked_again():
    seen = pieces(1)
    assert asked(seen, settings="migration: {mode: off}", interrupted=lambda: True).rests
    assert not asked(pieces(1)).rests


def test_pods_at_sites_that_are_away_stay():
    seen = pieces(1, tier=Tier.EDGE)
    packing = asked(seen, away=Away({"north": frozenset(seen.nodes)}))
    assert packing.suggestion is None


def test_moves_are_made_if_the_pods_that_get_room_are_worth_more_than_their_price():
    """The price of each is 17 s of a pod; of w0 it is known that it changes all the time."""
    seen, now = pieces(2), 1000.0
    [restless] = [pod.workload for pod in seen.pods.values() if pod.name == "w0"]
    quiet = Quiet(now, {restless: QuietPeriods(now, (5.0,) * 16)})
    packing = asked(seen, quiet=quiet)
    assert awaited(packing) == {"w1"}
    assert len(packing.suggestion.legs) == 1
    assert packing.may_pay_later
    [why] = packing.left.values()
    assert why.startswith("1 migration would free capacity, but the benefit of 1")
    assert awaited(asked(seen, quiet=quiet, settings="migration: {price: 0s}")) == {"w0", "w1"}


def test_who_has_room_without_a_move_costs_nothing():
    seen = snapshot([node("n1", Tier.CLOUD, 4)], [pod("w", "w", resources(3))])
    packing = asked(seen, settings="migration: {price: 24h}")
    assert awaited(packing) == {"w"}
    assert packing.suggestion.legs == ()


@pytest.mark.parametrize("allowed", [False, True])
def test_pods_of_lower_priority_are_evicted_only_where_that_is_allowed(allowed):
    seen = snapshot(
        [node("n1", Tier.CLOUD, 4), node("n2", Tier.CLOUD, 4)],
        [
            running("r1", "r1", resources(2), on="n1"),
            running("r2", "r2", resources(3), on="n2"),
            pod("w", "w", resources(3), priority=1),
        ],
    )
    packing = asked(seen, settings=f"optimiser: {{allowEvictions: {str(allowed).lower()}}}")
    assert awaited(packing) == ({"w"} if allowed else set())
    assert len(packing.evicted) == (1 if allowed else 0)
