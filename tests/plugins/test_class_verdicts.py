"""What is said of all nodes at once is what is said of each of them."""

from kubedsm.plugins.plugins import fitting_nodes, open_nodes, rejections
from support import drawing
from support.literal_fit import rejection, static_rejection
from support.placement_instances import drawn
from support.rule_instances import drawn as drawn_with_rules


def test_of_all_nodes_at_once_as_of_each():
    seen = set()
    for seed in drawing.drawn(range(150)):
        for shot in (drawn(seed).snapshot, drawn_with_rules(seed)[0]):
            for pod_class in dict.fromkeys(pod.pod_class for pod in shot.pods.values()):
                each = {n: rejection(pod_class, shot.nodes[n], shot.free[n]) for n in shot.nodes}
                found = rejections(pod_class, shot.index, shot.room)
                assert found == {n: why for n, why in each.items() if why}, seed
                assert list(found) == sorted(found)
                names, fitting = shot.index.names, fitting_nodes(pod_class, shot.index, shot.room)
                assert {names[at] for at in fitting.nonzero()[0]} == shot.nodes.keys() - found
                can = {n for n in names if static_rejection(pod_class, shot.nodes[n]) is None}
                assert {names[at] for at in open_nodes(pod_class, shot.index).nonzero()[0]} == can
                seen |= {(why.rule, why.everywhere) for why in found.values()}
    rules = {rule for rule, _ in seen}
    assert rules > {"NodeResourcesFit", "NodeAffinity", "TaintToleration", "NodeUnschedulable"}
