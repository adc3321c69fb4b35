"""What is qos_targets is told with the response times that made it."""

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.explain.facts import QosTargetFacts, TierTimes
from kubedsm.explain.workload import qos_targets
from kubedsm.model.measured import NOTHING_MEASURED, Answers, Measured
from kubedsm.model.model import Tier
from support.placement_instances import node, pod, resources, snapshot

WEB, API = (pod(name, name, resources(1), on="e") for name in ("web", "api"))
THERE = snapshot([node("e", Tier.EDGE, 4, 8)], [WEB, API])
QUERIES = "latency: {queries: {seconds: s, requests: r}}\n"
TARGET = f"services: {{{WEB.namespace}/web: {{latencyTarget: 60ms, weight: 2}}}}"


def told(text, **measured):
    answers = {WEB.workload: {Tier(tier): Answers(1.0, s) for tier, s in measured.items()}}
    sample = Measured(1.0, answers=answers).after(NOTHING_MEASURED, {})
    return qos_targets(attrs.evolve(THERE, measured=sample), load(text, "test").policy)


def test_of_a_target_the_times_that_are_believed():
    api, web = told(QUERIES + TARGET, edge=0.05)
    assert api == QosTargetFacts(str(API.workload), 1.0, 1.0)
    assert web.qos == pytest.approx(2 / 3)
    assert attrs_of(web) == (2.0, TierTimes(0.05), 0.06, TierTimes(0.05, 0.08))


def test_measured_and_not_believed():
    _, web = told(QUERIES + TARGET, edge=0.09)
    assert web.qos == pytest.approx(1 / 3)
    assert attrs_of(web) == (2.0, TierTimes(0.09), 0.06, TierTimes(0.02, 0.08))


def test_without_queries_there_is_only_the_promise():
    _, web = told(TARGET)
    assert attrs_of(web) == (2.0, TierTimes(), None, TierTimes())


def attrs_of(said):
    return said.weight, said.measured, said.latency_target, said.taken
