"""The measures, on timelines made by hand, and what a recorder makes of what it is told."""

import itertools
import random

import attrs
import pytest

from kubedsm.kube.wire.decoding import Identity
from kubedsm.model.model import Resources, Share, Tier, Tiers
from kubedsm.optimizer.matching.match import Bounds
from kubedsm_lab.replay.measures import (
    NodeRisk,
    list_counted_levels,
    lost_pod_seconds,
    measure,
    pending_seconds,
)
from kubedsm_lab.replay.optimum import Optimum
from kubedsm_lab.replay.recording import Record, TimelineRecorder
from kubedsm_lab.replay.sightings import DeploymentSeen, Gone, NodeSeen, PodSeen
from kubedsm_lab.replay.timeline import Life, MoveRecord, Timeline
from kubedsm_lab.replay.world import Run, Setup
from loadgen.scenario import Api, Interval, Scenario
from support.drawing import drawn_cases
from support.policy_clusters import MI, node, pod

#: has room for a single pod
ONE_POD = node("e1", Tier.EDGE, 1, 1000 * MI)
SCENARIO = Scenario((Api("a", "/", (Interval(200, 10_000),)),))


def life(service, tier, *served, created=0.0, bound=0.0, gone=None):
    return Life(service, created, bound, tier, tuple(served), gone)


def timeline(*lives, end=10.0, moves=(), **replicas):
    steps = {name: tuple(given) for name, given in replicas.items()}
    for one in lives:
        steps.setdefault(one.service, ((0.0, 1),))
    return Timeline(end, tuple(lives), steps, tuple(moves))


def measured(found):
    run = Run("by-hand", SCENARIO, "kubedsm", 1, Setup())
    samples = {name: pod(name, service=name) for name in found.services}
    return measure(run, Record(found, (ONE_POD,), samples))


def test_levels_have_no_gaps_and_begin_when_they_are_to():
    on_cloud = life("a", Tier.CLOUD, (2.0, 5.0), (6.0, 7.0), (8.0, 8.0))
    found = timeline(life("a", Tier.EDGE, (0.0, 10.0)), on_cloud)
    alone, both = Share(1, 1), Share(1, 2)
    whole = [
        (0.0, 2.0, alone), (2.0, 5.0, both), (5.0, 6.0, alone), (6.0, 7.0, both), (7.0, 10.0, alone)
    ]  # fmt: skip
    for since, expected in ((0.0, whole), (3.0, [(3.0, 5.0, both), *whole[2:]])):
        levels = [(level.since, level.until, level.shares["a"]) for level in found.levels(since)]
        assert levels == expected


def test_edge_ratio_is_the_time_mean_of_the_mean_over_services():
    """a: 1 for 10 s. b: 1/2 for 4 s, then 0. Mean (.75 * 4 + .5 * 6) / 10."""
    found = timeline(
        life("a", Tier.EDGE, (0.0, 10.0)),
        life("b", Tier.EDGE, (0.0, 4.0)),
        life("b", Tier.CLOUD, (0.0, 10.0)),
    )
    result = measured(found)
    assert result.edge_ratio == pytest.approx(0.6)
    assert result.shares == {"a": 1.0, "b": pytest.approx(0.2)}
    assert result.std == pytest.approx(0.4)


def test_optimum_share_is_integral_over_integral():
    """The edge takes one pod: for 4 s a's only one or one of b's two, then either's only one."""
    found = timeline(
        life("a", Tier.CLOUD, (0.0, 10.0)),
        life("b", Tier.EDGE, (0.0, 4.0)),
        life("b", Tier.CLOUD, (0.0, 10.0)),
    )
    assert measured(found).optimum_share == pytest.approx((0.25 * 4 + 0 * 6) / (0.5 * 10))


def test_time_begins_when_every_service_has_had_a_ready_pod():
    found = timeline(life("a", Tier.CLOUD, (1.0, 10.0)), life("b", Tier.EDGE, (4.0, 10.0)))
    assert [level.since for level in list_counted_levels(found)] == [4.0]
    assert measured(found).edge_ratio == pytest.approx(0.5)


def test_pods_that_were_ready_before_the_scenario_began_are_counted_from_its_beginning():
    found = timeline(
        life("a", Tier.EDGE, (-5.0, 10.0), created=-6.0),
        life("b", Tier.CLOUD, (-5.0, -1.0), created=-6.0),
    )
    assert [(level.since, level.until) for level in list_counted_levels(found)] == [(0.0, 10.0)]
    assert measured(found).edge_ratio == 1.0


def test_pending_time_ends_with_the_binding_the_pod_or_the_run():
    found = timeline(
        life("a", Tier.EDGE, created=1.0, bound=1.5),
        life("a", None, created=2.0, bound=None, gone=5.0),
        life("a", None, created=4.0, bound=None),
    )
    assert pending_seconds(found) == [0.5, 3.0, 6.0]


def moved(*, began=2.0, ended=8.0, ready_before=2, service="a"):
    return MoveRecord(service, began, ended, ready_before)


def test_recreate_loses_the_pod_until_its_successor_is_ready():
    found = timeline(
        life("a", Tier.EDGE, (0.0, 10.0)),
        life("a", Tier.CLOUD, (0.0, 2.0)),
        life("a", Tier.EDGE, (6.5, 10.0)),
        moves=[moved()],
        a=[(0.0, 2)],
    )
    assert lost_pod_seconds(found) == pytest.approx(4.5)


def test_what_is_not_wanted_any_more_is_not_lost():
    """Scaled down to one at 4 s, while the pod is missing."""
    found = timeline(
        life("a", Tier.EDGE, (0.0, 10.0)),
        life("a", Tier.CLOUD, (0.0, 2.0)),
        moves=[moved()],
        a=[(0.0, 2), (4.0, 1)],
    )
    assert lost_pod_seconds(found) == pytest.approx(2.0)


def test_pods_missing_outside_of_moves_are_not_their_fault():
    found = timeline(
        life("a", Tier.EDGE, (0.0, 1.0)), life("a", Tier.EDGE, (9.0, 10.0)),
        moves=[moved(ready_before=0)], a=[(0.0, 1)],
    )  # fmt: skip
    assert lost_pod_seconds(found) == 0


def test_one_missing_pod_is_lost_once_however_many_moves_are_in_flight():
    found = timeline(
        life("a", Tier.EDGE, (0.0, 10.0)),
        life("a", Tier.CLOUD, (0.0, 2.0)),
        moves=[moved(), moved(began=3.0, ready_before=1)],
        a=[(0.0, 2)],
    )
    assert lost_pod_seconds(found) == pytest.approx(6.0)


def test_response_times_follow_the_tier_and_the_due_times():
    """50 requests, 5 a second, 100 ms each: no queue. 2 s at the edge alone, then nobody till 4."""
    found = measured(timeline(life("a", Tier.EDGE, (0.0, 2.0)), life("a", Tier.CLOUD, (4.0, 10.0))))
    times = found.latency_ms["a"]
    assert found.unanswered == 0
    assert times.p95 > 1000
    assert times.network == pytest.approx((9 * 20 + 41 * 80) / 50)
    assert found.overall_latency_ms == times


def recorder(*seen, services=("cart",)):
    made = TimelineRecorder(services, Tiers())
    for now, each in seen:
        made.take(each, now)
    return made


def there(name, *, on="e1", ready=True, evicted=False, **more):
    return PodSeen(pod(name, on=on, ready=ready, **more), evicted)


def edge(name):
    return NodeSeen(
        attrs.evolve(node(name, None, 4, 8000 * MI), labels={"nodetype": "edge"}), False
    )


def deployed(name, replicas, **labels):
    return DeploymentSeen("default", name, replicas, labels)


def gone_pod(pod):
    return Gone("Pod", Identity(pod.namespace, pod.name, pod.uid, ""))


def gone_deployment(namespace, name):
    return Gone("Deployment", Identity(namespace, name, "", ""))


@pytest.mark.parametrize(
    ("labels", "workload", "service"),
    [
        ({"app": "cart"}, "cart-v2", "cart"),
        ({"app": "web"}, "cart", "cart"),
        ({}, "cart", "cart"),
        ({"app": "web"}, "web", None),
    ],
)
def test_a_pod_is_its_service_s_by_its_label_or_else_by_its_workload(labels, workload, service):
    lives = recorder((0, there("p", labels=labels, service=workload))).timeline(0, 1).lives
    assert [life.service for life in lives] == [service] * (service is not None)


def test_what_other_pods_hold_is_no_room_for_the_services():
    other = there("db", service="db", cores=1.5, memory=500 * MI)
    finished = there("job", service="job", phase="Succeeded")
    gone = there("gone", service="db")
    known = recorder(
        (0, edge("e1")), (0, other), (0, finished), (0, gone), (1, gone_pod(gone.pod)),
        (1, there("c", service="cart")),
    )  # fmt: skip
    (left,) = known.record(0, 2).nodes
    assert left.tier is Tier.EDGE
    assert left.allocatable == Resources(2500, 7500 * MI, 109)


def test_replicas_of_a_service_are_those_of_all_its_deployments():
    known = recorder(
        (0, deployed("cart", 3)), (1, deployed("canary", 1, app="cart")), (2, deployed("cart", 3)),
        (3, deployed("cart", 2)), (4, gone_deployment("test", "cart")),
        (5, gone_deployment("default", "cart")), (6, gone_deployment("default", "other")),
    )  # fmt: skip
    assert known.timeline(0, 9).replicas == {"cart": ((0, 3), (1, 4), (3, 3), (5, 1))}


def test_an_eviction_without_a_deployment_ends_when_as_many_are_ready_as_before():
    """Of a StatefulSet, say: two Ready pods, one of which is away from 2 to 5."""
    known = recorder(
        (0, there("c-0", service="cart")), (0, there("c-1", service="cart")),
        (2, there("c-1", service="cart", terminating=True, evicted=True)),
        (3, gone_pod(pod("c-1"))),
        (5, there("c-2", service="cart")),
    )  # fmt: skip
    timeline = known.timeline(0, 9)
    assert [(move.began, move.ended, move.ready_before) for move in timeline.moves] == [(2, 5, 2)]
    assert lost_pod_seconds(timeline) == 3


@pytest.mark.parametrize(
    ("said", "tier"),
    [("c-0", Tier.EDGE), ("e1", Tier.EDGE), ("cloud", Tier.CLOUD), ("x", None), ("", None)],
)
def test_who_answers_is_in_the_tier_of_its_node(said, tier):
    known = recorder((0, edge("e1")), (0, there("c-0", service="cart")))
    assert known.tier_of(said) is tier


def test_a_pod_on_a_node_that_nobody_has_told_of_is_of_no_tier():
    record = recorder((0, there("c", service="cart", on="new"))).record(0, 2)
    assert [life.tier for life in record.timeline.lives] == [None]
    assert [(found.name, found.allocatable) for found in record.nodes] == [("new", Resources())]


E1, E2, C1 = (
    node(name, tier, 4, 8 * 10**9)
    for name, tier in (("e1", Tier.EDGE), ("e2", Tier.EDGE), ("c1", Tier.CLOUD))
)


def life_on(service, where, since=0.0, until=10.0, *, bound=None, gone=None):
    """Ready from one moment to the other, on its node from before until it is gone."""
    bound = since if bound is None else bound
    return Life(service, bound, bound, where.tier, ((since, until),), gone, where.name)


def at_risk(*lives, nodes=(E1, E2, C1)):
    samples = {name: pod(name, memory=MI, service=name) for name in "ab"}
    return NodeRisk.of(timeline(*lives, a=((0.0, 1),), b=((0.0, 1),)), nodes, samples)


def test_it_is_avoidable_where_another_node_of_the_tier_takes_one():
    two = [life_on("a", E1), life_on("a", E1)]
    assert at_risk(*two, nodes=(E1, C1)) == NodeRisk(1.0, 0.0)
    small = node("e2", Tier.EDGE, 0, 8 * 10**9)
    assert at_risk(*two, nodes=(E1, small, C1)) == NodeRisk(1.0, 0.0)
    cordoned = attrs.evolve(E2, unschedulable=True)
    assert at_risk(*two, nodes=(E1, cordoned, C1)) == NodeRisk(1.0, 0.0)
    assert at_risk(life_on("a", C1), life_on("a", C1)) == NodeRisk(1.0, 0.0)


def test_it_is_what_looking_at_each_second_comes_to():
    rng = random.Random(1)
    sizes = (("e1", Tier.EDGE, 2), ("e2", Tier.EDGE, 3), ("c1", Tier.CLOUD, 4))
    nodes = [node(*each, 8 * 10**9) for each in sizes]
    for _ in range(100):
        lives = []
        for _ in range(rng.randint(0, 8)):
            bound, since, until, gone = sorted(rng.choices(range(-3, 12), k=4))
            lives.append(
                life_on(rng.choice("ab"), rng.choice(nodes), since, until, bound=bound, gone=gone)
            )
        services = avoidable = 0
        for second in range(10):
            held = [one for one in lives if one.bound <= second < one.gone]
            for service in "ab":
                where = [
                    one.node
                    for one in lives
                    if one.service == service and one.served[0][0] <= second < one.served[0][1]
                ]
                if len(where) < 2 or len(set(where)) > 1:
                    continue
                services += 1
                avoidable += any(
                    other.tier is next(n.tier for n in nodes if n.name == where[0])
                    and other.name != where[0]
                    and sum(one.node == other.name for one in held) * 1000 + 1000
                    <= other.allocatable.cpu
                    for other in nodes
                )
        expected = NodeRisk(pytest.approx(services / 10), pytest.approx(avoidable / 10))
        assert at_risk(*lives, nodes=nodes) == expected


def enumerated(nodes, samples, counts):
    """Try every number of pods of each service on each node."""
    names = sorted(counts)

    def fits(load, room):
        used = Resources()
        for name, number in zip(names, load, strict=True):
            for _ in range(number):
                used += samples[name].requests
        return used.cpu <= room.cpu and used.memory <= room.memory

    reached = {(0,) * len(names)}
    limits = tuple(counts[name] for name in names)
    for one in nodes:
        loads = [
            load
            for load in itertools.product(*(range(limit + 1) for limit in limits))
            if fits(load, one.allocatable)
        ]
        sums = {
            tuple(map(sum, zip(before, load, strict=True))) for before in reached for load in loads
        }
        reached = {s for s in sums if all(n <= most for n, most in zip(s, limits, strict=True))}
    return max(
        sum(number / counts[name] for name, number in zip(names, vector, strict=True)) / len(names)
        for vector in reached
    )


def test_without_an_edge_there_is_nothing_to_reach():
    assert Optimum.of([], {"a": pod("a")}, {"a": 3}).share({"a": 3}) == 0.0


def test_beyond_the_bounds_there_is_no_answer():
    nodes = [node("e1", Tier.EDGE, 3, 8000 * MI)]
    assert Optimum.of(nodes, {"a": pod("a")}, {"a": 3}, Bounds(states=2)) is None


@pytest.mark.parametrize("seed", drawn_cases(range(40)))
def test_random_instances(seed):
    rng = random.Random(seed)
    nodes = [
        node(f"e{n}", Tier.EDGE, rng.randint(1, 4), rng.randint(500, 4000) * MI)
        for n in range(rng.randint(1, 3))
    ]
    kinds = [(rng.choice((1, 2)), rng.choice((500, 1000, 1500)) * MI) for _ in range(2)]
    samples = {
        name: pod(name, cores=cores, memory=memory, service=name)
        for name in "abc"[: rng.randint(1, 3)]
        for cores, memory in [rng.choice(kinds)]
    }
    most = {name: rng.randint(1, 4) for name in samples}
    optimum = Optimum.of(nodes, samples, most)
    for _ in range(3):
        counts = {name: rng.randint(1, limit) for name, limit in most.items()}
        assert optimum.share(counts) == pytest.approx(enumerated(nodes, samples, counts))
