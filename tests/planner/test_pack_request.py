"""Which pods may be moved, for what in words, and what is done of a packing that is found."""

from types import SimpleNamespace

import attrs
import pytest

from kubedsm.config.settings import Configuration, load
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Share, Tier, Uid, Workload
from kubedsm.model.sites import Away
from kubedsm.objective.lasting import Quiet, QuietPeriods
from kubedsm.objective.objective import QosTarget
from kubedsm.optimizer.moving.suggestion import Cause, ClusterScore, Move, MoveKind, Suggestion
from kubedsm.planner.rebalancing_requests import NO_ROOM, NONE_PROVEN, PackRequest, SuggestRequest
from kubedsm.planner.requests import PlanningContext
from kubedsm.planner.what_if import describe_purpose
from support.answering_cluster import POD
from support.fixed_clock import FixedClock
from support.placement_instances import node, pod, resources, snapshot
from support.pods import made_pod
from support.suggest_instances import running

CONFIGURATION = Configuration()


def known_to_planner(followed=(), policy=None, configuration=CONFIGURATION, **more):
    made = policy or configuration.policy
    more = {"mirror": ClusterMirror(), "clock": FixedClock(), **more}
    return PlanningContext(
        followed=followed, configuration=lambda: configuration, policy=lambda: made, **more
    )


@attrs.frozen
class Hasty:
    """Policy without migrations, for want of time or not."""

    out_of_time: bool

    def place(self, *_):
        raise NotImplementedError

    def suggest(self, *_):
        nothing = ClusterScore(0, {}, 0)
        return Suggestion(nothing, nothing, out_of_time=self.out_of_time)


@pytest.mark.parametrize("out_of_time", [True, False])
def test_a_suggestion_that_ran_out_of_time_is_made_again_soon(out_of_time):
    question = SuggestRequest(frozenset(), frozenset(), Quiet(0.0, {}, None), 1.0)
    assert question.solve(known_to_planner(policy=Hasty(out_of_time))).rests == out_of_time


@pytest.mark.parametrize(
    ("moving", "resting", "followed", "cause"),
    [
        ((), (), (), None),
        ((POD.workload,), (), (), Cause.WORKLOAD_MOVING),
        ((), (), (POD.uid,), Cause.WORKLOAD_MOVING),
        ((), (POD.workload,), (), Cause.WORKLOAD_RESTING),
    ],
)
def test_what_is_moving_or_rests_is_left_alone(moving, resting, followed, cause):
    quiet = Quiet(0.0, {}, None)
    question = SuggestRequest(frozenset(moving), frozenset(resting), quiet, 1.0)
    known = known_to_planner(followed)
    assert question._temporary_reason(POD, known) == (None if cause is None else cause.of())


A, B = (Workload("default", "Deployment", name) for name in "ab")
SHARES = {A: Share(3, 4), B: Share(2, 3)}


def qos_targets(workload):
    return QosTarget(qos={A: 1.0, B: 0.5}[workload])


def move(service, kind, **changes):
    pod = made_pod(f"{service}-1", namespace="default", workload=service)
    return Move(pod, "n1", "n2", kind, **changes)


def why(of, *beside):
    return describe_purpose(of, [of, *beside], SHARES, qos_targets)


UP_A, UP_B = move("a", MoveKind.CLOUD_TO_EDGE), move("b", MoveKind.CLOUD_TO_EDGE)
DOWN_B = move("b", MoveKind.EDGE_TO_CLOUD)
INSIDE = move("b", MoveKind.EDGE_TO_EDGE)
CASES = {
    "to the edge": (why(UP_A), "1 of 4 pods missing at the edge"),
    "beyond its target": (why(UP_B), "the edge has free capacity for more than its QoS target"),
    "to the cloud for one that goes to the edge": (
        why(DOWN_B, UP_A),
        "to free edge capacity for a, 1 of 4 pods missing at the edge",
    ),
    "to the cloud for several": (why(DOWN_B, UP_A, UP_B), "to free edge capacity for a and b"),
    "beside another group": (
        why(DOWN_B, attrs.evolve(UP_A, group=1)),
        "QoS score +0.000 per migration",
    ),
    "inside the edge": (why(INSIDE), "to join fragments of free edge capacity"),
    "spread": (why(attrs.evolve(INSIDE, rebalances=True)), "to spread default/b over nodes"),
}


@pytest.mark.parametrize(("said", "expected"), CASES.values(), ids=CASES)
def test_why_it_is_made(said, expected):
    assert said == expected


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
    mirror, configuration = SimpleNamespace(snapshot=lambda: seen), load(settings, "test")
    known = known_to_planner(configuration=configuration, mirror=mirror, interrupted=interrupted)
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
