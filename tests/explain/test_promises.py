"""What is told of QoS targets and demand by site, of volumes, and of images that are missing."""

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.explain.explainer import Explainer
from kubedsm.explain.explanation import plain_text
from kubedsm.explain.facts import PodFacts, QosTargetFacts, TierTimes
from kubedsm.explain.migration import describe_pull, with_mobility
from kubedsm.explain.pod import explain_pod
from kubedsm.explain.rendering import render_text
from kubedsm.explain.workload import WorkloadExplainer, qos_targets
from kubedsm.model.images import MOST_LISTED, names_of
from kubedsm.model.measured import NOTHING_MEASURED, Answers, Measured, Usage
from kubedsm.model.model import ClaimReference, SchedulingRules, Tier, Workload
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.model.surroundings import Claim, Volume
from kubedsm.objective.load import LoadGoal
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from support.measured_loads import edge
from support.placement_instances import node, pod, resources, snapshot
from support.printed import printed
from support.rule_instances import HOST, knowing
from support.site_instances import pods_of, site_node

WEB, API = (pod(name, name, resources(1), on="e") for name in ("web", "api"))
THERE = snapshot([node("e", Tier.EDGE, 4, 8)], [WEB, API])
QUERIES = "latency: {queries: {seconds: s, requests: r}}\n"
TARGET = f"services: {{{WEB.namespace}/web: {{latencyTarget: 60ms, weight: 2}}}}"


def told(text, **measured):
    answers = {WEB.workload: {Tier(tier): Answers(1.0, s) for tier, s in measured.items()}}
    sample = Measured(1.0, answers=answers).after(NOTHING_MEASURED, {})
    return qos_targets(attrs.evolve(THERE, measured=sample), load(text, "test").policy)


def test_a_target_is_told_with_the_times_that_are_believed():
    api, web = told(QUERIES + TARGET, edge=0.05)
    assert api == QosTargetFacts(str(API.workload), 1.0, 1.0)
    assert web.qos == pytest.approx(2 / 3)
    assert attrs_of(web) == (2.0, TierTimes(0.05), 0.06, TierTimes(0.05, 0.08))
    _, web = told(QUERIES + TARGET, edge=0.09)
    assert web.qos == pytest.approx(1 / 3)
    assert attrs_of(web) == (2.0, TierTimes(0.09), 0.06, TierTimes(0.02, 0.08))
    _, web = told(TARGET)
    assert attrs_of(web) == (2.0, TierTimes(), None, TierTimes())


def attrs_of(said):
    return said.weight, said.measured, said.latency_target, said.taken


POLICY = KubeDSM(lambda _: QosTarget(), Objective(), load=LoadGoal())
GIB = 2**30


def measured(new, policy=POLICY):
    """It uses half of a core, and is where it is since the sample, if anywhere."""
    nodes = {"e1": Usage(500.0, GIB), "e2": Usage(1500.0, 0.0), "e3": Usage(cpu=1.0)}
    shot = snapshot([edge(f"e{n}") for n in (1, 2, 3)], [new])
    shot = attrs.evolve(shot, measured=Measured(60.0, nodes, {new.workload: Usage(500.0, 0.0)}))
    return Explainer(shot, policy)


def test_each_node_that_is_known_has_its_score():
    """.25 .25 and .5 0; of e3 one resource alone is known."""
    new = pod("a", "a", resources(1))
    found = measured(new).explain(new)
    assert {n.node: n.load for n in found.nodes} == {"e1": 100.0, "e2": 75.0, "e3": None}
    assert found.chosen == "e1"
    assert "load score 75" in printed(render_text(explain_pod(found)))
    blind = measured(new, attrs.evolve(POLICY, load=None)).explain(new)
    assert {n.load for n in blind.nodes} == {None}


@pytest.mark.parametrize("normalise", [False, True])
def test_a_pod_that_is_on_a_node_counts_there_once(normalise):
    on = pod("a", "a", resources(1), on="e2")
    policy = attrs.evolve(POLICY, load=LoadGoal(normalise=normalise))
    explainer = measured(on, policy)
    assert explainer.load_score(on.uid) == 75.0
    assert {n.node: n.load for n in explainer.explain(on).nodes}["e1"] == 100.0


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

    assert sources(shot, TEXT) == ["Its demand by site is set by the entry shop/cart of services."]
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


NODES = [node(name, Tier.EDGE, labels={HOST: name}) for name in ("e1", "e2")]
HERE = (NodeSelectorTerm((Requirement(HOST, "In", ("e1",)),)),)
MOUNTS = SchedulingRules(claims=(ClaimReference("shop", "data"),))
FIRST = "If it is migrated, its replacement starts first: several nodes can mount its claims."
GONE = "If it is migrated, the old pod is gone before its replacement starts: "
ONE_NODE = "its volume claim shop/data can be mounted on one node at a time."


def describe(
    *,
    kind="Deployment",
    mode="ReadWriteOnce",
    nodes=None,
    bound=True,
    mounted=MOUNTS,
    config="",
    **more,
):
    mounting = pod("a", "db", resources(1, 1), rules=mounted, on="e1")
    mounting = attrs.evolve(mounting, workload=Workload("shop", kind, "db"), **more)
    shot = snapshot(NODES, [mounting])
    data = Claim("shop", "data", volume="v", bound=bound, access_modes=(mode,))
    shot = attrs.evolve(shot, surroundings=knowing(data, Volume("v", nodes)))
    facts = PodFacts("shop/a", (), chosen="e1", bound=True, state="placed")
    return with_mobility(facts, mounting, shot, load(config, "test"))


@pytest.mark.parametrize(
    ("pod_of", "expected"),
    [
        ({"nodes": HERE}, "It is not migrated: its volume v is reachable only from its node."),
        ({}, f"It is not migrated: {ONE_NODE}"),
        ({"kind": "StatefulSet"}, f"{GONE}{ONE_NODE}"),
        ({"config": "migration: {mode: recreate}"}, f"{GONE}{ONE_NODE}"),
        ({"mode": "ReadWriteMany"}, FIRST),
        (
            {"mode": "ReadWriteMany", "kind": "StatefulSet"},
            f"{GONE}a StatefulSet never has two pods of the same name.",
        ),
        (
            {"mode": "ReadWriteMany", "config": "migration: {mode: recreate}"},
            f"{GONE}migrations of shop/db recreate pods.",
        ),
        ({"config": "migration: {mode: off}"}, "It is not migrated: its migration mode is off."),
        (
            {"mounted": SchedulingRules(), "pinned": "it has a local volume"},
            "It is not migrated: it has a local volume.",
        ),
    ],
)
def test_an_explanation_says_how_a_pod_with_volumes_is_migrated(pod_of, expected):
    facts = describe(**pod_of)
    assert facts.migration == expected
    assert (expected,) in explain_pod(facts).lines


def test_a_pod_without_volumes_or_before_they_are_bound_has_no_such_line():
    assert describe(mounted=SchedulingRules()).migration is None
    assert describe(bound=False).migration is None


IMAGE = "registry.local:5000/web:2"


def explained(on_source, on_target, image=IMAGE, speeds=()):
    """Return the lines about images of a proposed migration from c1 to e1."""
    nodes = [
        attrs.evolve(node("c1", Tier.CLOUD), images=on_source),
        attrs.evolve(node("e1", Tier.EDGE), images=on_target),
    ]
    web = attrs.evolve(pod("web-0", "web", resources(1, 1), on="c1"), images=(image,))
    shot = attrs.evolve(snapshot(nodes, [web]), pull_speeds=dict(speeds))
    lines = describe_pull(web, "e1", shot)
    return ["".join(getattr(word, "text", word) for word in line) for line in lines]


@pytest.mark.parametrize(
    ("speeds", "about"), [((), "about 38 s"), ((("e1", 2_300_000.0),), "about 100 s")]
)
def test_an_image_that_the_target_lacks(speeds, about):
    found = explained({IMAGE: 230_000_000}, {"other:1": 5}, speeds=speeds)
    assert found == [f"Image {IMAGE} is missing on e1: 230 MB, {about}."]


MANY = {f"image-{number}:1": 5 for number in range(MOST_LISTED)}


@pytest.mark.parametrize(
    ("on_source", "on_target"),
    [
        ({IMAGE: 230_000_000}, {IMAGE: 230_000_000}),
        ({IMAGE: 230_000_000}, {}),
        ({IMAGE: 230_000_000}, MANY),
        ({"other:1": 5}, {"other:1": 5}),
    ],
    ids=["is there", "target reports none", "target reports as many as it lists", "size unknown"],
)
def test_nothing_is_said_of_images_that_are_there_or_unknown(on_source, on_target):
    assert explained(on_source, on_target) == []


@pytest.mark.parametrize(
    ("image", "also"),
    [
        ("nginx:1", "docker.io/library/nginx:1"),
        ("rancher/pause:3", "docker.io/rancher/pause:3"),
        ("ghcr.io/team/web:1", None),
        ("localhost/web:1", None),
        ("registry:5000/web:1", None),
    ],
)
def test_names_under_which_a_container_runtime_reports_an_image(image, also):
    assert names_of(image) == ((image,) if also is None else (image, also))
    if also:
        assert explained({also: 230_000_000}, {also: 230_000_000, "other:1": 5}, image) == []
        assert len(explained({also: 230_000_000}, {"other:1": 5}, image)) == 1
