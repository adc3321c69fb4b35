"""Suggestions that take stopovers can be carried out, and suggesting comes to an end."""

import os
import random
from collections import Counter

import attrs
import pytest

from kubedsm.model.model import SchedulingRules, Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.moving.migration_graph import Order
from kubedsm.optimizer.moving.move_order import Impasse, order_migrations
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import Move, MoveKind, SuggestLimits
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.fit import shortages
from support import drawing
from support.literal_moves import carried_out
from support.placement_instances import node, resources, snapshot
from support.ruled_instances import apart
from support.suggest_instances import running

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
