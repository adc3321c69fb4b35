"""Suggestions of migrations, on named clusters."""

from collections import Counter
from itertools import pairwise, product

import attrs
import pytest

from kubedsm.model.model import SchedulingRules, Share, Taint, Tier, Workload
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import NANO, Objective, QosTarget, quality
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import Cause, SuggestLimits
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support import drawing
from support.literal_moves import allowed, carried_out, needed, put
from support.placement_instances import NO_RULES, node, resources, snapshot
from support.suggest_instances import crowded_case, drawn_case, running, suggested, told


def cloud(cpu=64, memory=64):
    return node("cloud", Tier.CLOUD, cpu, memory)


def edge(name, cpu, memory=64):
    return node(name, Tier.EDGE, cpu, memory)


@pytest.fixture(params=["exact", "paper"])
def algorithm(request):
    return request.param


def test_a_pod_goes_to_the_edge_when_there_is_room(algorithm):
    found = suggested(
        [edge("e1", 1), cloud()], [running("a-1", "a", resources(1), "cloud")], algorithm=algorithm
    )
    assert told(found) == {("a-1", "cloud", "e1", "cloud-to-edge")}
    assert needed(found) == {"a-1": set()}
    a = Workload("shop", "Deployment", "a")
    assert found.before.shares[a] == Share(0, 1)
    assert found.after.shares[a] == Share(1, 1)
    # The whole promise: from -alpha to gamma.
    assert found.after.qos - found.before.qos == 11 * NANO
    assert found.moves[0].gain == pytest.approx(11)


def test_two_pods_change_places_between_full_nodes():
    # Only e1 has the disk that c asks for: a and b must change places for it, each needing the
    # room of the other.
    labels = {"disk": "ssd"}
    nodes = [node("e1", Tier.EDGE, 3, 8, labels=labels), edge("e2", 3, 8), cloud()]
    pods = [
        running("a-1", "a", resources(3, 2), "e1"),
        running("b-1", "b", resources(2, 2), "e2"),
        running("c-1", "c", resources(1, 1), "cloud", rules=SchedulingRules((("disk", "ssd"),))),
    ]
    found = suggested(nodes, pods)
    assert told(found) == {
        ("a-1", "e1", "e2", "edge-to-edge"),
        ("b-1", "e2", "e1", "edge-to-edge"),
        ("c-1", "cloud", "e1", "cloud-to-edge"),
    }
    assert needed(found) == {
        "a-1": {"b-1-out"},
        "b-1-out": set(),
        "b-1": {"a-1", "b-1-out"},
        "c-1": {"a-1"},
    }
    assert {m.group for m in found.moves} == {0}
    assert [m.gain for m in found.moves] == pytest.approx([11 / 4] * 3)  # four legs
    # A cloud that can hold neither cannot break the cycle.
    assert not suggested([*nodes[:2], cloud(cpu=2)], pods).moves


def test_an_unmovable_pod_that_would_gain_is_named_with_its_reason():
    pods = [running("a-1", "a", resources(1), "cloud")]
    said = Cause.PINNED.of("it must not be disrupted")
    found = suggested([edge("e1", 1), cloud()], pods, movable=lambda _: said)
    assert [(r.pod.name, r.reason) for r in found.rejected] == [("a-1", "it must not be disrupted")]


def test_what_default_movable_forbids():
    good = running("a-1", "a", resources(1), "e1")
    stray = node("stray", None)
    shot = snapshot([edge("e1", 8), cloud(), stray], [good])
    assert default_movable(shot)(good) is None
    for change, reason in [
        ({"scheduler_name": "default-scheduler"}, "it belongs to another scheduler"),
        ({"workload": Workload("shop", "DaemonSet", "a")}, "it belongs to a DaemonSet"),
        ({"workload": Workload("shop", "Job", "a")}, "it belongs to a Job"),
        ({"workload": Workload("shop", "CloneSet", "a")}, "it belongs to a CloneSet"),
        ({"phase": "Succeeded"}, "it has finished"),
        ({"terminating": True}, "it is being deleted"),
        ({"detached": True}, "it is being migrated"),
        ({"gated": True}, "it is gated"),
        ({"phase": "Pending"}, "it is not running"),
        ({"ready": False}, "it is not ready"),
        ({"node_name": None}, "it is not on a node"),
        ({"node_name": "stray"}, "its node is neither edge nor cloud"),
    ]:
        bad = attrs.evolve(good, **change)
        shot = snapshot([edge("e1", 8), cloud(), stray], [bad])
        assert str(default_movable(shot)(bad)) == reason


def test_nodes_that_do_not_take_the_pod_are_no_targets(algorithm):
    tainted = node("e1", Tier.EDGE, taints=[Taint("dedicated", "ml", "NoSchedule")])
    cordoned = node("e2", Tier.EDGE, unschedulable=True)
    pods = [running("a-1", "a", resources(1), "cloud", rules=NO_RULES)]
    found = suggested([tainted, cordoned, cloud()], pods, algorithm=algorithm)
    assert not found.moves
    assert found.rejected[0].reason == (
        "no edge node accepts it: node(s) had untolerated taint {dedicated: ml},"
        " node(s) were unschedulable"
    )


def test_of_an_over_committed_node_only_what_is_short_matters():
    pods = [running("a-1", "a", resources(1, 0), "cloud")]
    shot = snapshot([edge("e1", 2, 4), cloud()], pods, {"e1": resources(0, 6, 0)})
    found = suggest(shot, lambda _: QosTarget(), Objective(), SuggestLimits())
    assert [move.target for move in found.moves] == ["e1"]


def test_max_moves_and_max_cloud_to_edge_are_named():
    pods = [running(f"a-{i}", "a", resources(1), "cloud") for i in range(9)]
    found = suggested([edge("e1", 9), cloud()], pods)
    assert len(found.moves) == 5
    assert [r.reason for r in found.rejected] == ["maxCloudToEdge (5) is reached"]
    found = suggested(
        [edge("e1", 9), cloud()], pods, limits=SuggestLimits(max_moves=3, max_cloud_to_edge=5)
    )
    assert len(found.moves) == 3
    assert [r.reason for r in found.rejected] == ["maxMoves (3) is reached"]


def test_without_edge_or_cloud_there_is_nothing_to_move(algorithm):
    pods = [running("a-1", "a", resources(1), "cloud")]
    found = suggested([cloud()], pods, algorithm=algorithm)
    assert not found.moves
    assert [r.reason for r in found.rejected] == ["there is no edge node"]
    assert not suggested([edge("cloud", 4)], pods, algorithm=algorithm).moves
    assert not suggested([], [], algorithm=algorithm).moves


def test_a_full_cloud_is_named_if_it_keeps_pods_at_the_edge():
    pods = [running("a-1", "a", resources(2), "e1"), running("b-1", "b", resources(1), "cloud")]
    found = suggested([edge("e1", 2), cloud(cpu=1)], pods, {"a": QosTarget(0.0)})
    assert [r.why.cause for r in found.rejected] == [Cause.NO_ROOM_IN_THE_CLOUD]


def test_the_higher_priority_comes_to_the_edge_whatever_the_weight_of_the_other(algorithm):
    pods = [
        running("a-1", "a", resources(1), "cloud", priority=10),
        running("b-1", "b", resources(1), "cloud"),
    ]
    targets = {"b": QosTarget(weight=9)}
    found = suggested([edge("e1", 1), cloud()], pods, targets, algorithm=algorithm)
    assert [move.pod.name for move in found.moves] == ["a-1"]


def test_many_moves_may_be_allowed():
    pods = [running(f"a-{i:02}", "a", resources(1), "cloud") for i in range(40)]
    limits = SuggestLimits(max_moves=1000, max_cloud_to_edge=1000, max_edge_reorder=1000)
    found = suggested([edge("e1", 30), edge("e2", 5), cloud()], pods, limits=limits)
    assert len(found.moves) == 35
    assert found.proven
    # Six workloads are too many for so many moves at once, but not some of them.
    pods += [running(f"{s}-{i:02}", s, resources(1), "cloud") for i in range(20) for s in "bcdef"]
    found = suggested([edge("e1", 30), edge("e2", 5), cloud(200)], pods, limits=limits)
    assert len(found.moves) == 35
    assert not found.proven
    assert {r.reason for r in found.rejected} == {
        (
            "no edge node has free capacity for it, and 965 more migrations would not free enough"
            " at a benefit above their price"
        )
    }


def test_beyond_the_bounds_who_cannot_be_helped_does_not_stand_in_the_way():
    # Eight workloads lack everything and fit nowhere; the ninth lacks half.
    pods = [running(f"{s}-1", s, resources(9), "cloud") for s in "abcdefgh"]
    pods += [running("z-1", "z", resources(1), "e1"), running("z-2", "z", resources(1), "cloud")]
    found = suggested([edge("e1", 2), cloud(cpu=99)], pods, bounds=Bounds(loads=2000))
    assert [m.pod.name for m in found.moves] == ["z-2"]


@pytest.mark.parametrize(("others", "moves"), [(97, 1), (98, 0)])
def test_defragmenting_must_take_a_hundredth_of_a_node_at_least(algorithm, others, moves):
    # Half of each node is of no use to d before, none after. d is one pod of 100, or of 101.
    nodes = [edge("e1", 4, 8), edge("e2", 4, 8), cloud()]
    pods = [
        running("a-1", "a", resources(2, 4), "e1"),
        running("b-1", "b", resources(2, 4), "e2"),
        running("d-1", "d", resources(4, 8), "cloud"),
        *(running(f"z-{i}", "z", resources(), "cloud") for i in range(others)),
    ]
    pods[2:] = (attrs.evolve(pod, ready=False) for pod in pods[2:])
    limits = SuggestLimits(defragment=True)
    found = suggested(nodes, pods, limits=limits, algorithm=algorithm)
    assert len(found.moves) == moves


@pytest.mark.parametrize("algorithm", ["exact", "paper"])
def test_headroom_is_left_free_by_pods_of_the_cloud(algorithm):
    pods = [running(f"a-{n}", "a", resources(1), "cloud") for n in range(4)]
    for headroom, number in ((0.0, 4), (0.25, 3), (0.5, 2), (1.0, 0)):
        limits = SuggestLimits(headroom=headroom)
        found = suggested(
            [edge("e1", 2), edge("e2", 2), cloud()], pods, {}, limits=limits, algorithm=algorithm
        )
        assert len(found.moves) == number


ENOUGH = 60


def bound(shot, bindings):
    """Return the snapshot after binding the pods, which then run."""
    for pod, name, _ in bindings:
        assert allowed(shot, pod, name)
        shot = put(shot, attrs.evolve(pod, node_name=name, phase="Running", ready=True), name)
    return shot


def rounds(case, limits, algorithm):
    """Suggest and carry out until there is nothing left to suggest; the scores on the way."""
    shot, scores = case.snapshot, []
    while len(scores) < ENOUGH:
        found = suggest(shot, case.qos_targets, case.objective, limits, algorithm=algorithm)
        scores.append((found.before, found.after))
        if not found.moves:
            assert found.after == found.before
            return scores
        shot = carried_out(shot, found)
        if found.awaited:
            # Their room is there now; who gets it is the immediate scheduler's to say.
            waiting = shot.schedulable(shot.pods.values())
            decision = immediate_schedule(shot, waiting, case.qos_targets, case.objective)
            after = quality(decision.shares_after, case.qos_targets, case.objective)
            assert after >= found.after.qos
            shot = bound(shot, decision.bindings)
        else:
            assert shot.census.shares == found.after.shares
    raise AssertionError(f"no end after {ENOUGH} suggestions")


@pytest.mark.parametrize("algorithm", ["exact", "paper"])
@pytest.mark.parametrize("draw", [drawn_case, crowded_case])
def test_on_random_clusters(algorithm, draw):
    seen = Counter()
    for seed in drawing.drawn(range(3000, 3200)):
        case = draw(seed)
        limits = attrs.evolve(case.limits, defragment=seed % 2 == 0)
        scores = rounds(case, limits, algorithm)
        for before, after in scores[:-1]:
            assert (after.qos, -after.fragmentation) > (before.qos, -before.fragmentation), seed
            if after.qos == before.qos:
                assert limits.defragment
        for (_, after), (before, _) in pairwise(scores):
            assert before.qos >= after.qos, seed
        seen["moved"] += len(scores) > 1
        seen["more than once"] += len(scores) > 2
        seen["tidied"] += any(b != a and b.qos == a.qos for b, a in scores)
    assert seen["moved"] >= 4, seen
    assert seen["tidied"], seen
    if algorithm == "exact":
        assert seen["more than once"], seen


@pytest.mark.parametrize("algorithm", ["exact", "paper"])
def test_where_nothing_is_left_to_gain_no_look_would_find_anything(algorithm, monkeypatch):
    """What is answered at once is what looking for moves comes to."""
    objectives = (Objective(), Objective(beta=0.0, gamma=10), Objective(kind="ecmus"))
    at_once = 0
    for seed, objective in product(drawing.drawn(range(300)), objectives):
        case = drawn_case(seed)
        shot = case.snapshot
        arguments = (shot, case.qos_targets, objective, SuggestLimits())
        if Gains.of(shot, case.qos_targets, objective).possible:
            continue
        found = suggest(*arguments, algorithm=algorithm)
        with monkeypatch.context() as always:
            always.setattr(Gains, "possible", True)
            looked = suggest(*arguments, algorithm=algorithm)
        assert found == looked, seed
        at_once += any(share.total for share in looked.before.shares.values())
    assert at_once > 7
