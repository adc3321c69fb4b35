"""What is placed at once, without the pods that come later, takes nothing from them."""

import itertools
import random
from collections import Counter

import attrs
import pytest

from kubedsm.model.model import SchedulingRules, Tier
from kubedsm.objective.fragmentation import Measure
from kubedsm.objective.objective import Objective, QosTarget, quality
from kubedsm.optimizer.placing.immediate import immediate_schedule, is_uncontended
from support import drawing
from support.literal_rules import rejection
from support.placement_instances import drawn, node, pod, resources, snapshot
from support.placement_literal import homes_of
from support.rule_instances import app, near
from support.site_instances import LABELS, plain_target, site_node

EDGE, CLOUD = node("e", Tier.EDGE, cpu=8), node("c", Tier.CLOUD, cpu=64, memory=256)
SMALL, LARGE = resources(1, 0.1), resources(4, 0.1)
WEB, API = pod("web", "web", SMALL), pod("api", "api", SMALL)
BIG = pod("big", "big", LARGE)
ABSURD = pod("absurd", "absurd", resources(2**60, 0.1))
HUGE, GIANT = (pod(name, name, resources(9, 0.1)) for name in ("huge", "giant"))
FRIEND = pod("friend", "web", SMALL, rules=SchedulingRules(affinity=(near(app("api")),)))
API_RUNS, LARGE_RUNS = pod("api-0", "api", SMALL, on="c"), pod("web-0", "web", LARGE, on="c")


def replicas(count):
    return [attrs.evolve(WEB, uid=f"web-{n}", name=f"web-{n}") for n in range(count)]


@pytest.mark.parametrize(
    ("nodes", "pods", "batch", "at_once"),
    [
        pytest.param([EDGE, CLOUD], [WEB, API], 8, True, id="a full batch fits the edge"),
        pytest.param([EDGE, CLOUD], [WEB, API], 9, False, id="one more would not"),
        pytest.param([EDGE, CLOUD], [WEB, BIG], 2, True, id="wherever the large ones go"),
        pytest.param([EDGE, CLOUD], [WEB, BIG], 3, False, id="or not"),
        pytest.param([EDGE, CLOUD], [HUGE, GIANT], 7, True, id="no room but in the cloud"),
        pytest.param([EDGE, CLOUD], [HUGE, GIANT], 8, False, id="nor there for all"),
        pytest.param([EDGE, CLOUD], [WEB, HUGE], 7, False, id="the small take their room"),
        pytest.param([EDGE, CLOUD], [WEB], 99, True, id="the only workload there is"),
        pytest.param([EDGE, CLOUD], replicas(20), 99, True, id="more of it than fit"),
        pytest.param([], [WEB, API], 1, False, id="no node at all"),
        pytest.param([EDGE, CLOUD], [WEB, API, ABSURD], 8, True, id="one that fits nowhere"),
        pytest.param([EDGE, CLOUD], [ABSURD], 8, True, id="no other"),
        pytest.param([EDGE, CLOUD], [WEB, API_RUNS], 99, False, id="another workload is there"),
        pytest.param([EDGE, CLOUD], [WEB, LARGE_RUNS], 99, False, id="rollout of other requests"),
        pytest.param([EDGE, CLOUD], [FRIEND], 99, False, id="rules about other pods"),
    ],
)
def test_what_may_be_decided_at_once(nodes, pods, batch, at_once):
    waiting = [p for p in pods if p.node_name is None]
    assert is_uncontended(snapshot(nodes, pods), waiting, batch) is at_once


def test_so_many_classes_are_not_looked_into():
    pods = [pod(f"p{n}", f"s{n}", resources(0.1 + n / 1000, 0.1)) for n in range(9)]
    assert is_uncontended(snapshot([EDGE, CLOUD], pods[:8]), pods[:8], 8)
    assert not is_uncontended(snapshot([EDGE, CLOUD], pods), pods, 9)


def arrivals(rng, batch):
    """The batch in one of its orders, in pieces."""
    order = list(batch)
    rng.shuffle(order)
    while order:
        count = rng.randint(1, len(order))
        yield order[:count]
        order = order[count:]


def placed_in(case, pieces, objective):
    """The cluster after these were decided on, piece by piece as they came."""
    shot = case.snapshot
    pods, late = dict(shot.pods), {pod.uid for pod in case.batch}
    shot = attrs.evolve(shot, pods={uid: p for uid, p in pods.items() if uid not in late})
    for piece in pieces:
        shot = attrs.evolve(shot, pods={**shot.pods, **{pod.uid: pod for pod in piece}})
        decision = immediate_schedule(shot, piece, case.qos_targets, objective, Measure.UNUSABLE)
        shot = shot.with_placed(homes_of(decision))
    return shot


OBJECTIVES = Objective(), Objective("ecmus"), Objective(gamma=10.0)


def test_at_once_comes_to_the_same_qos_and_places_as_together():
    rng = random.Random(0)
    seen = Counter()
    for seed in drawing.drawn(range(2000), one_in=9):
        case, objective = drawn(seed, most=4), OBJECTIVES[seed % 3]
        if not case.batch or not is_uncontended(case.snapshot, case.batch, len(case.batch)):
            continue
        together = placed_in(case, [case.batch], objective)
        for _ in range(3):
            pieces = list(arrivals(rng, case.batch))
            one_by_one = placed_in(case, pieces, objective)
            seen[len(pieces)] += 1
            assert len(one_by_one.placed) == len(together.placed), seed
            worth = [
                quality(s.census.shares, case.qos_targets, objective)
                for s in (one_by_one, together)
            ]
            assert worth[0] == worth[1], seed
    assert min(seen[pieces] for pieces in (1, 2, 3)) >= 3, seen


def edge_or_stuck(shot, pods):
    """All ways of putting these on the edge, one after the other: a pod that finds no room."""
    if not pods:
        return None
    fitting = [
        n.name
        for n in shot.of_tier(Tier.EDGE)
        if rejection(pods[0].pod_class, n, shot.free[n.name]) is None
    ]
    if not fitting:
        return pods[0]
    stuck = (edge_or_stuck(shot.with_placed({pods[0].uid: n}), pods[1:]) for n in fitting)
    return next((pod for pod in stuck if pod is not None), None)


def test_where_there_is_room_for_a_batch_no_placement_keeps_any_of_it_out():
    tried = 0
    for seed in drawing.drawn(range(600)):
        case = drawn(seed, most=3)
        shot, batch = case.snapshot, case.batch
        several = len({pod.pod_class for pod in batch}) > 1
        if not several or not is_uncontended(shot, batch, len(batch)):
            continue
        edge = [p for p in batch if edge_or_stuck(shot, [p]) is None]
        for order in itertools.permutations(edge):
            tried += 1
            assert edge_or_stuck(shot, list(order)) is None, seed
    assert tried >= 12


@pytest.mark.parametrize(("cpu", "at_once"), [(4, True), (2, False)])
def test_users_of_a_site_need_capacity_there(cpu, at_once):
    nodes = [site_node("e1", "a", cpu), site_node("e2", "b", 16), CLOUD]
    cluster = snapshot(nodes, [WEB, API])
    near = {"web": plain_target(a=1)}
    asked = cluster, [WEB, API], 4
    assert is_uncontended(*asked)
    targets = lambda w: near.get(w.name, QosTarget())  # noqa: E731
    assert is_uncontended(*asked, targets, LABELS) is at_once
