"""Demand by site, and load: from which series they are read, and of which nodes and pods."""

import attrs
import pytest

from kubedsm.app.load_monitor import Known, combine_answers
from kubedsm.app.load_reading import DEMAND, LATENCY, queries_of, read_load
from kubedsm.app.prometheus import Failure, Sample
from kubedsm.config.load_aware import DEMAND_QUERIES
from kubedsm.config.settings import load
from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import Answers, Measured, Usage
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Tier, Workload
from support.placement_instances import node, pod, resources, snapshot
from support.site_instances import site_node

CART = Workload("shop", "Deployment", "cart")
TEXT = "loadAware: {prometheus: 'http://p:9090'}\nsite: {label: site, demand: %s}"


def cluster():
    nodes = [site_node("n1", "berlin"), site_node("n2", "munich"), node("c", Tier.CLOUD)]
    entrances = [
        attrs.evolve(pod("in-b", "ingress", resources(1), on="n1"), namespace="ingress"),
        attrs.evolve(pod("in-c", "ingress", resources(1), on="c"), namespace="ingress"),
    ]
    return snapshot(nodes, [pod("cart-1", "cart", resources(1), on="n1"), *entrances])


def demand(*series):
    vector = tuple(Sample(labels, value, 100.0) for value, labels in series)
    return read_load({DEMAND: vector}, cluster(), ("node",), 100.0, ("site",)).measured.demand[CART]


@pytest.mark.parametrize(
    "labels",
    [
        {"namespace": "shop", "workload": "cart", "site": "berlin"},
        {"namespace": "shop", "workload": "cart", "node": "n1"},
        {
            "exported_namespace": "shop",
            "exported_service": "cart",
            "namespace": "ingress",
            "pod": "in-b",
        },
        {
            "namespace": "shop",
            "service": "cart",
            "controller_namespace": "ingress",
            "controller_pod": "in-b",
        },
        {"service": "shop-cart-80@kubernetes", "namespace": "ingress", "pod": "in-b"},
        {"dst_namespace": "shop", "dst_deployment": "cart", "namespace": "ingress", "pod": "in-b"},
    ],
)
def test_workload_and_site_of_a_series(labels):
    assert demand((3.0, labels), (2.0, labels)) == {"berlin": 5.0}


@pytest.mark.parametrize(
    "labels",
    [
        {"namespace": "shop", "workload": "other", "site": "berlin"},
        {"namespace": "shop", "workload": "cart"},
        {"namespace": "shop", "workload": "cart", "node": "c"},
        {"service": "shop-cart-80@kubernetes", "namespace": "ingress", "pod": "in-c"},
    ],
)
def test_other_series_are_no_demand(labels):
    assert demand((3.0, labels)) == {}


def test_a_name_of_traefik_that_stands_for_two_workloads_is_no_demand():
    """A tenant with namespace shop-cart gets no requests of shop/cart-eu, and takes none."""
    names = {"shop": "cart-eu", "shop-cart": "eu"}
    workloads = [Workload(namespace, "Deployment", name) for namespace, name in names.items()]
    made = [(of, pod(of.name, "x", resources(1), on="n1")) for of in workloads]
    pods = [attrs.evolve(each, namespace=of.namespace, workload=of) for of, each in made]
    labels = {"service": "shop-cart-eu-80@kubernetes", "site": "berlin"}
    vectors = {DEMAND: (Sample(labels, 3.0, 100.0),)}
    seen = snapshot([site_node("n1", "berlin")], pods)
    found = read_load(vectors, seen, ("node",), 100.0, ("site",)).measured.demand
    assert found == {of: {} for of in workloads}


def test_names_stand_for_queries():
    for name, query in DEMAND_QUERIES.items():
        asked = queries_of(load(TEXT % name, "x"))[DEMAND]
        assert asked == query.replace("$window", "300000ms")
    assert DEMAND not in queries_of(load(TEXT % "''", "x"))
    assert queries_of(load(TEXT % "sum(mine)", "x"))[DEMAND] == "sum(mine)"


def after(mirror, at, requests, **more):
    sample = Measured(at, demand={CART: requests}, **more)
    mirror.apply(MeasuredApplied(sample))
    return mirror.snapshot().measured.demand.get(CART)


def test_small_changes_few_requests_and_missing_answers_keep_the_former_demand():
    mirror = ClusterMirror()
    assert after(mirror, 10.0, {"berlin": 0.1}) is None
    first = {"berlin": 6.0, "munich": 4.0}
    assert after(mirror, 20.0, first) == first
    assert after(mirror, 30.0, {"berlin": 13.0, "munich": 7.0}) is first
    assert after(mirror, 40.0, {}) is first
    assert after(mirror, 50.0, {"munich": 0.1}) is first
    mirror.apply(MeasuredApplied(Measured(60.0, demand_answered=False)))
    assert mirror.snapshot().measured.demand == {CART: first}
    mirror.apply(MeasuredApplied(Measured(demand_answered=False)))
    assert mirror.snapshot().measured.demand == {CART: first}
    second = {"berlin": 3.0, "munich": 7.0}
    assert after(mirror, 70.0, second) == second
    mirror.apply(MeasuredApplied(Measured(80.0)))
    assert mirror.snapshot().measured.demand == {}


def combined(name, answer, now, before=()):
    """Return the round of one query, of demand or latencies."""
    setting = {DEMAND: "demand", LATENCY: "latency"}[name]
    configuration = load(TEXT.replace("demand", setting) % "mine", "x")
    queries, load_aware = {name: queries_of(configuration)[name]}, configuration.load_aware
    assert queries == {name: "mine"}
    return combine_answers(
        load_aware, queries, dict(before), cluster(), lambda: now, {name: answer}, ("site",)
    )


def test_a_failed_query_is_no_answer():
    vector = (Sample({"namespace": "shop", "workload": "cart", "site": "berlin"}, 3.0, 1000.0),)
    known, failed = {DEMAND: Known("mine", vector, 1000.0)}, Failure("down")
    assert combined(DEMAND, vector, 1000.0).measured.demand[CART] == {"berlin": 3.0}
    assert combined(DEMAND, failed, 1030.0, known).measured.demand[CART] == {"berlin": 3.0}
    # Later, and after the clock was set back.
    for now in (1200.0, 200.0):
        assert not combined(DEMAND, failed, now, known).measured.demand_answered


def latencies(*series, at=1000.0):
    """Return the round of a query of latencies; without series, Prometheus did not answer."""
    answer = tuple(Sample(dict(zip(("source", "destination"), ends, strict=True)), value, at)
                   for *ends, value in series)  # fmt: skip
    return combined(LATENCY, answer if series else Failure("down"), at)


def test_ends_of_a_latency_are_sites_or_nodes_and_the_cloud():
    found = latencies(
        ("berlin", "munich", 0.02),
        ("n1", "n2", 0.04),
        ("n2", "c", 0.07),
        ("berlin", "cloud", 0.09),
        ("paris", "munich", 0.01),
        ("cloud", "berlin", 0.01),
    )
    assert found.wrong == {}
    assert found.measured.latency == {
        ("berlin", "munich"): pytest.approx(0.03),
        ("munich", ""): 0.07,
        ("berlin", ""): 0.09,
    }


def test_latencies_that_cannot_be_are_one_message_and_leave_the_others():
    found = latencies(
        ("berlin", "munich", 25.0),
        ("munich", "berlin", -1.0),
        ("n2", "n1", float("nan")),
        ("berlin", "cloud", 0.08),
    )
    assert found.measured.latency == {("berlin", ""): 0.08}
    assert found.wrong == {
        LATENCY: "not used: 1 above 10: latencies are in seconds, 1 negative, 1 not finite"
    }


def test_latencies_stay_without_answer_and_with_small_changes_until_no_longer_measured():
    mirror, pair, other = ClusterMirror(), ("berlin", "munich"), ("berlin", "")

    def after(measured):
        mirror.apply(MeasuredApplied(measured))
        return mirror.snapshot().measured.latency

    first = after(latencies((*pair, 0.02), ("berlin", "cloud", 0.08)).measured)
    assert first == {pair: 0.02, other: 0.08}
    assert after(latencies((*pair, 0.024), at=1030.0).measured) is first
    assert after(latencies(at=1060.0).measured) is first
    assert after(Measured(latency_answered=False)) is first
    assert after(latencies((*pair, 0.03), at=1090.0).measured) == {pair: 0.03, other: 0.08}
    assert after(Measured(1120.0)) == {}


NODES = [
    attrs.evolve(node("e1", Tier.EDGE, 4, 8), addresses=("10.0.0.1", "fd00::1", "edge-one")),
    node("c1", Tier.CLOUD, 4, 8),
    node("other", None, 4, 8),
]
PODS = [
    pod(name, name.partition("-")[0], resources(1), on=on)
    for name, on in {"web-0": "e1", "web-1": "e1", "web-2": "c1", "api-0": "other"}.items()
] + [pod("web-3", "web", resources(1))]
WEB, API = (Workload(PODS[0].namespace, PODS[0].workload.kind, name) for name in ("web", "api"))
THERE = snapshot(NODES, PODS)


def said(**queries):
    vectors = {
        name: tuple(Sample(labels, value, 0.0) for labels, value in series)
        for name, series in queries.items()
    }
    return read_load(vectors, THERE, ("node", "instance"), 60.0)


def of_pod(name, value, **more):
    return {"namespace": WEB.namespace, "pod": name, **more}, value


@pytest.mark.parametrize(
    "labels",
    [
        {"instance": name}
        for name in ("e1", "e1:9100", "10.0.0.1:9100", "10.0.0.1", "[fd00::1]:9100", "edge-one:1")
    ]
    + [{"node": "e1", "instance": "c1:9100"}],
)
def test_a_node_goes_by_its_name_or_an_address_with_a_port_or_without(labels):
    assert said(node_cpu=[(labels, 5.0)]).measured.nodes == {"e1": Usage(cpu=5.0)}


@pytest.mark.parametrize(
    "labels", [{}, {"instance": ""}, {"instance": ":9100"}, {"instance": "e2:1"}, {"node": "x"}]
)
def test_who_is_no_node_of_ours_is_passed_over(labels):
    reading = said(node_cpu=[(labels, 5.0), ({"node": "c1"}, 1.0)])
    assert set(reading.measured.nodes) == {"c1"}
    assert (reading.used["node_cpu"], reading.doubled["node_cpu"]) == (1, 0)


def test_a_node_of_two_series_is_left_out_by_whatever_names():
    e1, again, c1 = ({"node": name} for name in ("e1", "10.0.0.1:9", "c1"))
    reading = said(node_net=[(e1, 1.0), (again, 1.0), (c1, 2.0)])
    assert reading.measured.nodes == {"c1": Usage(net=2.0)}
    assert reading.doubled["node_net"] == 1


def test_a_workload_uses_what_its_pods_do_on_average_of_each_as_far_as_it_is_known():
    measured = said(
        pod_cpu=[of_pod("web-0", 100.0), of_pod("web-1", 200.0), of_pod("api-0", 7.0)],
        pod_memory=[of_pod("web-2", 50.0), of_pod("gone", 1.0), ({"pod": "web-1"}, 1.0)],
    ).measured
    assert measured.workloads == {WEB: Usage(cpu=150.0, memory=50.0), API: Usage(cpu=7.0)}
    assert measured.at == 60.0


def test_answers_are_summed_over_the_pods_of_a_tier_of_which_both_are_known():
    seconds = [of_pod("web-0", 1.0), of_pod("web-1", 3.0), of_pod("web-2", 5.0)]
    requests = [of_pod("web-0", 10.0), of_pod("web-1", 10.0), of_pod("api-0", 9.0)]
    requests += [of_pod("web-3", 9.0)]
    measured = said(answers_seconds=seconds, answers_requests=requests).measured
    assert measured.answers == {WEB: {Tier.EDGE: Answers(20.0, 0.2)}}


def test_answers_may_be_by_workload_and_tier():
    labels = {"namespace": WEB.namespace, "workload": "web"}
    tiers = [{**labels, "tier": tier} for tier in ("edge", "cloud", "fog")] + [labels]
    measured = said(
        answers_seconds=[(each, 1.0) for each in tiers],
        answers_requests=[(each, 4.0) for each in tiers],
    ).measured
    assert measured.answers == {WEB: dict.fromkeys(Tier, Answers(4.0, 0.25))}


@pytest.mark.parametrize(("spent", "rate"), [(0.0, 0.0), (1.0, 0.0), (1e18, 5e-324)])
def test_of_no_requests_there_is_no_mean(spent, rate):
    asked = {"answers_seconds": spent, "answers_requests": rate}
    reading = said(**{name: [of_pod("web-0", value)] for name, value in asked.items()})
    assert reading.measured.answers == {}
