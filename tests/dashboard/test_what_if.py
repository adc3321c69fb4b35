"""What if: what is asked is checked, worked out on a copy, and told with what budgets block."""

from urllib.parse import parse_qsl

import attrs
import pytest
from msgspec.structs import replace

from kubedsm.config.settings import load
from kubedsm.dashboard.server.changes import CHANGES, MOST_CHANGES, BadRequestError, parse_what_if
from kubedsm.dashboard.server.drain_budgets import DrainBudgets
from kubedsm.dashboard.server.what_if import explain_what_if
from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Resources, Tier
from kubedsm.model.selecting import Budget
from kubedsm.objective.lasting import Quiet
from kubedsm.planner.hypothesis import Hypothesis
from kubedsm.planner.requests import PlanningContext
from kubedsm.planner.what_if import WhatIfRequest
from kubedsm.planner.worker import dump_response, load_response
from support.asked import lines_of, section
from support.fixed_clock import FixedClock
from support.placement_instances import node, pod, resources

#: the edge is full of pods of which nothing is promised
CONFIGURATION = load(
    "services: {'*': {qos: 0}, shop/web: {latencyTarget: 60ms, weight: 2}}\nmigration: {price: 0s}",
    "test",
)


def running(name, workload, on):
    made = pod(name, workload, resources(1), on=on)
    return attrs.evolve(made, phase="Running", ready=True)


WEB = running("web-1", "web", "c1")
LOGS_AND_WEB = (running("log-1", "log", "e1"), running("log-2", "log", "e1"), WEB)


def known_cluster(configuration=CONFIGURATION, pods=LOGS_AND_WEB, *, edge=2, cloud=9):
    """Return a cluster with a node of so many cores in each tier."""
    mirror = ClusterMirror(configuration.scheduler_name, configuration.tiers)
    for name, tier, cpu in (("e1", Tier.EDGE, edge), ("c1", Tier.CLOUD, cloud)):
        labels = {"nodetype": tier.value, "topology.kubernetes.io/zone": f"zone-{name}"}
        mirror.apply(NodeApplied(node(name, tier, cpu, labels=labels)))
    for each in pods:
        mirror.apply(PodApplied(each))
    policy = configuration.policy
    return PlanningContext(mirror, (), lambda: configuration, lambda: policy, FixedClock())


def said(query, known=None):
    """Parse a query such as `drain=e1&qos=shop/web:1`."""
    snapshot = (known or known_cluster()).mirror.snapshot()
    return parse_what_if(parse_qsl(query, keep_blank_values=True), snapshot, CONFIGURATION)


def asked(query="", known=None):
    """As a planner process is asked: the answer is sent."""
    known = known or known_cluster()
    hypothesis = said(query, known)
    question = WhatIfRequest(frozenset(), frozenset(), Quiet(), 2.0, hypothesis=hypothesis)
    answer = question.solve(known)
    return load_response(dump_response(answer), known.mirror.snapshot().pods.__getitem__)


def explained(query, known=None):
    known = known or known_cluster()
    snapshot = known.mirror.snapshot()
    return explain_what_if(asked(query, known), said(query, known), snapshot, CONFIGURATION)


def test_a_greater_promise_is_kept_by_moves_and_pods_that_are_added_are_placed_or_wait():
    known = known_cluster()
    before = known.mirror.snapshot()
    found = asked("qos=shop/web:1", known)
    assert [(m.workload.name, m.source, m.target, m.purpose) for m in found.moves] == [
        ("web", "c1", "e1", "1 of 1 pod missing at the edge"),
        ("log", "e1", "c1", "to free edge capacity for web, 1 of 1 pod missing at the edge"),
    ]
    share = found.shares[WEB.workload]
    assert ((share.now.edge, share.now.total), (share.then.edge, share.then.total)) == (
        (0, 1),
        (1, 1),
    )
    assert (share.qos_target, share.wanted, share.missing) == (1.0, 1, 0)
    assert known.mirror.snapshot() == before
    found = asked("replicas=shop/web:10")
    nodes = [placed.node for placed in found.placed]
    assert (nodes.count("c1"), nodes.count("")) == (8, 2)
    assert all("Insufficient cpu" in each.message for each in found.placed if not each.node)
    assert found.shares[WEB.workload].then.total == 11


def placed(found):
    return [(each.pod, each.source, each.node) for each in found.placed]


def test_pods_of_drained_and_lost_nodes_start_elsewhere_or_wait():
    to_cloud = [("shop/log-1", "e1", "c1"), ("shop/log-2", "e1", "c1")]
    for query in ("drain=e1", "lose=e1", "lose-site=zone-e1"):
        found = asked(query)
        assert placed(found) == to_cloud
        # Nothing is migrated to an edge that is not there, or takes no pods.
        assert found.moves == ()
    # Nothing takes the pods: all of them wait, and no share is left.
    assert placed(asked("lose=e1&lose=c1")) == [
        ("shop/log-1", "e1", ""),
        ("shop/log-2", "e1", ""),
        ("shop/web-1", "c1", ""),
    ]
    # A cordoned node keeps its pods.
    found = asked("cordon=e1&qos=shop/web:1")
    assert (placed(found), found.moves) == ([], ())


def test_without_a_site_its_pods_are_scheduled_again_at_another():
    known = known_cluster()
    for name, site in (("e1", "north"), ("e2", "south")):
        labels = {"nodetype": "edge", "kubedsm.io/site": site}
        known.mirror.apply(NodeApplied(node(name, Tier.EDGE, 2, labels=labels)))
    imagined = asked("lose-site=north", known)
    assert placed(imagined) == [("shop/log-1", "e1", "e2"), ("shop/log-2", "e1", "e2")]
    answer = explained("lose-site=north", known)
    assert lines_of(answer)[0].startswith("2 pods would start again, and ")
    with pytest.raises(BadRequestError, match="no edge site is called west"):
        said("lose-site=west", known)


def test_of_a_drained_node_daemons_stay_and_pods_without_a_controller_are_gone():
    known = known_cluster()
    for kind in ("DaemonSet", "Pod"):
        made = running(f"{kind.lower()}-1", "x", "c1")
        owner = made.workload._replace(kind=kind)
        known.mirror.apply(PodApplied(attrs.evolve(made, workload=owner)))
    found = asked("drain=c1&add=c1:1", known)
    assert found.gone == ("shop/pod-1",)
    assert placed(found) == [("shop/web-1", "c1", "c1-added-1")]
    assert asked("lose=c1&add=e1:1", known).gone == ("shop/pod-1",)


def test_nodes_are_added_pods_removed_and_other_requests_restart_the_pods():
    found = asked("add=e1:1&qos=shop/web:1")
    moved = {(str(each.workload), each.target) for each in found.moves}
    assert ("shop/web", "e1-added-1") in moved
    found = asked("replicas=shop/log:-1")
    assert {str(w): each.then.total for w, each in found.shares.items()} == {
        "shop/log": 1,
        "shop/web": 1,
    }
    known = known_cluster()
    snapshot = said("requests=shop/log:cpu=2,memory=1Gi", known).apply(known.mirror.snapshot())
    changed = [pod for pod in snapshot.pods.values() if pod.workload.name == "log"]
    assert [pod.requests for pod in changed] == [replace(resources(2), memory=2**30)] * 2
    assert snapshot.free["e1"] == Resources(2000, snapshot.nodes["e1"].allocatable.memory, 110)
    found = asked("requests=shop/log:cpu=20")
    assert [node for _, _, node in placed(found)] == ["", ""]


def test_it_is_told_with_the_lines_to_paste():
    answer = explained("qos=shop/web:1&replicas=shop/web:2")
    assert lines_of(answer) == [
        "4 pods would be migrated; then 1 pod would be missing at the edge (now, 1).",
        "Certificate: proven; no other migrations within the limits would be better.",
    ]
    shares = section(answer, "Edge shares and response times")
    assert "shop/web | 0 of 1 | 2 of 3 | 3 (100%) | 80 ms | 40 ms" in shares
    assert section(answer, "Pods that would be scheduled") == ["shop/web | 2 |  | c1"]
    assert answer.sections[-1].code == "services:\n  shop/web:\n    qos: 1.0\n    weight: 2.0\n"
    full = explained("replicas=shop/web:10")
    assert "2 pods would wait: no node is feasible." in lines_of(full)
    answer = explained("latency=shop/web:20ms")
    assert "latencyTarget: 20ms" in answer.sections[-1].code
    nothing = explained("")
    assert nothing.sections[0].title == "Edge shares and response times"
    assert not any(part.code for part in nothing.sections)


MANY = "&".join(["qos=a:1"] * (MOST_CHANGES + 1))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("qos=web", "qos: web is not namespace/name:value"),
        ("qos=shop/web:", "qos: shop/web: nothing is not between 0 and 1"),
        ("qos=shop/web:nan", "qos: shop/web: nan is not between 0 and 1"),
        ("qos=shop/web:-0.1", "qos: shop/web: -0.1 is not between 0 and 1"),
        ("qos=shop/x:1", "qos: no opted-in workload is called shop/x"),
        ("qos=shop/web:1&qos=shop/web:0", "qos: shop/web is given twice"),
        (MANY, f"qos: more than {MOST_CHANGES} are given"),
        ("replicas=shop/web:-101", "replicas: shop/web: -101 is not between -100 and +100"),
        ("replicas=shop/web:101", "replicas: shop/web: 101 is not between -100 and +100"),
        ("replicas=shop/web:1.5", "replicas: shop/web: 1.5 is not between -100 and +100"),
        ("replicas=shop/web:9%0A9", "replicas: shop/web: 9 9 is not between -100 and +100"),
        ("drain=e9", "drain: no node is called e9"),
        ("lose-site=", "lose-site: no edge site is called nothing"),
        ("lose-site=zone-c1", "lose-site: no edge site is called zone-c1"),
        ("add=e1", "add: e1 is not node:value"),
        ("add=e1:0", "add: e1: 0 is not between 1 and 100"),
        ("latency=shop/web:2m", "latency: shop/web: 2m is above 1m"),
        (
            "latency=shop/web:x",
            "latency: shop/web: 'x' is not a duration, such as 500ms, 10s or 1m30s",
        ),
        ("latency=shop/web:9ms&qos=shop/web:1", "latency: shop/web has a qos, too; give only one"),
        (
            "requests=shop/web:gpu=1",
            "requests: shop/web: gpu=1 is not cpu=500m or memory=1Gi, each once",
        ),
        ("size=3", f"size: unknown; changes are {', '.join(CHANGES)}"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(query, why):
    with pytest.raises(BadRequestError) as error:
        said(query)
    assert str(error.value) == why


def test_what_is_asked_is_understood():
    assert said("qos=shop/web:0.80&replicas=shop/web:+2") == Hypothesis(
        qos=(("shop/web", 0.8),), replicas=((WEB.workload, 2),)
    )
    assert said("qos=shop/web:1e-1&replicas=shop/web: 0").qos == (("shop/web", 0.1),)
    with pytest.raises(BadRequestError, match="requests: shop/web: cpu: "):
        said("requests=shop/web:cpu=-1")
    known = known_cluster()
    for number in range(6):
        known.mirror.apply(PodApplied(running(f"w{number}-1", f"w{number}", "c1")))
    many = [f"replicas=shop/w{number}:-100" for number in range(6)]
    assert len(said("&".join(many[:5]), known).replicas) == 5
    with pytest.raises(BadRequestError, match=r"^replicas: more than 500 in all$"):
        said("&".join(many), known)


NO_TARGETS = load("services: {'*': {qos: 0}}", "test")
ALL = ()


def answer(*budgets, cloud=9, drained="e1", unread=""):
    """Answer what a drain would do to three pods on e1, with a cloud of so many cores."""
    pods = [running(f"web-{number}", "web", "e1") for number in range(3)]
    known = known_cluster(NO_TARGETS, pods, edge=3, cloud=cloud)
    snapshot = known.mirror.snapshot()
    there, hypothesis = DrainBudgets(budgets, unread), Hypothesis(drained=frozenset({drained}))
    hypothesis = attrs.evolve(hypothesis, kept=there.list_kept(hypothesis, snapshot))
    found = WhatIfRequest(frozenset(), frozenset(), Quiet(), 2.0, hypothesis=hypothesis)
    response = found.solve(known)
    explained = explain_what_if(response, hypothesis, snapshot, NO_TARGETS, there)
    return len(response.placed), lines_of(explained), section(explained, "PodDisruptionBudgets")


def budget(allowed, desired, expected=3, name="web", namespace="shop", selector=ALL):
    return Budget(namespace, name, selector, desired, expected, allowed)


def test_a_drain_goes_in_rounds_of_as_many_evictions_as_the_budget_allows():
    restarted, lines, rows = answer(budget(2, 1))
    assert restarted == 3
    assert rows == ["shop/web | shop/web | 3 | 2 | 2 rounds, as replacements are Ready"]
    assert not [line for line in lines if "Budget" in line]
    assert answer(budget(3, 0))[2] == ["shop/web | shop/web | 3 | 3 | at once"]
    assert answer(budget(9, 0))[2] == ["shop/web | shop/web | 3 | 3 | at once"]


@pytest.mark.parametrize(
    ("budgets", "cloud", "restarted", "effect"),
    [
        ([budget(0, 3)], 9, 0, "no eviction is ever allowed, 3 of 3 pods must be healthy"),
        ([budget(0, 2)], 9, 3, "no eviction is allowed now: 2 of 3 pods must be healthy"),
        (
            [budget(1, 2)], 2, 3,
            "it ends after 1 eviction, because no node is feasible for 1 replacement",
        ),
        (
            [budget(1, 2), budget(1, 2, name="other")], 9, 0,
            "pods with two budgets cannot be evicted: shop/web-0, shop/web-1, shop/web-2",
        ),
    ],
)  # fmt: skip
def test_the_answer_names_the_budget_and_the_workload_that_block(budgets, cloud, restarted, effect):
    placed, lines, rows = answer(*budgets, cloud=cloud)
    assert placed == restarted
    blocks = f"PodDisruptionBudget shop/web blocks the drain: {effect}; it covers shop/web."
    assert lines[1] == blocks
    assert effect in rows[0]


def test_budgets_that_cover_no_drained_pod_are_left_out():
    others = budget(0, 3, namespace="other"), budget(0, 3, selector=None)
    assert answer(*others) == answer()
    assert answer(budget(0, 3), drained="c1") == answer(drained="c1")
    assert answer(unread="it may not list them")[1][1] == (
        "PodDisruptionBudgets are not considered: it may not list them."
    )
