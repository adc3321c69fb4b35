import numpy as np

from kubedsm.model.model import Tier
from kubedsm.optimizer.matching.problem import PlacementProblem, group_ruled_kinds
from kubedsm.optimizer.placing.ruled import sample_classes
from kubedsm.plugins.feasibility import Feasibility
from support.rule_instances import HOST, ZONE, app, cluster, near, pod, zoned


def chosen(nodes, waiting, *others, few):
    """The names of the few."""
    snapshot = cluster(nodes, [*others, *waiting])
    feasibility = Feasibility.of(snapshot)
    kinds = group_ruled_kinds(waiting, feasibility, snapshot.surroundings, distinguish=True)
    packing = PlacementProblem.of(kinds, snapshot.in_turn(Tier.EDGE))
    likes = [feasibility.equivalence(kind.pods[0]) for kind in kinds]
    few = sample_classes(packing, likes, feasibility.scene, few)
    return {packing.nodes[at].name for at in np.flatnonzero(few)}


def test_one_of_each_sort_comes_before_a_second():
    """Zones and room make a sort, names do not, and neither do hosts, but for who is there."""
    nodes = [
        *(zoned(f"e{n}", "x") for n in range(4)),
        *(zoned(f"f{n}", "y") for n in range(3)),
        zoned("large", "x", cpu=8),
        zoned("home", "x", cpu=5, memory=9, pods=111),
        zoned("other", "x", cpu=4.5),
    ]
    together = near(app("a"), key=HOST), near(app("a"), key=ZONE)
    there = [pod("old", {"app": "a"}, on="home"), pod("q", on="other")]
    waiting = [pod(f"p{n}", {"app": "a"}, affinity=together) for n in range(9)]
    few = chosen(nodes, waiting, *there, few=5)
    assert few >= {"home", "large", "other"}
    assert [sum(name.startswith(of) for name in few) for of in "ef"] == [1, 1]


def test_all_of_them_if_there_are_no_more():
    nodes = [zoned(f"e{n}") for n in range(3)]
    assert len(chosen(nodes, [pod("p", {"app": "a"})], few=9)) == 3
