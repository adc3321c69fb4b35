"""What pods prefer, as kube-scheduler scores it; worked out by hand."""

import attrs

from kubedsm.model.model import (
    PodAffinityTerm,
    Preferences,
    SchedulingRules,
    SpreadConstraint,
    Tier,
)
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm_lab.baselines.in_turn import Room
from kubedsm_lab.baselines.kube_scheduler import scores, total_scores
from support.policy_clusters import node, pod, snapshot

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
    return scores(one, nodes, Room.of(snapshot(nodes, pods)))


def labelled(name, on, service):
    return pod(name, on=on, service=service, labels={"app": service})


def test_the_nodes_that_a_pod_prefers_count_beside_the_edge():
    ssd = NodeSelectorTerm((Requirement("disk", "In", ("ssd",)),))
    far = node("c", Tier.CLOUD, 4, 8 * GB, labels={"disk": "ssd"})
    found = rated(
        liking(pod("a"), node_affinity=((50, ssd),)), (edge("e"), far, edge("s", disk="ssd"))
    )
    # 100 at the edge, 50 for the disk: 100, 50 and 150, as shares of 150
    assert found["NodeAffinity"] == [66, 33, 100]


def test_pods_that_a_pod_likes_to_have_near_it():
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
