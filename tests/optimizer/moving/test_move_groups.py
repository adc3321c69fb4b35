import attrs
import pytest

from kubedsm.cli.migration_advice import list_stages
from kubedsm.model.model import Share, Workload
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, Promise
from kubedsm.optimizer.moving.move_groups import (
    Order,
    circles_broken,
    edge_changes,
    grouped,
    needs_of,
)
from kubedsm.optimizer.moving.suggestion import Move, MoveKind
from support.placement_instances import resources
from support.suggest_instances import running


def move(name, source, target, cpu=1.0, kind=MoveKind.EDGE_TO_EDGE):
    return Move(running(name, name[0], resources(cpu), source), source, target, kind)


def free(**cores):
    return {name: resources(cpu, 64, 64) for name, cpu in cores.items()}


def names(uids):
    return {uid.removeprefix("uid-") for uid in uids}


def waits(moves, room):
    return {
        uid.removeprefix("uid-"): names(others) for uid, others in needs_of(moves, room).items()
    }


def test_moves_that_all_fit_wait_for_nobody():
    moves = [move("a-1", "e1", "e2"), move("b-1", "e1", "e2"), move("c-1", "e2", "e3")]
    assert waits(moves, free(e1=0, e2=2, e3=1)) == {"a-1": set(), "b-1": set(), "c-1": set()}


def test_who_finds_no_room_waits_for_all_that_leave():
    moves = [
        move("a-1", "e1", "e2", 2),
        move("b-1", "e1", "e2", 1),
        move("c-1", "e2", "e3"),
        move("d-1", "e2", "e3"),
    ]
    found = waits(moves, free(e1=0, e2=1, e3=2))
    assert found == {"a-1": {"c-1", "d-1"}, "b-1": set(), "c-1": set(), "d-1": set()}


def test_room_goes_first_to_moves_that_others_may_wait_for():
    # Were the smaller one from the cloud let in first, a and b would wait for each other.
    moves = [
        move("a-1", "e1", "e2", 1),
        move("b-1", "e2", "e1", 1),
        move("c-1", "cloud", "e2", 0.5, MoveKind.CLOUD_TO_EDGE),
    ]
    room = free(e1=0, e2=1, cloud=9)
    assert waits(moves, room) == {"a-1": set(), "b-1": {"a-1"}, "c-1": {"b-1"}}
    assert next(circles_broken(moves, needs_of(moves, room))) == ()


def test_of_each_circle_the_smallest_pod_stops_over():
    moves = [
        move("a-1", "e1", "e2", 2),
        move("b-1", "e2", "e1", 1),
        move("c-1", "e3", "e1", 0.5),
        move("d-1", "e4", "e5", 1),
        move("f-1", "e5", "e4", 2),
    ]
    found = circles_broken(moves, needs_of(moves, free(e1=0, e2=0, e3=0, e4=0, e5=0)))
    stopping = [{move.pod.name for move in chosen} for chosen in found]
    assert stopping[:3] == [{"b-1", "d-1"}, {"b-1", "f-1"}, {"d-1", "a-1"}]
    assert len(stopping) == 9


def gains(**promised):
    shares = {
        Workload("shop", "Deployment", name): Share(1, 2) for name in (*promised, "a", "b", "c")
    }
    return Gains(shares, lambda w: Promise(promised.get(w.name, 1.0)), Objective())


def test_moves_that_wait_for_each_other_are_a_group():
    moves = [
        move("a-1", "cloud", "e1", 1, MoveKind.CLOUD_TO_EDGE),
        move("x-1", "e1", "e2"),
        move("y-1", "e2", "cloud", 1, MoveKind.EDGE_TO_CLOUD),
        move("b-1", "cloud", "e3", 1, MoveKind.CLOUD_TO_EDGE),
    ]
    needs = needs_of(moves, free(e1=0, e2=0, e3=1, cloud=9))
    found = grouped(moves, needs, gains(x=0.5, y=0.0))
    assert [names(m.pod.uid for m in group) for group in found] == [{"a-1", "x-1", "y-1"}, {"b-1"}]


def test_within_a_tier_no_share_changes():
    kinds = ("cloud-to-edge", "edge-to-cloud", "edge-to-edge", "cloud-to-cloud")
    moves = [move(f"{n}-1", "x", "y", 1, MoveKind(kind)) for n, kind in enumerate(kinds)]
    changed = {workload.name: change for workload, change in edge_changes(moves).items()}
    assert changed == {"0": 1, "1": -1}


def legs(*moves, **needs):
    by_name = {each.pod.name.partition("-")[0]: each for each in moves}
    uids = {
        by_name[name].pod.uid: frozenset(by_name[other].pod.uid for other in needs.get(name, ()))
        for name in by_name
    }
    return Order(moves, uids).legs(moves)


def test_who_stops_over_leaves_before_and_comes_after_those_that_need_its_room():
    big, small = move("big-1", "e1", "e2"), move("small-1", "e2", "e1")
    [out, across, back] = legs(
        big, attrs.evolve(small, stopover="c1"), big=["small"], small=["big"]
    )
    assert (out.source, out.target, out.needs) == ("e2", "c1", frozenset())
    assert (across.source, across.target, across.needs) == ("e1", "e2", {out.name})
    assert (back.source, back.target, back.needs) == ("c1", "e1", {out.name, across.name})
    assert [leg.continues for leg in (out, across, back)] == ["", "", out.name]


def test_a_circle_has_no_legs():
    with pytest.raises(ValueError, match="wait for each other"):
        legs(move("a-1", "e1", "e2"), move("b-1", "e2", "e1"), a=["b"], b=["a"])


def test_stages_are_what_may_go_at_once():
    moves = [move(f"{name}-1", "e1", "e2") for name in "abcd"]
    found = list_stages(legs(*moves, a=["b"], d=["a", "c"]))
    assert found == (("shop/b-1", "shop/c-1"), ("shop/a-1",), ("shop/d-1",))
