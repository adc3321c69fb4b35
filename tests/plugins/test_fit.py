import pytest

from kubedsm.model.model import (
    NodeName,
    PodClass,
    Resources,
    SchedulingRules,
    Taint,
    Tier,
    Toleration,
)
from kubedsm.plugins.fit import shortages, unschedulable_message
from kubedsm.plugins.plugin import Rejection
from support.literal_fit import reasons, rejection, static_reasons
from support.placement_instances import GPU, node, resources

EDGE = Tier.EDGE
PLAIN = PodClass(resources(1, 1), SchedulingRules())
CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def tolerating(*tolerations):
    return PodClass(resources(1, 1), SchedulingRules(tolerations=tolerations))


def why(pod_class, at):
    return reasons(pod_class, at, at.allocatable)


def test_an_empty_node_takes_a_pod():
    assert why(PLAIN, node("n", EDGE)) == ()


def test_one_reason_for_each_resource_that_is_short():
    wants = PodClass(resources(2, 9, gpu=1), SchedulingRules())
    assert why(wants, node("n", EDGE, cpu=1, memory=8, pods=0)) == (
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        f"Insufficient {GPU}",
    )


def test_exactly_what_is_left_is_enough():
    assert shortages(resources(4, 8, gpu=2), resources(4, 8, 1, gpu=2)) == ()
    assert shortages(resources(4, 8), resources(4, 8, 0)) == ("Too many pods",)


def test_who_asks_for_nothing_fits_where_others_took_too_much():
    overcommitted = Resources(cpu=-500, memory=-1, pods=1, other=((GPU, -1),))
    assert shortages(resources(0, 0), overcommitted) == ()
    assert shortages(resources(0.001, 0), overcommitted) == ("Insufficient cpu",)


def test_a_cordoned_node_takes_only_who_tolerates_it():
    cordoned = node("n", EDGE, unschedulable=True, taints=[CORDON])
    assert why(PLAIN, cordoned) == ("node(s) were unschedulable",)
    assert why(tolerating(Toleration(CORDON.key, "Exists", "", "NoSchedule")), cordoned) == ()
    assert why(tolerating(Toleration(CORDON.key, "Exists", "", "NoExecute")), cordoned) != ()
    assert why(tolerating(Toleration("", "Exists")), cordoned) == ()


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_the_first_untolerated_taint_is_named(effect):
    first, second = Taint("a", "1", effect), Taint("b", "", effect)
    tainted = node("n", EDGE, taints=[first, second])
    assert why(PLAIN, tainted) == ("node(s) had untolerated taint {a: 1}",)
    tolerant = tolerating(Toleration("a", "Equal", "1", effect))
    assert why(tolerant, tainted) == ("node(s) had untolerated taint {b: }",)
    assert why(tolerating(Toleration("a", "Equal", "2", effect)), tainted) != ()


def test_a_preference_keeps_nobody_away():
    assert why(PLAIN, node("n", EDGE, taints=[Taint("a", "", "PreferNoSchedule")])) == ()


def test_every_label_of_the_selector_must_match():
    picky = PodClass(resources(1), SchedulingRules(node_selector=(("disk", "ssd"), ("zone", "a"))))
    refusal = ("node(s) didn't match Pod's node affinity/selector",)
    assert why(picky, node("n", EDGE, labels={"disk": "ssd", "zone": "a", "x": "y"})) == ()
    assert why(picky, node("n", EDGE, labels={"disk": "ssd", "zone": "b"})) == refusal
    assert why(picky, node("n", EDGE, labels={"disk": "ssd"})) == refusal


def test_a_node_of_neither_tier_is_not_used():
    assert why(PLAIN, node("n", None)) == ("node(s) had no label that makes them edge or cloud",)


def test_the_first_rule_in_kube_schedulers_order_gives_the_reasons():
    bad = node("n", None, cpu=0, taints=[Taint("a", "1", "NoExecute")], unschedulable=True)
    rejected = rejection(PLAIN, bad, bad.allocatable)
    assert rejected is not None
    assert rejected.rule == "NodeUnschedulable"
    full = node("n", EDGE, cpu=0)
    rejected = rejection(PLAIN, full, full.allocatable)
    assert rejected is not None
    assert rejected.rule == "NodeResourcesFit"
    assert static_reasons(PLAIN, full) == ()
    assert static_reasons(PLAIN, bad) == ("node(s) were unschedulable",)


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
    given = {NodeName(f"a{i}"): crowded for i in range(10)}
    given |= {NodeName(f"b{i}"): short for i in range(2)}
    assert unschedulable_message(given) == (
        "0/12 nodes are available: 10 Too many pods, 2 Insufficient cpu."
    )


def test_what_is_about_the_pod_counts_no_nodes():
    unbound = Rejection("VolumeBinding", ("pod has unbound claims",), everywhere=True)
    given = {NodeName("x"): unbound, NodeName("y"): unbound}
    assert unschedulable_message(given) == "0/2 nodes are available: pod has unbound claims."


def test_no_node_at_all():
    assert unschedulable_message({}) == "no nodes available to schedule pods"
