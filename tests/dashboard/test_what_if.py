"""What if: what is asked is checked, and worked out on a copy, by the worker's own question."""

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.dashboard.server.what_if import (
    MOST_WORKLOADS,
    BadRequestError,
    Changes,
    explain_what_if,
    parse_what_if,
)
from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Tier
from kubedsm.objective.lasting import Quiet
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
WORKLOADS = {str(WEB.workload): WEB.workload}


def known_cluster():
    mirror = ClusterMirror(CONFIGURATION.scheduler_name, CONFIGURATION.tiers)
    for name, tier, cpu in (("e1", Tier.EDGE, 2), ("c1", Tier.CLOUD, 9)):
        labels = {"nodetype": tier.value}
        mirror.apply(NodeApplied(node(name, tier, cpu, labels=labels)))
    for each in (running("log-1", "log", "e1"), running("log-2", "log", "e1"), WEB):
        mirror.apply(PodApplied(each))
    policy = CONFIGURATION.policy
    return PlanningContext(mirror, (), lambda: CONFIGURATION, lambda: policy, FixedClock())


def asked(qos=(), replicas=(), known=None, lost=()):
    """As a planner process is asked: the answer is sent."""
    more = {"qos": qos, "replicas": replicas, "lost": frozenset(lost)}
    question = WhatIfRequest(frozenset(), frozenset(), Quiet(), 2.0, **more)
    known = known or known_cluster()
    answer = question.solve(known)
    return load_response(dump_response(answer), known.mirror.snapshot().pods.__getitem__)


def test_a_greater_promise_is_kept_by_moves_and_pods_that_are_added_are_placed_or_wait():
    known = known_cluster()
    before = known.mirror.snapshot()
    found = asked(qos=(("shop/web", 1.0),), known=known)
    assert [(m.workload.name, m.source, m.target, m.purpose) for m in found.moves] == [
        ("web", "c1", "e1", "1 of 1 pod missing at the edge"),
        ("log", "e1", "c1", "to free edge capacity for web, 1 of 1 pod missing at the edge"),
    ]
    [now, then, qos_target, wanted] = found.shares[WEB.workload]
    assert ((now.edge, now.total), (then.edge, then.total)) == ((0, 1), (1, 1))
    assert (qos_target, wanted) == (1.0, 1)
    assert known.mirror.snapshot() == before
    found = asked(replicas=((WEB.workload, 10),))
    nodes = [placed.node for placed in found.placed]
    assert (nodes.count("c1"), nodes.count("")) == (8, 2)
    assert all("Insufficient cpu" in each.message for each in found.placed if not each.node)
    assert found.shares[WEB.workload].then.total == 11


def test_without_a_site_its_pods_are_scheduled_again_elsewhere():
    known = known_cluster()
    for name, site in (("e1", "north"), ("e2", "south")):
        labels = {"nodetype": "edge", "kubedsm.io/site": site}
        known.mirror.apply(NodeApplied(node(name, Tier.EDGE, 2, labels=labels)))
    log = running("log-1", "log", "e1").workload
    imagined = asked(known=known, lost=["north"])
    assert {(each.pod, each.node) for each in imagined.placed} == {
        ("shop/log-1", "e2"),
        ("shop/log-2", "e2"),
    }
    assert imagined.shares[log].then.total == 2
    changes = parse_what_if([], [], WORKLOADS, ["north"], {"north", "south"})
    explained = explain_what_if(imagined, changes, CONFIGURATION)
    assert lines_of(explained)[0] == "Without north, 2 pods would be scheduled again."
    with pytest.raises(BadRequestError, match="no edge node is at a site west"):
        parse_what_if([], [], WORKLOADS, ["west"], {"north", "south"})


def test_it_is_told_with_the_lines_to_paste():
    say = parse_what_if(["shop/web:1"], ["shop/web: 2"], WORKLOADS)
    answer = explain_what_if(asked(*say), say, CONFIGURATION)
    assert lines_of(answer) == [
        "4 pods would be migrated; then 1 pod would be missing at the edge."
    ]
    assert "shop/web | 0 of 1 | 2 of 3 | 3 (100%)" in section(answer, "Edge shares")
    assert section(answer, "Pods that would be scheduled") == ["shop/web | 2 | c1"]
    assert answer.sections[-1].code == "services:\n  shop/web:\n    qos: 1.0\n    weight: 2.0\n"
    say = parse_what_if([], ["shop/web: 10"], WORKLOADS)
    full = explain_what_if(asked(*say), say, CONFIGURATION)
    assert lines_of(full)[1] == "2 pods would wait: no node is feasible."
    nothing = explain_what_if(asked(), Changes((), ()), CONFIGURATION)
    assert nothing.sections[0].title == "Edge shares"
    assert not any(part.code for part in nothing.sections)


@pytest.mark.parametrize(
    ("qos", "replicas", "why"),
    [
        (["web"], [], "qos: web is not namespace/name:number"),
        (["shop/web:"], [], "qos: shop/web: nothing is not between 0 and 1"),
        (["shop/web:nan"], [], "qos: shop/web: nan is not between 0 and 1"),
        (["shop/web:-0.1"], [], "qos: shop/web: -0.1 is not between 0 and 1"),
        (["shop/x:1"], [], "qos: no opted-in workload is called shop/x"),
        (["shop/web:1", "shop/web:0"], [], "qos: shop/web is given twice"),
        (["a:1"] * (MOST_WORKLOADS + 1), [], f"qos: more than {MOST_WORKLOADS} workloads"),
        ([], ["shop/web:-1"], "replicas: shop/web: -1 is not between +0 and +100"),
        ([], ["shop/web:101"], "replicas: shop/web: 101 is not between +0 and +100"),
        ([], ["shop/web:1.5"], "replicas: shop/web: 1.5 is not between +0 and +100"),
        ([], ["shop/web:9\n9"], "replicas: shop/web: 9 9 is not between +0 and +100"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(qos, replicas, why):
    with pytest.raises(BadRequestError) as error:
        parse_what_if(qos, replicas, WORKLOADS)
    assert str(error.value) == why
    say = parse_what_if(["shop/web:0.80"], ["shop/web:+2"], WORKLOADS)
    assert say == Changes((("shop/web", 0.8),), ((WEB.workload, 2),))
    six = {f"shop/w{n}": WEB.workload._replace(name=f"w{n}") for n in range(6)}
    parse_what_if([], [f"{name}:100" for name in list(six)[:5]], six)
    with pytest.raises(BadRequestError, match=r"^replicas: more than 500 in all$"):
        parse_what_if([], [f"{name}:100" for name in six], six)
    assert parse_what_if(["shop/web:1e-1"], ["shop/web: 0"], WORKLOADS).qos == (("shop/web", 0.1),)
