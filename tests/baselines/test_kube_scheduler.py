"""kube-scheduler's scoring, worked out by hand from its documentation and its own unit tests."""

import random
from collections import Counter

import pytest

from kubedsm.model.model import Tier
from kubedsm.optimizer.placing.cloud import allocation_score
from kubedsm.plugins.plugin import scale_scores
from kubedsm.plugins.spread import scale_spread, spread_score
from kubedsm_lab.baselines.in_turn import InTurn, Room
from kubedsm_lab.baselines.kube_scheduler import (
    KubeScheduler,
    balanced_allocation_score,
    kube_scheduler,
    scores,
    total_scores,
)
from kubedsm_lab.baselines.registry import POLICIES
from support.policy_clusters import MI, PAPER, PROMISED, node, pod, snapshot

KUBE_SCHEDULER = InTurn(kube_scheduler, *PROMISED)


@pytest.mark.parametrize(
    ("allocatable", "requested", "expected"),
    [
        # (4000 - 3000) / 4000 = 25 and (10000 - 5000) / 10000 = 50; their mean, cut off, is 37
        ((4000, 10000), (3000, 5000), 37),
        ((6000, 10000), (3000, 5000), 50),
        ((4000, 10000), (0, 0), 100),
        # over-committed in one resource: that one scores nothing
        ((4000, 10000), (5000, 5000), 25),
        ((0, 10000), (0, 2500), 75),
    ],
)
def test_least_allocated(allocatable, requested, expected):
    assert allocation_score(list(allocatable), list(requested)) == expected


@pytest.mark.parametrize(
    ("allocatable", "without", "with_pod", "expected"),
    [
        # balance 100 (fractions 0 and 0) becomes 87 (.75 and .5, deviation .125): 50 + 37 // 2
        ((4000, 10000), (0, 0), (3000, 5000), 68),
        # 62 (.75 and 0, deviation .375) becomes 87: 50 + 75 // 2
        ((4000, 10000), (3000, 0), (3000, 5000), 87),
        # 87 becomes 62, to the worse by as much: 50 + 25 // 2
        ((4000, 10000), (3000, 5000), (3000, 0), 62),
        # balanced before and after, however full
        ((4000, 10000), (400, 1000), (4000, 10000), 75),
        # the greatest changes there are
        ((4000, 10000), (0, 0), (4000, 0), 50),
        ((4000, 10000), (4000, 0), (4000, 10000), 100),
        # fractions above 1 count as 1: |1 - .5| / 2, 75 after 100
        ((4000, 10000), (0, 0), (6000, 5000), 62),
        # a single resource deviates from nothing
        ((0, 10000), (0, 0), (0, 5000), 75),
    ],
)
def test_balanced_allocation(allocatable, without, with_pod, expected):
    assert balanced_allocation_score(allocatable, without, with_pod) == expected


def test_normalising():
    assert scale_scores([100, 0, 50]) == [100, 0, 50]
    assert scale_scores([3, 2, 1]) == [100, 66, 33]
    assert scale_scores([0, 0]) == [0, 0]
    assert scale_scores([3, 2, 0], reverse=True) == [0, 34, 100]
    assert scale_scores([0, 0], reverse=True) == [100, 100]


def test_spreading_over_hostnames():
    # ln(4 + 2) = 1.792: 2 * 1.792 + 2 = 5.58, 1.792 + 2 = 3.79, 2
    raw = [spread_score([(count, 3, 4)]) for count in (2, 1, 0, 0)]
    assert raw == [6, 4, 2, 2]
    # 100 (6 + 2 - s) / 6, cut off
    assert scale_spread(raw) == [33, 66, 100, 100]


def test_spreading_where_nobody_has_the_label():
    assert scale_spread([spread_score([]), spread_score([])]) == [100, 100]


def room_of(nodes, *pods):
    return Room.of(snapshot(nodes, pods))


def test_an_empty_paper_cluster():
    """950Mi are .1992, .2490, .1992 and .0586 of the nodes' memory."""
    found = scores(pod("a-1"), PAPER, room_of(PAPER))
    assert found == {
        # means of 80 and 80, 75 and 75, 85 and 80, 95 and 94, cut off
        "NodeResourcesFit": [80, 75, 82, 94],
        # deviations .0004, .0005, .0282, .0066: 99, 99, 97, 99, where it was 100 without the pod
        "NodeResourcesBalancedAllocation": [74, 74, 73, 74],
        "NodeAffinity": [100, 100, 100, 0],
        "TaintToleration": [100, 100, 100, 100],
        "PodTopologySpread": [100, 100, 100, 100],
    }
    # 80 + 74 + 2 * 100 + 3 * 100 + 2 * 100 = 854
    assert total_scores(found) == [854, 849, 855, 668]


def test_a_pod_goes_where_it_evens_out_and_not_only_where_it_ends_up_even():
    nodes = (node("e1", Tier.EDGE, 4, 8 * 10**9), node("e2", Tier.EDGE, 4, 8 * 10**9))
    room = room_of(nodes, pod("x", cores=2, memory=0, on="e1", service="x"))
    found = scores(pod("a-1", cores=1, memory=4 * 10**9), nodes, room)
    # 87 on both with the pod (.75 and .5, .25 and .5); without it 75 (.5 and 0) and 100
    assert found["NodeResourcesBalancedAllocation"] == [81, 68]


def test_equally_good_nodes_are_drawn_from():
    one, alike = pod("a-1"), [node(name, Tier.EDGE, 4, 8 * 10**9) for name in ("e1", "e2")]
    nodes = (*alike, node("e3", Tier.EDGE, 2, 4 * 10**9))
    chosen = Counter(
        KUBE_SCHEDULER.place(snapshot(nodes, [one]), [one], random.Random(seed)).bindings[0].node
        for seed in range(200)
    )
    assert chosen.keys() == {"e1", "e2"}
    assert 70 < chosen["e1"] < 130


def test_pods_of_the_same_service_spread():
    here = [pod(f"a-{n}", on="n2") for n in range(3)]
    room = room_of(PAPER, *here)
    # 3 * ln(6) + 2 = 7.38, the others 2: 100 * (7 + 2 - s) / 7
    assert scores(pod("a-9"), PAPER, room)["PodTopologySpread"] == [28, 100, 100, 100]
    assert scores(pod("b-1", service="b"), PAPER, room)["PodTopologySpread"] == [100] * 4


def test_terminating_pods_are_not_spread_from():
    room = room_of(PAPER, *[pod(f"a-{n}", on="n2", terminating=True) for n in range(3)])
    assert scores(pod("a-9"), PAPER, room)["PodTopologySpread"] == [100] * 4


def test_zones_count_beside_hostnames():
    def zoned(name, zone):
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        return node(name, Tier.EDGE, 4, 8 * 10**9, labels=labels)

    nodes = (zoned("x1", "x"), zoned("x2", "x"), zoned("y1", "y"))
    room = room_of(nodes, pod("a-1", on="x1"))
    # 3 hostnames, 2 zones; x1: ln 5 + 2 + ln 4 + 4 = 9.0, x2: 2 + ln 4 + 4 = 7.4, y1: 2 + 4
    # 100 (9 + 6 - s) / 9, cut off
    assert scores(pod("a-2"), nodes, room)["PodTopologySpread"] == [66, 88, 100]


def test_taints_that_only_prefer():
    disliked = node(
        "e1", Tier.EDGE, 4, 8 * 10**9, taints=[("a", "PreferNoSchedule"), ("b", "PreferNoSchedule")]
    )
    less = node("e2", Tier.EDGE, 4, 8 * 10**9, taints=[("a", "PreferNoSchedule")])
    none = node("e3", Tier.EDGE, 4, 8 * 10**9)
    nodes = (disliked, less, none)
    assert scores(pod("a-1"), nodes, room_of(nodes))["TaintToleration"] == [0, 50, 100]


def test_a_pod_that_requests_nothing_counts_as_a_little():
    """100m and 200Mi in LeastAllocated, nothing at all in BalancedAllocation."""
    nodes = (node("e1", Tier.EDGE, 1, 1000 * MI), node("e2", Tier.EDGE, 2, 1000 * MI))
    found = scores(pod("z", cores=0, memory=0), nodes, room_of(nodes))
    # means of 90 and 80, 95 and 80
    assert found["NodeResourcesFit"] == [85, 87]
    assert "NodeResourcesBalancedAllocation" not in found


def test_each_pod_sees_those_before_it():
    """Four pods of one service on an empty cluster: spreading outweighs the rest at the edge."""
    pods = [pod(f"a-{n}", created=float(n)) for n in range(4)]
    decision = KUBE_SCHEDULER.place(snapshot(PAPER, pods), pods, random.Random(1))
    assert [binding.pod.name for binding in decision.bindings] == ["a-0", "a-1", "a-2", "a-3"]
    first_three = Counter(binding.node for binding in decision.bindings[:3])
    assert first_three == {"n2": 1, "n3": 1, "n4": 1}
    assert decision.bindings[3].node != "n5"


def test_above_a_hundred_nodes_some_are_looked_at_and_the_next_pod_begins_after_them():
    """Of 104 nodes 100 are enough (49 % would be 50, but never below 100)."""
    nodes = [node(f"e{n:03}", Tier.EDGE, 4, 8 * 10**9) for n in range(104)]
    choose, room = KubeScheduler(), room_of(nodes)
    starts = []
    for number in range(3):
        one = pod(f"a-{number}")
        room.put(one, choose(one, room.fitting(one), room, random.Random(number)))
        starts.append(choose.start)
    assert starts == [100, 96, 92]


def test_the_best_node_is_not_seen_where_it_is_not_looked_at():
    """The only node of the edge is the last of them: it is found when its turn comes."""
    far = [node(f"c{n:03}", Tier.CLOUD, 4, 8 * 10**9) for n in range(103)]
    nodes = (*far, node("e", Tier.EDGE, 4, 8 * 10**9))
    pods = [pod("a-0"), pod("a-1", service="b")]
    where = {
        name: [
            binding.node == "e"
            for each in pods
            for binding in policy.place(snapshot(nodes, [each]), [each], random.Random(1)).bindings
        ]
        for name in ("kube-scheduler", "kube-scheduler-all-nodes")
        for policy in (POLICIES[name](*PROMISED),)
    }
    assert where == {"kube-scheduler": [False, True], "kube-scheduler-all-nodes": [True, True]}


def test_below_a_hundred_nodes_all_are_looked_at_and_decisions_are_the_same():
    for seed in range(20):
        rng = random.Random(seed)
        nodes = [
            node(f"e{n:02}", rng.choice(tuple(Tier)), rng.randint(1, 4), 8 * 10**9)
            for n in range(rng.randint(1, 99))
        ]
        pods = [pod(f"a-{n}", cores=rng.randint(1, 2), created=n) for n in range(10)]
        decisions = [
            InTurn(choose, *PROMISED).place(snapshot(nodes, pods), pods, random.Random(seed))
            for choose in (KubeScheduler(), KubeScheduler(percentage=5), kube_scheduler)
        ]
        assert decisions[0] == decisions[1] == decisions[2]
