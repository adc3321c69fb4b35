"""What is qos_targets is told with the response times that made it."""

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.explain.explainer import Explainer
from kubedsm.explain.facts import QosTargetFacts, TierTimes
from kubedsm.explain.pod import explain_pod
from kubedsm.explain.rendering import render_text
from kubedsm.explain.workload import qos_targets
from kubedsm.model.measured import NOTHING_MEASURED, Answers, Measured, Usage
from kubedsm.model.model import Tier
from kubedsm.objective.load import LoadGoal
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from support.measured_loads import edge
from support.placement_instances import node, pod, resources, snapshot
from support.printed import printed

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
