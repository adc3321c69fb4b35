"""Overview of an installation: its health, its order, its scope, and its printed forms."""

import io
from statistics import pstdev

import attrs
import pytest

from kubedsm.cli.installation_report import print_overview
from kubedsm.config.settings import load
from kubedsm.inspection.overview import Scope, summarise
from kubedsm.kube.calls.inspection import DetachedPod, WaitingPod
from kubedsm.kube.calls.leases import term_of
from kubedsm.model.model import Tier, Workload
from kubedsm.terminal.console import Console
from support.installations import NOW, WELL, changed, made_node
from support.placement_instances import snapshot
from support.pods import made_pod

NODES = [made_node("e1", cpu=8), made_node("c1", Tier.CLOUD)]


def pods(workload, edge, cloud, namespace="shop"):
    return [
        made_pod(f"{workload}-{n}", workload=workload, namespace=namespace, cpu=1000, node_name=on)
        for n, on in enumerate(["e1"] * edge + ["c1"] * cloud)
    ]


def waits(name, message="", uid="", age=60):
    return WaitingPod("shop", name, uid or name, "kubedsm", NOW - age, message)


SHORT = changed(
    snapshot=snapshot(NODES, [*pods("pay", 1, 1), *pods("cart", 0, 3), *pods("a", 1, 0, "other")]),
    waiting=[waits("x", "0/2 nodes are available."), waits("y", "0/2 nodes are available.")],
    detached=[DetachedPod("shop", "cart-1", "cart-1", "c1", "e1", NOW - 7)],
)


def printed_as(overview, output, capsys):
    file = io.StringIO()
    print_overview(overview, output, Console(file=file, width=100, no_color=True))
    return file.getvalue() + capsys.readouterr().out


ROOM = "3 of 4 cores and 8 of 8 Gi free at the edge"


def test_a_healthy_installation_is_four_lines(capsys):
    overview = summarise(WELL, Scope())
    assert overview.health.state == "healthy"
    assert printed_as(overview, "text", capsys).splitlines() == [
        "healthy: every service has its edge share",
        "leader  kubedsm-0, Lease renewed 2 s ago; scheduler 0.1.0, API server v1.36.2",
        f"edge    1 node, {ROOM}; deviation of edge shares 0.000",
    ]


def test_a_small_shortfall_is_healthy_and_said(capsys):
    state = changed(snapshot=snapshot(NODES, [*pods("pay", 4, 1), *pods("cart", 1, 0)]))
    said = printed_as(summarise(state, Scope()), "text", capsys)
    assert said.startswith("healthy: 1 of 2 services slightly below target\n")


def test_services_are_listed_by_shortfall_and_pods_by_reason(capsys):
    overview = summarise(SHORT, Scope())
    assert overview.health.state == "degraded"
    assert [share.workload for share in overview.below] == ["shop/cart", "shop/pay"]
    assert overview.waiting == {"0/2 nodes are available.": ["shop/x", "shop/y"]}
    said = printed_as(overview, "text", capsys)
    assert said.startswith("degraded: shop/x and 1 more pod cannot be scheduled: 0/2 nodes")
    assert "2 of 3 services below target" in said
    assert said.index("shop/cart") < said.index("shop/pay")
    assert "1 migration in progress" in said
    assert printed_as(overview, "name", capsys) == "deployment/shop/cart\ndeployment/shop/pay\n"
    assert "kind" not in said
    assert "Deployment" in printed_as(overview, "wide", capsys)
    document = overview.as_json()
    assert document["belowTarget"][0]["missing"] == 3
    assert document["edgeShareDeviation"] == pytest.approx(pstdev([1 / 2, 0 / 3, 1]))
    assert "; deviation of edge shares 0.408" in said
    assert document["edge"]["cpu"] == {"allocatable": 8.0, "free": 6.0}
    assert document["migrations"] == [
        {"pod": "shop/cart-1", "from": "c1", "to": "e1", "since": NOW - 7}
    ]


def test_a_scope_limits_the_lists_and_not_the_health():
    other = summarise(SHORT, Scope("other"))
    assert (other.health.state, other.services) == ("degraded", 1)
    assert (other.below, other.migrations, other.waiting) == ((), (), {})
    selected = summarise(SHORT, Scope(None, frozenset({"pay-0", "y"})))
    assert [share.workload for share in selected.below] == ["shop/pay"]
    assert list(selected.waiting.values()) == [["shop/y"]]


def test_workloads_of_one_name_are_two_services():
    replica = attrs.evolve(
        made_pod("cart-0", node_name="c1"), workload=Workload("shop", "StatefulSet", "cart")
    )
    state = changed(snapshot=snapshot(NODES, [*pods("cart", 0, 2), replica]))
    assert summarise(state, Scope()).services == 2
    selected = summarise(state, Scope(None, frozenset({"cart-0", "cart-1"})))
    of_one = summarise(state, Scope(None, frozenset({"cart-1"})))
    assert {share.kind for share in selected.below} == {"Deployment", "StatefulSet"}
    assert ([share.kind for share in of_one.below], of_one.services) == (["Deployment"], 1)


@pytest.mark.parametrize(
    ("state", "health"),
    [
        (changed(term=None), "down"),
        (changed(term=term_of("kubedsm-0_1", 15.0, NOW - 100, 0)), "down"),
        (changed(term=None, errors={"lease": "403"}), "healthy"),
        (changed(refusal="no key"), "degraded"),
        (changed(waiting=[waits("x", "Too many pods.", age=5)]), "healthy"),
        (changed(waiting=[waits("x", age=500)]), "healthy"),
        (changed(scheduler=attrs.evolve(WELL.scheduler, troubled=("Pod",))), "degraded"),
    ],
    ids=["no Lease", "dead", "unknown", "refused", "young", "untried", "watch"],
)
def test_health_is_that_of_the_rules(state, health):
    assert summarise(state, Scope()).health.state == health


def test_targets_of_the_scheduler_come_before_those_of_the_configuration():
    targets = {Workload("shop", "Deployment", "cart"): 0.0}
    state = attrs.evolve(SHORT, scheduler=attrs.evolve(WELL.scheduler, targets=targets))
    assert [share.workload for share in summarise(state, Scope()).below] == ["shop/pay"]


def test_what_was_not_read_is_said(capsys):
    state = changed(errors={"scheduler": "501 NotImplemented"})
    said = printed_as(summarise(state, Scope()), "text", capsys)
    assert "  scheduler not read: 501 NotImplemented\n" in said


def test_deferred_migrations_are_named_with_their_end(capsys):
    text = """
migration: {budget: {workloadPerHour: 1}}
services: {other/*: {freezes: {start: 2020-01-01T00:00:00Z, end: 2090-01-01T00:00:00Z}}}
"""
    pod = SHORT.snapshot.pods.values()
    (cart,) = {each.workload for each in pod if each.workload.name == "cart"}
    state = attrs.evolve(SHORT, configuration=load(text, "test"), begun=[(cart, NOW - 60)])
    overview = summarise(state, Scope())
    frozen, spent = sorted(overview.deferred, key=lambda why: "frozen" not in why)
    assert overview.deferred[frozen] == ["other/a"]
    assert overview.deferred[spent] == ["shop/cart"]
    assert spent.endswith("the budget of 1 per workload an hour is spent")
    shown = printed_as(overview, "text", capsys)
    assert "deferred until 2090-01-01 00:00 UTC: frozen (1 workload, such as other/a)" in shown
    listed = overview.as_json()["deferred"]
    assert {"reason": frozen, "workloads": ["other/a"]} in listed
    assert summarise(state, Scope(namespace="shop")).deferred.keys() == {spent}
