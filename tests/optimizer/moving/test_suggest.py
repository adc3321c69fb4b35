"""Clusters small enough to see what is right."""

import attrs
import pytest

from kubedsm.model.model import SchedulingRules, Share, Taint, Tier, Workload
from kubedsm.objective.objective import NANO, Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import Cause, MoveKind, SuggestLimits
from support.placement_instances import NO_RULES, node, pod, resources, snapshot
from support.suggest_instances import running
from support.suggest_literal import carried_out, needed

DEFAULT = SuggestLimits()


def cloud(cpu=64, memory=64):
    return node("cloud", Tier.CLOUD, cpu, memory)


def edge(name, cpu, memory=64):
    return node(name, Tier.EDGE, cpu, memory)


def suggested(nodes, pods, targets=None, limits=DEFAULT, **more):
    shot = snapshot(nodes, pods)
    qos_targets = targets or {}
    found = suggest(
        shot,
        lambda w: qos_targets.get(w.name, QosTarget()),
        more.pop("objective", Objective(gamma=10)),
        limits,
        **more,
    )
    carried_out(shot, found)
    return found


def told(suggestion):
    return {(m.pod.name, m.source, m.target, m.kind.value) for m in suggestion.moves}


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


def test_who_has_more_than_promised_gives_way_to_who_has_less():
    pods = [
        running("a-1", "a", resources(1), "e1"),
        running("a-2", "a", resources(1), "e1"),
        running("b-1", "b", resources(1), "cloud"),
    ]
    found = suggested([edge("e1", 2), cloud()], pods, {"a": QosTarget(0.5)})
    assert told(found) == {
        ("a-1", "e1", "cloud", "edge-to-cloud"),
        ("b-1", "cloud", "e1", "cloud-to-edge"),
    }
    assert needed(found) == {"a-1": set(), "b-1": {"a-1"}}
    assert len({move.group for move in found.moves}) == 1
    # b gets its 11; a falls from half a promise above to just kept: 0.1 * 0.5.
    assert found.moves[0].gain == pytest.approx((11 - 0.05) / 2)


def test_the_papers_form_makes_no_room():
    pods = [
        running("a-1", "a", resources(1), "e1"),
        running("b-1", "b", resources(1), "cloud"),
    ]
    targets = {"a": QosTarget(0.0)}
    assert len(suggested([edge("e1", 1), cloud()], pods, targets).moves) == 2
    assert not suggested([edge("e1", 1), cloud()], pods, targets, algorithm="paper").moves


def test_a_pod_moves_over_to_make_room(algorithm):
    # Two nodes with one core left each, and a pod of two cores outside.
    pods = [
        running("a-1", "a", resources(1), "e1"),
        running("b-1", "b", resources(1), "e2"),
        running("c-1", "c", resources(2), "cloud"),
    ]
    found = suggested([edge("e1", 2), edge("e2", 2), cloud()], pods, algorithm=algorithm)
    assert {m.kind for m in found.moves} == {MoveKind.EDGE_TO_EDGE, MoveKind.CLOUD_TO_EDGE}
    (inner,) = [m for m in found.moves if m.kind is MoveKind.EDGE_TO_EDGE]
    assert needed(found)["c-1"] == {inner.pod.name}
    assert {m.group for m in found.moves} == {0}
    assert {m.gain for m in found.moves} == {5.5}


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


def test_the_cloud_must_hold_what_leaves_with_what_is_still_there():
    # b would free the very room that a needs; but b stays until its replacement runs.
    pods = [
        running("a-1", "a", resources(1), "e1"),
        running("b-1", "b", resources(1), "cloud"),
    ]
    found = suggested([edge("e1", 1), cloud(cpu=1)], pods, {"a": QosTarget(0.0)})
    assert not found.moves
    assert [(r.pod.name, r.reason) for r in found.rejected] == [
        (
            "b-1",
            (
                "no edge node has free capacity for it, and the cloud has no capacity for the pods"
                " that would have to leave"
            ),
        )
    ]


def test_room_is_made_for_a_pod_that_fits_nowhere():
    pods = [running("a-1", "a", resources(2), "e1"), pod("b-1", "b", resources(2))]
    nodes = [edge("e1", 2), edge("e2", 2), cloud(cpu=2)]
    pods.append(running("d-1", "d", resources(1), "e2"))
    pods.append(running("d-2", "d", resources(1), "cloud"))
    found = suggested(nodes, pods, {"a": QosTarget(0.0), "d": QosTarget(0.5)})
    # a waits for d to leave the cloud, and b comes in its place.
    assert needed(found) == {"d-2": set(), "a-1": {"d-2"}}
    assert [(a.pod.name, a.target) for a in found.awaited] == [("b-1", "e1")]
    assert found.after.shares[Workload("shop", "Deployment", "b")] == Share(1, 1)


def test_a_pod_that_fits_somewhere_only_waits_for_its_turn():
    pods = [running("a-1", "a", resources(1), "e1"), pod("b-1", "b", resources(1))]
    found = suggested([edge("e1", 1), cloud()], pods, {"a": QosTarget(0.0)})
    assert not found.moves
    assert not found.awaited


def test_pods_that_must_stay_only_hold_room():
    def reason(moving):
        return Cause.PINNED.of("it has a local volume") if moving.name == "a-1" else None

    pods = [
        running("a-1", "a", resources(1), "e1"),
        running("a-2", "a", resources(1), "cloud"),
        running("b-1", "b", resources(1), "cloud"),
    ]
    targets = {"a": QosTarget(0.0)}
    assert not suggested([edge("e1", 1), cloud()], pods, targets, movable=reason).moves
    assert suggested([edge("e1", 1), cloud()], pods, targets).moves


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


def test_groups_that_do_not_pay_are_left_and_said_not_to():
    # a is short of one pod of its two, b of one of its ten: 11 against 0.1.
    pods = [running(f"b-{i}", "b", resources(), "e1") for i in range(8)]
    pods += [running(f"b-{i}", "b", resources(1), "cloud") for i in (8, 9)]
    pods.append(running("a-1", "a", resources(1), "cloud"))
    nodes = [edge("e1", 2), cloud()]
    limits = SuggestLimits(price=90)
    everything = suggested(nodes, pods)
    assert {m.pod.workload.name for m in everything.moves} == {"a", "b"}
    assert len({m.group for m in everything.moves}) == 2
    some = suggested(nodes, pods, limits=limits)
    assert {m.pod.name for m in some.moves} == {"a-1"}
    # 11 pods are worth 2 points without gamma: .1 is .55 of one, and a minute of that 33 seconds.
    said = "migrating it gains 33.0 pod-seconds, no more than its price of 90.0"
    assert some.rejected[0].reason == said


def test_groups_that_only_pay_together_are_one():
    # Both pods of b are needed for its promise; each takes the place of a pod of a or c that keeps
    # theirs. Alone either would be a loss.
    nodes = [edge("e1", 1), edge("e2", 1), cloud()]
    pods = [
        running("a-1", "a", resources(1), "e1"),
        running("c-1", "c", resources(1), "e2"),
        running("b-1", "b", resources(1), "cloud"),
        running("b-2", "b", resources(1), "cloud"),
    ]
    targets = {
        "a": QosTarget(1.0, weight=1),
        "c": QosTarget(1.0, weight=1),
        "b": QosTarget(1.0, weight=3),
    }
    found = suggested(nodes, pods, targets)
    assert len(found.moves) == 4
    assert {m.group for m in found.moves} == {0}
    # 3 * 11 won, 2 * 11 lost, four moves.
    assert {m.gain for m in found.moves} == {11 / 4}


def test_of_an_over_committed_node_only_what_is_short_matters():
    shot = snapshot(
        [edge("e1", 2, 4), cloud()],
        [running("a-1", "a", resources(1, 0), "cloud")],
        {"e1": resources(0, 6, 0)},
    )
    found = suggest(shot, lambda _: QosTarget(), Objective(), DEFAULT)
    assert [m.target for m in found.moves] == ["e1"]


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


def test_beyond_the_bounds_some_workloads_are_still_served():
    services = "abcdefghijkl"
    pods = [running(f"{s}-1", s, resources(1), "cloud") for s in services]
    found = suggested(
        [edge("e1", 2), cloud()], pods, bounds=Bounds(states=4000, steps=10**6, loads=4000)
    )
    assert len(found.moves) == 2
    assert not found.proven
    assert suggested([edge("e1", 2), cloud()], pods[:4]).proven


def test_beyond_the_bounds_who_cannot_be_helped_does_not_stand_in_the_way():
    # Eight workloads lack everything and fit nowhere; the ninth lacks half.
    pods = [running(f"{s}-1", s, resources(9), "cloud") for s in "abcdefgh"]
    pods += [running("z-1", "z", resources(1), "e1"), running("z-2", "z", resources(1), "cloud")]
    found = suggested([edge("e1", 2), cloud(cpu=99)], pods, bounds=Bounds(loads=2000))
    assert [m.pod.name for m in found.moves] == ["z-2"]


def test_defragmenting_is_asked_for(algorithm):
    # Two half-full nodes; nobody's share changes, but together the pods leave a whole node free,
    # of use to who requests one.
    nodes = [edge("e1", 4, 8), edge("e2", 4, 8), cloud()]
    pods = [
        running("a-1", "a", resources(2, 4), "e1"),
        running("b-1", "b", resources(2, 4), "e2"),
        attrs.evolve(running("d-1", "d", resources(4, 8), "cloud"), ready=False),
    ]
    assert not suggested(nodes, pods, algorithm=algorithm).moves
    found = suggested(nodes, pods, limits=SuggestLimits(defragment=True), algorithm=algorithm)
    assert len(found.moves) == 1
    assert found.moves[0].kind is MoveKind.EDGE_TO_EDGE
    assert found.moves[0].gain == 0
    assert found.after.qos == found.before.qos
    assert found.after.fragmentation < found.before.fragmentation - 2**32 // 100


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
