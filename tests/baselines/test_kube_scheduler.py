"""kube-scheduler's scoring, worked out by hand from its documentation and its own unit tests."""

import random
from collections import Counter

import attrs
import pytest

from kubedsm.model.model import (
    PodAffinityTerm,
    Preferences,
    SchedulingRules,
    SpreadConstraint,
    Tier,
)
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.optimizer.placing.cloud import allocation_score
from kubedsm_lab.baselines.in_turn import InTurn, NodeUsage
from kubedsm_lab.baselines.kube_scheduler import (
    KubeScheduler,
    balanced_allocation_score,
    kube_scheduler,
    scores,
    total_scores,
)
from kubedsm_lab.baselines.registry import POLICIES
from support.drawing import drawn
from support.placement_instances import snapshot
from support.policy_clusters import MI, PAPER, TARGETS, node, pod

KUBE_SCHEDULER = InTurn(kube_scheduler, *TARGETS)


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


def room_of(nodes, *pods):
    return NodeUsage.of(snapshot(nodes, pods))


def test_an_empty_paper_cluster_and_pods_that_even_nodes_out():
    # 950Mi are .1992, .2490, .1992 and .0586 of the nodes' memory.
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


def test_pods_of_a_service_spread_over_hostnames_and_zones_unless_they_terminate():
    here = [pod(f"a-{n}", on="n2") for n in range(3)]
    room = room_of(PAPER, *here)
    # 3 * ln(6) + 2 = 7.38, the others 2: 100 * (7 + 2 - s) / 7
    assert scores(pod("a-9"), PAPER, room)["PodTopologySpread"] == [28, 100, 100, 100]
    assert scores(pod("b-1", service="b"), PAPER, room)["PodTopologySpread"] == [100] * 4
    room = room_of(PAPER, *[pod(f"a-{n}", on="n2", terminating=True) for n in range(3)])
    assert scores(pod("a-9"), PAPER, room)["PodTopologySpread"] == [100] * 4

    def zoned(name, zone):
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        return node(name, Tier.EDGE, 4, 8 * 10**9, labels=labels)

    nodes = (zoned("x1", "x"), zoned("x2", "x"), zoned("y1", "y"))
    room = room_of(nodes, pod("a-1", on="x1"))
    # 3 hostnames, 2 zones; x1: ln 5 + 2 + ln 4 + 4 = 9.0, x2: 2 + ln 4 + 4 = 7.4, y1: 2 + 4
    # 100 (9 + 6 - s) / 9, cut off
    assert scores(pod("a-2"), nodes, room)["PodTopologySpread"] == [66, 88, 100]


def test_taints_that_only_prefer_and_requests_of_nothing_count_a_little():
    disliked = node(
        "e1", Tier.EDGE, 4, 8 * 10**9, taints=[("a", "PreferNoSchedule"), ("b", "PreferNoSchedule")]
    )
    less = node("e2", Tier.EDGE, 4, 8 * 10**9, taints=[("a", "PreferNoSchedule")])
    none = node("e3", Tier.EDGE, 4, 8 * 10**9)
    nodes = (disliked, less, none)
    assert scores(pod("a-1"), nodes, room_of(nodes))["TaintToleration"] == [0, 50, 100]
    # 100m and 200Mi in LeastAllocated, nothing at all in BalancedAllocation.
    nodes = (node("e1", Tier.EDGE, 1, 1000 * MI), node("e2", Tier.EDGE, 2, 1000 * MI))
    found = scores(pod("z", cores=0, memory=0), nodes, room_of(nodes))
    # means of 90 and 80, 95 and 80
    assert found["NodeResourcesFit"] == [85, 87]
    assert "NodeResourcesBalancedAllocation" not in found


def test_above_a_hundred_nodes_some_are_looked_at_and_the_best_may_not_be_seen():
    # Of 104 nodes 100 are enough (49 % would be 50, but never below 100).
    nodes = [node(f"e{n:03}", Tier.EDGE, 4, 8 * 10**9) for n in range(104)]
    choose, room = KubeScheduler(), room_of(nodes)
    starts = []
    for number in range(3):
        one = pod(f"a-{number}")
        room.put(one, choose(one, room.fitting(one), room, random.Random(number)))
        starts.append(choose.start)
    assert starts == [100, 96, 92]
    # The only node of the edge is the last of them: it is found when its turn comes.
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
        for policy in (POLICIES[name](*TARGETS),)
    }
    assert where == {"kube-scheduler": [False, True], "kube-scheduler-all-nodes": [True, True]}


def test_below_a_hundred_nodes_all_are_looked_at_and_decisions_are_the_same():
    for seed in drawn(range(20)):
        rng = random.Random(seed)
        nodes = [
            node(f"e{n:02}", rng.choice(tuple(Tier)), rng.randint(1, 4), 8 * 10**9)
            for n in range(rng.randint(1, 99))
        ]
        pods = [pod(f"a-{n}", cores=rng.randint(1, 2), created=n) for n in range(10)]
        decisions = [
            InTurn(choose, *TARGETS).place(snapshot(nodes, pods), pods, random.Random(seed))
            for choose in (KubeScheduler(), KubeScheduler(percentage=5), kube_scheduler)
        ]
        assert decisions[0] == decisions[1] == decisions[2]


HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
GB = 10**9


def app(name):
    return (Requirement("app", "In", (name,)),)


def near(name, key=HOSTNAME):
    return PodAffinityTerm(key, app(name), ("default",))


def with_rules(of, **rules):
    return attrs.evolve(of, pod_class=attrs.evolve(of.pod_class, rules=SchedulingRules(**rules)))


def liking(of, **preferences):
    return with_rules(of, preferences=Preferences(**preferences))


def edge(name, **labels):
    return node(name, Tier.EDGE, 4, 8 * GB, labels={HOSTNAME: name, **labels})


def rated(one, nodes, *pods):
    return scores(one, nodes, NodeUsage.of(snapshot(nodes, pods)))


def labelled(name, on, service):
    return pod(name, on=on, service=service, labels={"app": service})


def test_pods_and_nodes_that_a_pod_likes_to_have_near_it():
    ssd = NodeSelectorTerm((Requirement("disk", "In", ("ssd",)),))
    far = node("c", Tier.CLOUD, 4, 8 * GB, labels={"disk": "ssd"})
    found = rated(
        liking(pod("a"), node_affinity=((50, ssd),)), (edge("e"), far, edge("s", disk="ssd"))
    )
    # 100 at the edge, 50 for the disk: 100, 50 and 150, as shares of 150
    assert found["NodeAffinity"] == [66, 33, 100]
    nodes = (edge("e1"), edge("e2"), edge("e3"))
    there = [labelled(f"d-{n}", on, "db") for n, on in enumerate(("e1", "e1", "e2"))]
    there.append(labelled("n", "e3", "noisy"))
    wishes = {"affinity": ((10, near("db")),), "anti_affinity": ((20, near("noisy")),)}
    # 20, 10 and -20: from the least to the greatest
    assert rated(liking(pod("a"), **wishes), nodes, *there)["InterPodAffinity"] == [100, 75, 0]
    assert "InterPodAffinity" not in rated(pod("a"), nodes, *there)


def test_pods_that_like_to_have_the_pod_near_them():
    """Those that demand it count 1; those that want it far, their weight."""
    nodes = (
        edge("e1", **{ZONE: "x"}),
        edge("e2", **{ZONE: "x"}),
        edge("e3", **{ZONE: "y"}),
        edge("e4"),
    )
    web = attrs.evolve(pod("w", service="web"), labels={"app": "web"})
    wants_it_far = liking(labelled("b", "e1", "b"), anti_affinity=((3, near("web")),))
    demands_it = with_rules(labelled("c", "e2", "c"), affinity=(near("web", ZONE),))
    # e1: -3 and 1 for the zone, e2: 1 for the zone, the others nothing
    assert rated(web, nodes, wants_it_far, demands_it)["InterPodAffinity"] == [0, 100, 66, 66]


def spread(name, key=ZONE):
    return SpreadConstraint(key, 1, app(name), "default")


def test_spreading_as_a_pod_asks_for_it_is_instead_of_the_default():
    nodes = (edge("e1", **{ZONE: "x"}), edge("e2", **{ZONE: "y"}), edge("e3"))
    there = [labelled(f"w-{n}", "e1", "web") for n in range(2)]
    one = attrs.evolve(pod("w", service="web"), labels={"app": "web"})
    # two zones: 2 ln(2 + 2) = 2.77 in x, 0 in y: 100 (3 + 0 - s) / 3; without a zone nothing
    asking = liking(one, spread=(spread("web"),))
    assert rated(asking, nodes, *there)["PodTopologySpread"] == [0, 100, 0]
    # by default two of a service on a host out of 3: 2 ln(3 + 2) + 2 = 5.2, and 2; in the zones,
    # of which there are 3 with none, 2 ln(3 + 2) + 4 = 7.2, and 4: 12, 6, 2
    assert rated(one, nodes, *there)["PodTopologySpread"] == [16, 66, 100]
    demanding = with_rules(one, spread=(spread("web"),))
    assert "PodTopologySpread" not in rated(demanding, nodes, *there)


def test_images_that_a_node_has_already():
    mib = 2**20
    images = ("web:1", "log:1")
    nodes = (
        attrs.evolve(edge("e1"), images={"web:1": 500 * mib, "log:1": 300 * mib, "huge:1": 2**40}),
        attrs.evolve(edge("e2"), images={"log:1": 300 * mib, "huge:1": 2**40, "tiny:1": 30 * mib}),
    )

    def local(*images):
        return rated(attrs.evolve(pod("a"), images=images), nodes).get("ImageLocality")

    # e1: 500 on one of two nodes, so 250, and 300 on both: 100 (550 - 23) / (2 * 1000 - 23)
    assert local(*images) == [26, 14]
    # e1: of 250 and 1000, less 23 each
    assert local("web:1") == [23, 0]
    assert local("huge:1") == [100, 100]
    assert local("tiny:1") == [0, 0]  # e2: half of 30 is less than 23
    assert local("other:1") == [0, 0]
    assert local() is None
    assert "ImageLocality" not in rated(attrs.evolve(pod("a"), images=images), (edge("e1"),))


def test_all_of_it_is_weighted_as_in_the_default_profile():
    nodes = (edge("e1"), edge("e2"))
    one = liking(pod("a"), affinity=((1, near("db")),))
    found = rated(one, nodes, labelled("d", "e1", "db"))
    # e1: half the cpu and 1992 of 8000 MB asked, (50 + 75) / 2, e2: (75 + 87) / 2
    assert found == {
        "NodeResourcesFit": [62, 81],
        "TaintToleration": [100, 100],
        "InterPodAffinity": [100, 0],
        "NodeAffinity": [100, 100],
        # deviations .125 after .063, and .063 after 0: 87 after 93, 93 after 100
        "NodeResourcesBalancedAllocation": [72, 71],
        "PodTopologySpread": [100, 100],
    }
    # 62 + 3 * 100 + 2 * 100 + 2 * 100 + 72 + 2 * 100
    assert total_scores(found) == [1034, 852]
