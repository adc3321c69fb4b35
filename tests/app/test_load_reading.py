"""Series are about nodes and pods of the cluster, whatever they call them."""

import attrs
import pytest

from kubedsm.app.load_reading import read_load
from kubedsm.app.prometheus import Sample
from kubedsm.model.measured import Answers, Usage
from kubedsm.model.model import Tier, Workload
from support.placement_instances import node, pod, resources, snapshot

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
