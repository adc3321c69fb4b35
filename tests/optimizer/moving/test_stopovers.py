"""Orders of migrations: dependencies, cycles broken by stopovers in the cloud, and groups."""

import os
import random
from collections import Counter
from itertools import combinations
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from kubedsm.model.model import SchedulingRules, Tier
from kubedsm.objective.fragmentation import Measure
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.moving.migration_graph import (
    Order,
    break_cycles,
    find_needs,
    group_migrations,
    list_startable,
)
from kubedsm.optimizer.moving.move_order import Impasse, order_migrations
from kubedsm.optimizer.moving.pairing import pair_moves
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import Leg, Move, MoveKind, SuggestLimits, order_legs
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.fit import shortages
from support import drawing
from support.literal_moves import carried_out
from support.placement_instances import Instance, node, resources, snapshot
from support.ruled_instances import apart
from support.suggest_instances import Case, problem_of, running

#: in the suite; KUBEDSM_TIGHT_CLOUDS=2000 makes the long form
CLUSTERS = int(os.environ.get("KUBEDSM_TIGHT_CLOUDS", "400"))
#: More suggestions in a row than any of these clusters has good moves for.
ENOUGH = 30
SIZES = {"a": 1, "b": 1.5, "c": 2, "d": 2.5, "e": 3, "f": 3, "x": 0.5, "y": 1, "z": 2}


def tight_case(seed, *, shy=()):
    """Edge nodes that few pods can change between, and a cloud that holds little more."""
    rng = random.Random(seed)
    ssd = SchedulingRules((("disk", "ssd"),))
    nodes = [
        node(
            f"e{i}", Tier.EDGE, rng.choice((3, 4, 5)), 64, labels={"disk": "ssd"} if i == 0 else {}
        )
        for i in range(rng.choice((2, 2, 3)))
    ]
    free = {each.name: each.allocatable for each in nodes}
    pods = []
    for i in range(rng.randint(4, 8)):  # any of them, wherever it fits
        service = rng.choice("abcdef")
        requests = resources(SIZES[service])
        fitting = [each.name for each in nodes if not shortages(requests, free[each.name])]
        if fitting:
            on = rng.choice(fitting)
            free[on] -= requests
            pods.append(running(f"{service}-{i}", service, requests, on))
    for i in range(rng.randint(1, 4)):  # these would like to come, and not all may go anywhere
        service = rng.choice("xyz")
        requests = resources(SIZES[service])
        made = running(f"{service}-{i}", service, requests, f"c{rng.choice((0, 1))}")
        wanted = SchedulingRules() if service == "z" else ssd
        pods.append(attrs.evolve(made, pod_class=attrs.evolve(made.pod_class, rules=wanted)))
    for name in ("c0", "c1"):
        used = sum(pod.requests.cpu for pod in pods if pod.node_name == name) // 500 / 2
        nodes.append(
            node(
                name, Tier.CLOUD, used + rng.choice((0, 1, 2, 2, 3, 4)), 64, labels={"disk": "ssd"}
            )
        )
    for at, pod in enumerate(pods):
        name = pod.workload.name
        rules = pod.pod_class.rules
        if name in shy:  # one a node
            rules = attrs.evolve(rules, anti_affinity=(apart(name),))
        pod_class = attrs.evolve(pod.pod_class, rules=rules)
        pods[at] = attrs.evolve(pod, pod_class=pod_class, labels={"app": name})
    targets = {s: QosTarget(rng.choice((0.5, 1.0, 1.0)), rng.choice((1, 2))) for s in SIZES}
    limits = SuggestLimits(max_edge_reorder=rng.choice((2, 3, 4)), defragment=rng.random() < 0.2)
    return snapshot(nodes, pods), lambda w: targets[w.name], limits


def carried_out_to_the_end(seed, **more):
    """All suggestions one after the other, each in several orders; how many took stopovers."""
    shot, qos_targets, limits = tight_case(seed, **more)
    seen = Counter()
    for _ in range(ENOUGH):
        found = suggest(shot, qos_targets, Objective(gamma=10), limits)
        assert bool(found.legs) == bool(found.moves), seed
        if not found.moves:
            return seen
        for order in range(3):
            after = carried_out(shot, found, seed + order)
        assert after.census.shares == found.after.shares
        worth = [(score.qos, -score.fragmentation) for score in (found.before, found.after)]
        assert worth[0] < worth[1], seed
        shot = after
        stopping = any(move.stopover for move in found.moves)
        seen["moved"] += 1
        seen["stopped over"] += stopping
        seen["stopped over, proven"] += stopping and found.proven
    raise AssertionError(f"no end after {ENOUGH} suggestions, seed {seed}")


@pytest.mark.parametrize("quarter", range(4))
def test_every_suggestion_can_be_carried_out_until_there_is_none(quarter):
    seen = Counter()
    for seed in drawing.drawn(
        range(quarter * CLUSTERS // 4, (quarter + 1) * CLUSTERS // 4), one_in=6
    ):
        seen += carried_out_to_the_end(seed)
    assert seen["moved"] >= CLUSTERS / 32, seen
    assert seen["stopped over, proven"], seen


def test_and_where_pods_keep_away_from_each_other():
    seen = Counter()
    for seed in drawing.drawn(range(CLUSTERS // 4)):
        seen += carried_out_to_the_end(seed, shy="abcdefx"[seed % 5 :][:3])
    assert seen["moved"] >= CLUSTERS / 64, seen
    assert seen["stopped over"], seen


def test_pods_of_full_nodes_go_to_free_ones_and_need_no_stopover():
    """a leaves s and n for t and m; b goes from t to s, which are full."""
    nodes = [node(name, Tier.EDGE, 2 if name == "n" else 1, 64) for name in "mnst"]
    pods = [running(f"{w}-{at}", w, resources(1), at) for w, at in (("a", "s"), ("a", "n"))]
    pods.append(running("b-t", "b", resources(1), "t"))
    shot = snapshot([*nodes, node("c", Tier.CLOUD, 9, 64)], pods)
    targets = {"a": QosTarget(), "b": QosTarget()}
    case = Case(Instance(shot, (), targets), SuggestLimits(), Objective())
    problem = problem_of(case, Measure.UNUSABLE)
    changes = {"m": (1, 0), "n": (-1, 0), "s": (-1, 1), "t": (1, -1)}
    order = pair_moves(problem, np.array([changes[each.name] for each in problem.nodes]))
    assert not any(each.stopover for each in order.moves)


@pytest.mark.parametrize(("cores", "kind"), [(3, Impasse), (4, Order)])
def test_the_cloud_has_room_for_a_second_stopover_beside_the_first(cores, kind):
    """Two circles, and a pod that stays in the cloud: 1 + 1 + 2 cores."""
    ways = (("a", "e0", "e1", 1), ("b", "e1", "e0", 1), ("c", "e2", "e3", 1), ("d", "e3", "e2", 1))
    moves = [
        Move(running(f"{name}-1", name, resources(cpu), source), source, target, MoveKind(how))
        for name, source, target, cpu, how in (
            *((*way, "edge-to-edge") for way in ways),
            ("x", "e4", "c0", 2, "edge-to-cloud"),
        )
    ]
    edge = [node(f"e{at}", Tier.EDGE, 2 if at == 4 else 1, 64) for at in range(5)]
    shot = snapshot([*edge, node("c0", Tier.CLOUD, cores, 64)], [move.pod for move in moves])
    found = order_migrations(Feasibility.of(shot), moves, shot.free)
    assert isinstance(found, kind)
    if isinstance(found, Order):
        assert [move.stopover for move in found.moves].count("c0") == 2


def move(name, source, target, cpu=1.0, kind=MoveKind.EDGE_TO_EDGE):
    return Move(running(name, name[0], resources(cpu), source), source, target, kind)


SWAPPED = (("a", "b"), ("b", "a"))


def free(**cores):
    return {name: resources(cpu, 64, 64) for name, cpu in cores.items()}


def names(uids):
    return {uid.removeprefix("uid-") for uid in uids}


def waits(moves, room):
    return {
        uid.removeprefix("uid-"): names(others) for uid, others in find_needs(moves, room).items()
    }


def test_room_goes_first_to_moves_that_others_may_wait_for():
    # Were the smaller one from the cloud let in first, a and b would wait for each other.
    moves = [
        move("a-1", "e1", "e2", 1),
        move("b-1", "e2", "e1", 1),
        move("c-1", "cloud", "e2", 0.5, MoveKind.CLOUD_TO_EDGE),
    ]
    room = free(e1=0, e2=1, cloud=9)
    assert waits(moves, room) == {"a-1": set(), "b-1": {"a-1"}, "c-1": {"b-1"}}
    assert next(break_cycles(moves, find_needs(moves, room))) == ()


def test_room_goes_first_to_moves_from_nodes_short_of_room():
    # Were a let in first, by its name, b and c would wait for each other.
    moves = [move("a-1", "e3", "e2"), move("b-1", "e1", "e2"), move("c-1", "e2", "e1")]
    found = waits(moves, free(e1=0, e2=1, e3=0))
    assert found == {"a-1": {"c-1"}, "b-1": set(), "c-1": {"b-1"}}


def test_each_of_many_swaps_has_a_stopover():
    moves = [
        move(f"{one}{n}-1", f"{one}{n}", f"{other}{n}") for n in range(20) for one, other in SWAPPED
    ]
    room = free(**{each.source: 0 for each in moves})
    chosen = next(break_cycles(moves, find_needs(moves, room)))
    assert [each.source for each in chosen] == sorted(f"a{n}" for n in range(20))


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


def literal_order(legs):
    """Repeatedly take the first name of which all needs are done; None for a cycle."""
    left, ordered = {leg.name: leg for leg in legs}, []
    while left:
        ready = [name for name, leg in left.items() if leg.needs <= {o.name for o in ordered}]
        if not ready:
            return None
        ordered.append(left.pop(min(ready)))
    return tuple(ordered)


def literal_startable(needs, stopping):
    """Let migrations start whose needs are gone, until none starts any more."""
    over, gone = set(), set(needs) & stopping
    while ready := [uid for uid in needs if uid not in over and needs[uid] <= gone]:
        over.update(ready)
        gone.update(ready)
    return over


def literal_groups(moves, needs):
    """Relabel the one of two groups that wait for each other, again and again."""
    group = {each.pod.uid: at for at, each in enumerate(moves)}
    for uid, others in needs.items():
        for other in others:
            old, new = group[other], group[uid]
            group = {u: new if at == old else at for u, at in group.items()}
    parts = {}
    for each in moves:
        parts.setdefault(group[each.pod.uid], []).append(each)
    return [tuple(part) for part in parts.values()]


def literal_choices(moves, needs):
    """Try all sets of migrations within the edge that wait and are waited for, small ones first."""
    stuck = needs.keys() - literal_startable(needs, set())
    waited_for = {uid for each in stuck for uid in needs[each]} & stuck
    inside = [each for each in moves if each.pod.uid in waited_for]
    inside.sort(key=lambda m: (m.pod.requests.cpu, m.pod.requests.memory, str(m.pod)))
    for number in range(len(inside) + 1):
        for chosen in combinations(inside, number):
            if len(literal_startable(needs, {m.pod.uid for m in chosen})) == len(needs):
                yield chosen


ALL_GAIN = SimpleNamespace(of_changes=lambda _: (10**9,))


@pytest.mark.parametrize("seed", drawing.drawn_cases(range(20)))
def test_order_cycles_and_groups_equal_the_literal_forms_on_random_graphs(seed):
    rng = random.Random(seed)
    for _ in range(100):
        moves = [
            move(f"{n}-1", "e1", "e2", rng.choice((0.5, 1, 2))) for n in range(rng.randint(1, 7))
        ]
        uids = [each.pod.uid for each in moves]
        density = rng.random() ** 2
        needs = {
            uid: frozenset(o for o in uids if o != uid and rng.random() < density) for uid in uids
        }
        stopping = {uid for uid in uids if rng.random() < 0.3}
        assert list_startable(needs, stopping) == literal_startable(needs, stopping)
        legs_ = [
            Leg(
                m, "e1", "e2", frozenset(str(o.pod) for o in moves if o.pod.uid in needs[m.pod.uid])
            )
            for m in moves
        ]
        expected = literal_order(legs_)
        if expected is None:
            with pytest.raises(ValueError, match="wait for each other"):
                order_legs(legs_)
        else:
            assert order_legs(legs_) == expected
        assert group_migrations(moves, needs, ALL_GAIN) == literal_groups(moves, needs)
        choices = list(break_cycles(moves, needs))
        literal = list(literal_choices(moves, needs))
        fewest = len(literal[0]) if literal else 0
        assert [c for c in choices if len(c) == fewest] == [c for c in literal if len(c) == fewest]
        assert set(choices) <= set(literal)
