import pytest

from kubedsm.model.model import NodeName, Resources, Tier
from kubedsm.plugins.fit import shortages, unschedulable_message, why_unschedulable
from kubedsm.plugins.plugin import Rejection, scale_scores
from support.placement_instances import GPU, node, resources, snapshot

EDGE = Tier.EDGE


def test_who_asks_for_nothing_fits_where_others_took_too_much():
    overcommitted = Resources(cpu=-500, memory=-1, pods=1, other=((GPU, -1),))
    assert shortages(resources(0, 0), overcommitted) == ()
    assert shortages(resources(0.001, 0), overcommitted) == ("Insufficient cpu",)


def test_the_message_counts_reasons_and_sorts_them_as_text():
    taint = "node(s) had untolerated taint {a: 1}"
    given = {
        **{NodeName(f"t{i}"): Rejection("TaintToleration", (taint,)) for i in range(3)},
        NodeName("x"): Rejection("NodeResourcesFit", ("Insufficient cpu", "Insufficient memory")),
        NodeName("y"): Rejection("NodeResourcesFit", ("Insufficient cpu",)),
    }
    assert unschedulable_message(given) == (
        f"0/5 nodes are available: 1 Insufficient memory, 2 Insufficient cpu, 3 {taint}."
    )


def test_ten_sorts_before_two_as_kube_scheduler_has_it():
    crowded = Rejection("NodeResourcesFit", ("Too many pods",))
    short = Rejection("NodeResourcesFit", ("Insufficient cpu",))
    given = {NodeName(f"n{i}"): crowded if i < 10 else short for i in range(12)}
    assert unschedulable_message(given) == (
        "0/12 nodes are available: 10 Too many pods, 2 Insufficient cpu."
    )


def test_what_is_about_the_pod_counts_no_nodes():
    unbound = Rejection("VolumeBinding", ("pod has unbound claims",), everywhere=True)
    given = {NodeName("x"): unbound, NodeName("y"): unbound}
    assert unschedulable_message(given) == "0/2 nodes are available: pod has unbound claims."


def test_no_node_at_all():
    assert unschedulable_message({}) == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("asked", "rule", "more"),
    [
        (
            resources(5, 1),
            "NodeResourcesFit",
            " No node is large enough: the pod requests 5 cpu, the largest has 4 cpu.",
        ),
        (
            resources(4, 8),
            "NodeResourcesFit",
            " No node is large enough: none has 4 cpu and 8Gi memory together.",
        ),
        (resources(4, 4), "NodeResourcesFit", ""),
        (resources(5, 1), "TaintToleration", ""),
    ],
)
def test_a_pod_larger_than_every_node_is_told_so(asked, rule, more):
    nodes = [node("e1", EDGE, 4, 4), node("c1", Tier.CLOUD, 2, 8)]
    rejections = dict.fromkeys(map(NodeName, ("e1", "c1")), Rejection(rule, ("why",)))
    why = why_unschedulable(asked, rejections, snapshot(nodes, []).index)
    assert why == f"0/2 nodes are available: 2 why.{more}"


def test_scores_are_scaled_to_100():
    assert scale_scores([100, 0, 50]) == [100, 0, 50]
    assert scale_scores([3, 2, 1]) == [100, 66, 33]
    assert scale_scores([3, 2, 0], reverse=True) == [0, 34, 100]
    assert scale_scores([0, 0]) == [0, 0]
    assert scale_scores([0, 0], reverse=True) == [100, 100]
