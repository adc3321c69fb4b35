"""Decisions have a deadline; what was found by then is taken, and no pod is forgotten."""

import random

import attrs
import pytest

from kubedsm.bench.literal.rules import literal_rule
from kubedsm.core.goals.objective import Objective, Promise
from kubedsm.core.packing.problem import NO_RANK
from kubedsm.core.placing.open_nodes import OpenNodes
from kubedsm.core.placing.preemption import PreemptionSearch
from kubedsm.core.placing.settling import Settling
from kubedsm.core.policies.kubedsm import KubeDSM
from kubedsm.core.policies.registry import KUBEDSM, POLICIES
from kubedsm.core.rules.feasibility import Feasibility
from kubedsm.core.world.deadline import Deadline
from kubedsm.core.world.model import NodeName, Tier
from support.placement_instances import node, resources, snapshot
from support.placement_instances import pod as plain
from support.rule_instances import HOST, app, cluster, drawn_batch, evenly, near, pod, zoned
from support.suggest_instances import drawn_case

POLICY = KubeDSM(lambda _: Promise(), Objective())
NO_TIME = Deadline(lambda: 1.0)
NO_TIME_AT_ALL = Deadline(lambda: 2.0)
ZONED = [
    *(zoned(f"e{n}", "xyz"[n], cpu=40, memory=64) for n in range(3)),
    *(zoned(f"c{n}", "uv"[n], tier=Tier.CLOUD, cpu=200, memory=800) for n in range(2)),
]


class Looks:
    """A deadline that passes after so many looks at it, and how many there were."""

    def __init__(self, most=10**9):
        self.number = 0
        self._most = most

    @property
    def deadline(self):
        return Deadline(self._spent)

    def _spent(self):
        self.number += 1
        return float(self.number > self._most)


def overlapping(number):
    """Pods that look at the next ones of other kinds, all round."""
    return [
        pod(
            f"p{n}",
            {"app": f"a{n}"},
            requests=resources(0.1, 0.1),
            spread=(evenly(app(*(f"a{(n + k) % number}" for k in range(8)))),),
        )
        for n in range(number)
    ]


def joined(shot, bindings):
    free = dict(shot.free)
    for binding in bindings:
        free[binding.node] -= binding.pod.requests
    nodes = {binding.pod.uid: binding.node for binding in bindings}
    return attrs.evolve(shot, placed={**shot.placed, **nodes}, free=free)


def allowed(shot, bindings, binding):
    there = joined(shot, bindings)
    return literal_rule(there, binding.pod, shot.nodes[binding.node]) is None


def in_turn(shot, bindings):
    """Whether each was allowed beside those before it."""
    return all(allowed(shot, bindings[:n], binding) for n, binding in enumerate(bindings))


def uids(bindings):
    return {binding.pod.uid for binding in bindings}


@pytest.mark.parametrize("number", [64, 256])
def test_pods_that_look_at_each_other_are_decided_on_in_few_looks(number):
    pods, looks = overlapping(number), Looks()
    shot = cluster(ZONED, pods)
    decision = POLICY.decide(shot, pods, looks.deadline)
    assert len(decision.bindings) >= 0.85 * number
    assert looks.number <= number**2
    for at in range(0, len(decision.bindings), 8):
        assert allowed(shot, decision.bindings[:at], decision.bindings[at])
    assert all(refused.keys() == shot.nodes.keys() for refused in decision.unplaced.values())


def test_without_time_all_that_fits_in_turn_is_placed():
    pods = overlapping(64)
    shot = cluster(ZONED, pods)
    decision = POLICY.decide(shot, pods, NO_TIME)
    assert not decision.proven
    assert not decision.late
    assert len(decision.bindings) >= 0.9 * len(pods)
    assert in_turn(shot, decision.bindings)
    assert all(refused.keys() == shot.nodes.keys() for refused in decision.unplaced.values())


def test_odd_pods_of_a_namespace_do_not_hold_up_the_others():
    odd = [attrs.evolve(p, created=-1.0) for p in overlapping(64)]
    others = [pod(f"q{n}", namespace=f"other-{n % 2}") for n in range(10)]
    shot = cluster(ZONED, [*odd, *others])
    decision = POLICY.decide(shot, [*odd, *others], NO_TIME)
    assert {other.uid for other in others} <= uids(decision.bindings)
    decision = POLICY.decide(shot, [*odd, *others], NO_TIME_AT_ALL)
    assert sorted(b.pod.namespace for b in decision.bindings) == ["other-0", "other-1", "shop"]
    assert {p.uid for p in decision.late} | uids(decision.bindings) == shot.pods.keys()


def test_what_time_is_left_is_shared_between_namespaces():
    pods = [attrs.evolve(p, created=float(n)) for n, p in enumerate(overlapping(32))]
    pods += [pod(f"q{n}", {"app": "a0"}, namespace="other") for n in range(32)]
    pods = [attrs.evolve(p, created=p.created + 99 * (p.namespace == "other")) for p in pods]
    shot = cluster(ZONED, pods)
    shared = 0
    for most in range(0, 160, 10):
        looks = iter(range(10**9))
        deadline = Deadline(lambda looks=looks, most=most: 1.0 + (next(looks) > most))
        late = [p.namespace for p in POLICY.decide(shot, pods, deadline).late]
        assert abs(late.count("shop") - late.count("other")) <= 1
        shared += 4 < len(late) < len(pods) - 4
    assert shared


@pytest.mark.parametrize("name", sorted(POLICIES.keys() - {KUBEDSM}))
def test_policies_that_place_one_pod_at_a_time_stop_when_time_is_up(name):
    pods = [pod(f"p{n}") for n in range(4)]
    policy = POLICIES[name](lambda _: Promise(), Objective())
    decision = policy.place(cluster(ZONED, pods), pods, random.Random(0), NO_TIME)
    assert [b.pod.name for b in decision.bindings] == ["p0"]
    assert [p.name for p in decision.late] == ["p1", "p2", "p3"]


def test_a_plain_batch_is_placed_on_the_edge_without_time_too():
    nodes = [node("e1", Tier.EDGE), node("c", Tier.CLOUD, 64, 64)]
    pods = [plain(f"a-{n}", "a", resources(1, 1)) for n in range(6)]
    decision = POLICY.decide(snapshot(nodes, pods), pods, NO_TIME)
    assert sorted(b.node for b in decision.bindings) == ["c"] * 2 + ["e1"] * 4
    assert not decision.proven


def test_whenever_the_deadline_passes_a_batch_keeps_the_rules_as_it_comes():
    cut_short = 0
    for seed in range(75):
        shot, waiting = drawn_batch(seed)
        looks = Looks()
        whole = POLICY.decide(shot, waiting, looks.deadline)
        for most in range(0, looks.number, max(1, looks.number // 8)):
            decision = POLICY.decide(shot, waiting, Looks(most).deadline)
            assert in_turn(shot, decision.bindings), (seed, most)
            assert not decision.proven or decision.bindings == whole.bindings
            assert not decision.late
            everybody = uids(decision.bindings) | decision.unplaced.keys()
            assert everybody == {p.uid for p in waiting}
            cut_short += decision.bindings != whole.bindings
    assert cut_short > 20


def test_who_came_only_beside_one_that_had_to_go_is_not_left_there():
    friend = pod("friend", {"app": "f"})
    follower = pod("follower", {"app": "g"}, affinity=(near(app("f")),))
    shot = cluster([zoned("e1", "x")], [friend, follower])
    feasibility = Feasibility.of(shot)
    both = [friend, follower]
    batch = Settling(
        feasibility.index,
        feasibility.room,
        OpenNodes(feasibility, shot.surroundings, both),
        feasibility.skews(both),
        shot.surroundings,
        lambda *_: True,
        lambda _: NO_RANK.turn,
        Deadline(),
    )
    batch.settle([(friend, NodeName("e1")), (follower, NodeName("e1"))])
    batch._take(friend)
    batch.avoided[friend.uid] = [feasibility.index.every()]
    batch.deadline = NO_TIME
    assert not batch.place_in_turn(both, {})
    assert not batch.placed


@pytest.mark.parametrize("algorithm", ["exact", "paper"])
def test_whenever_the_deadline_passes_a_suggestion_loses_nothing(algorithm):
    fewer = 0
    for seed in range(60):
        case = drawn_case(seed)
        policy = KubeDSM(case.promises, case.objective, case.limits, algorithm)
        looks = Looks()
        whole = policy.suggest(case.snapshot, lambda _: "", looks.deadline)
        for most in range(0, looks.number, max(1, looks.number // 5)):
            found = policy.suggest(case.snapshot, lambda _: "", Looks(most).deadline)
            assert not found.proven
            assert found.after.qos >= found.before.qos
            fewer += len(found.moves) < len(whole.moves)
        assert looks.number < 500
    assert fewer > 20


def test_a_search_for_victims_ends_with_the_node_it_is_at():
    nodes = [node(f"e{n}", Tier.EDGE, 1) for n in range(3)]
    nodes[0] = attrs.evolve(nodes[0], unschedulable=True)
    there = [plain(f"low-{n}", "low", resources(1, 1), on=f"e{n}") for n in range(3)]
    high = plain("high", "high", resources(1, 1), priority=1)
    shot = snapshot(nodes, [*there, high])

    def search(deadline):
        return PreemptionSearch(
            shot, high, lambda _: Promise(), Objective(), deadline=deadline
        ).best()

    assert search(Deadline()).node == NodeName("e1")
    assert search(NO_TIME) is None


def test_pods_that_keep_apart_are_decided_on_in_few_looks():
    apart = [near(app("a"), key=HOST), near(app("b"), key=HOST)]
    pods = [
        pod(f"p{n}", {"app": "ab"[n % 2]}, anti_affinity=(apart[(n + 1) % 2],)) for n in range(128)
    ]
    looks = Looks()
    decision = POLICY.decide(cluster(ZONED, pods), pods, looks.deadline)
    assert len(decision.bindings) == 128
    assert looks.number <= 8 * 128
