"""A move must pay for itself: by what it gains, for as long as that is expected to last."""

from collections import Counter

import attrs
import pytest

from kubedsm.model.model import Share, Tier
from kubedsm.objective.lasting import ASSUMED
from kubedsm.objective.objective import NANO, Objective, QosTarget, count_target_pods
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from support import drawing, suggest_instances
from support.literal_moves import LiteralMoves
from support.literal_rules import reasons
from support.placement_instances import node, resources
from support.suggest_instances import crowded_case, drawn_case, running


def with_new_pods(case):
    """Let the pods in the cloud be new: pending, and not yet started; return the case and uids."""
    shot = case.snapshot
    new = {
        uid
        for uid, name in shot.placed.items()
        if shot.nodes[name].tier is Tier.CLOUD and shot.pods[uid].ready
    }
    left = shot.without(new)
    pods = {
        uid: attrs.evolve(shot.pods[uid], node_name=None, phase="Pending", ready=False)
        for uid in new
    }
    left = attrs.evolve(left, pods={**left.pods, **pods}, counted=None)
    return attrs.evolve(case, instance=attrs.evolve(case.instance, snapshot=left)), new


ONE = resources(1)


def nodes(*cores):
    edges = [node(f"e{n}", Tier.EDGE, cpu, 64) for n, cpu in enumerate(cores)]
    return [*edges, node("cloud", Tier.CLOUD, 64, 64)]


def pods(service, edge=0, cloud=0, on="e0", **more):
    places = [on] * edge + ["cloud"] * cloud
    return [running(f"{service}-{n}", service, ONE, at, **more) for n, at in enumerate(places)]


def suggested(nodes, pods, price, lasting=None, qos_targets=None, **more):
    limits, lasting = SuggestLimits(price=price, **more), lasting or {}
    return suggest_instances.suggested(
        nodes,
        pods,
        qos_targets,
        limits,
        objective=Objective(),
        lasting=lambda w: lasting.get(w.name, ASSUMED),
    )


def told(found):
    return {(move.pod.workload.name, move.target) for move in found.moves}


def why(found):
    return {left.pod.workload.name: left.reason for left in found.rejected}


def test_a_move_into_free_room_pays_as_soon_as_it_lasts_longer_than_its_price():
    alone = pods("a", cloud=1)
    assert told(suggested(nodes(1), alone, 20, {"a": 21.0})) == {("a", "e0")}
    found = suggested(nodes(1), alone, 20, {"a": 12.0})
    assert not found.moves
    assert why(found) == {
        "a": "migrating it gains 12.0 pod-seconds, no more than its price of 20.0"
    }
    assert found.may_pay_later


@pytest.mark.parametrize("targets", [0.0, 1.0])
def test_room_for_a_pod_that_waits_is_made_at_any_price(targets):
    tight = [node("e0", Tier.EDGE, 2, 64), node("cloud", Tier.CLOUD, 1, 64)]
    waiting = running("a-1", "a", resources(2), None)
    held = [*pods("b", 1), attrs.evolve(waiting, phase="Pending", ready=False)]
    kept = {"a": QosTarget(qos=targets), "b": QosTarget(qos=0.0, weight=0.5)}
    found = suggested(tight, held, 1e4, {"a": 1.0}, kept)
    assert told(found) == {("b", "cloud")}
    assert [awaited.pod.name for awaited in found.awaited] == ["a-1"]


def test_nothing_is_moved_for_a_surplus_beyond_the_promise():
    half = {"a": QosTarget(qos=0.5)}
    found = suggested(nodes(8), pods("a", 2, 2), 20, qos_targets=half)
    assert not found.moves
    assert why(found) == {"a": "its workload meets its QoS target"}
    assert not found.may_pay_later
    assert told(suggested(nodes(8), pods("a", 1, 3), 20, qos_targets=half)) == {("a", "e0")}
    assert len(suggested(nodes(8), pods("a", 2, 2), 0, qos_targets=half).moves) == 2


def test_the_papers_form_asks_for_no_price():
    limits = SuggestLimits(price=1e5)
    found = suggest_instances.suggested(
        nodes(1), pods("a", cloud=1), limits=limits, algorithm="paper"
    )
    assert len(found.moves) == 1


def drawn_lasting(seed):
    return lambda workload: float(5 + (7 * seed + 11 * sum(map(ord, workload.name))) % 90)


def literal_worth(case, lasting, new=()):
    """Word for word: points as pods of the average workload, for as long as they last."""
    shot, objective = case.snapshot, case.objective
    shares = shot.census.shares
    stranded = Counter(
        pod.workload
        for pod in shot.schedulable(() if new else shot.pods.values())
        if all(reasons(pod.pod_class, node, shot.free[node.name]) for node in shot.nodes.values())
    )
    even = attrs.evolve(objective, gamma=0.0)
    targets = {w: count_target_pods(case.qos_targets(w).qos, s.total) for w, s in shares.items()}

    def score(by, workload, edge):
        qos_target = case.qos_targets(workload)
        return by.worth_of(Share(edge, shares[workload].total), qos_target)

    points = sum(score(even, w, targets[w]) - score(even, w, 0) for w in shares)
    a_point = sum(targets.values()) * NANO / points if points else 0.0

    def worth(after):
        total = 0
        for workload, share in shares.items():
            edge = after[workload].edge
            most = max(share.edge + stranded[workload], targets[workload], share.edge)
            gained = score(objective, workload, min(edge, most))
            gained -= score(objective, workload, share.edge)
            total += round(gained * a_point * lasting(workload))
        return total

    return worth


@pytest.mark.parametrize(
    ("draw", "seeds", "newly"),
    [
        (drawn_case, range(5000, 5160), False),
        (crowded_case, range(5000, 5080), False),
        (drawn_case, range(5200, 5300), True),
        (crowded_case, range(5200, 5260), True),
    ],
)
def test_the_net_worth_is_the_greatest_of_all_choices_of_moves(draw, seeds, newly):
    seen = Counter()
    for seed in drawing.drawn(seeds):
        drawn, new = with_new_pods(draw(seed)) if newly else (draw(seed), ())
        price = (2.0, 10.0, 30.0)[seed % 3]
        case = attrs.evolve(drawn, limits=attrs.evolve(drawn.limits, price=price))
        lasting = drawn_lasting(seed)
        worth = literal_worth(case, lasting, new)
        best = LiteralMoves(case, worth=worth, new=new).best()
        found = suggest(
            case.snapshot, case.qos_targets, case.objective, case.limits, lasting=lasting, new=new
        )
        number = len(found.legs) + len(found.awaited)
        given = len(found.awaited) * (1 + (0 if new else case.limits.max_moves))
        net = worth(found.after.shares) - round(price * NANO) * (number - given)
        if best[0][0] < 10**4:
            assert not found.moves, seed
            continue
        seen["new"] += bool(new and found.moves and found.awaited)
        seen["proven"] += found.proven
        if found.proven:
            assert ((net,), -number, 0, -found.after.fragmentation) == best, seed
        else:
            assert net <= best[0][0], seed
        seen["moved"] += bool(found.moves)
        seen["several"] += len(found.moves) > 1
    assert seen["moved"] >= 3, seen
    assert seen["proven"] >= 0.9 * seen["moved"], seen
    assert seen["several"] or newly, seen
    assert bool(seen["new"]) == newly, seen
