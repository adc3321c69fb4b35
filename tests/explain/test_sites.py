"""The explanation of a workload with demand by site."""

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.explain.explanation import plain_text
from kubedsm.explain.workload import WorkloadExplainer
from kubedsm.model.measured import Measured
from kubedsm.model.model import Tier, Workload
from support.placement_instances import node, pod, resources, snapshot
from support.site_instances import pods_of, site_node

TEXT = """
site: {label: site}
services: {shop/cart: {demand: {berlin: 3, munich: 1}}}
"""


@pytest.fixture
def shot():
    nodes = [site_node(f"n-{site}", site) for site in ("berlin", "munich")]
    pods = [*pods_of("cart", 2, on="n-berlin"), *pods_of("cart", 2, on="n-munich")]
    return snapshot([*nodes, node("c", Tier.CLOUD)], [*pods, pod("x", "other", resources(1))])


def test_lists_demand_target_and_pods_by_site(shot):
    cart = Workload("shop", "Deployment", "cart")
    explained = WorkloadExplainer(shot, load(TEXT, "test"), cart).explain()
    said = [plain_text(line) for line in explained.lines]
    # Two of the three requests of four that berlin sends; munich serves the third at half benefit.
    assert "87.5% of its requests are served near users; target 100%." in said
    assert "berlin lacks 1; munich serve it." in said
    assert [(s.site, s.wanted, s.replicas) for s in explained.facts.sites] == [
        ("berlin", 3, 2),
        ("munich", 1, 2),
    ]
    [section] = [each for each in explained.sections if each.title == "Replicas by site"]
    assert [[plain_text(cell) for cell in row] for row in section.table.rows] == [
        ["berlin", "75%", "3", "2"],
        ["munich", "25%", "1", "2"],
    ]


def test_names_the_source_of_the_demand(shot):
    def sources(shot, text):
        cart = Workload("shop", "Deployment", "cart")
        explained = WorkloadExplainer(shot, load(text, "test"), cart).explain()
        return [line for line in map(plain_text, explained.lines) if "demand by site" in line]

    assert sources(shot, TEXT) == ["Its demand by site is set by services, shop/cart: demand."]
    cart = next(pod.workload for pod in shot.pods.values() if pod.workload.name == "cart")
    measured = attrs.evolve(shot, measured=Measured(1.0, demand={cart: {"berlin": 1.0}}))
    plain = "site: {label: site}"
    assert sources(measured, plain) == [
        "Its demand by site is measured by Prometheus: site.demand."
    ]
    assert sources(shot, plain) == []


RESILIENT = """
site: {label: site}
services: {"*": {resilience: {site: 0.5}}}
"""


def test_names_the_site_whose_loss_is_worst(shot):
    cart = Workload("shop", "Deployment", "cart")
    explained = WorkloadExplainer(shot, load(RESILIENT, "test"), cart).explain()
    said = [plain_text(line) for line in explained.lines]
    assert (
        "The loss of any one site leaves at least 2 pods of shop/cart at the edge (worst: site"
        " berlin, with 2); resilience asks for 2." in said
    )
    facts = explained.facts.resilience
    assert (facts.site, facts.lost, facts.left, facts.needed) == ("berlin", 2, 2, 2)
    assert explained.facts.near is None
    assert explained.facts.sites == ()
