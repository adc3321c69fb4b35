from placement_instances import resources
from suggest_instances import running

from kubedsm.core.goals.gains import Gains
from kubedsm.core.goals.objective import Objective, Promise
from kubedsm.core.moving.move_groups import circles_broken, grouped, needs_of
from kubedsm.core.moving.suggestion import Move, MoveKind
from kubedsm.core.world.model import Share, Workload


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
