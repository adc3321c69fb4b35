"""Incidents in the world of a chaos run: they happen, end, and leave nothing behind."""

import pytest

from kubedsm_lab.chaos import stage
from kubedsm_lab.chaos.faults import Fault
from kubedsm_lab.chaos.incidents import INCIDENTS, STEPS, list_incidents
from kubedsm_lab.chaos.sweep import reference
from kubedsm_lab.chaos.trace import Injection, play

MINUTE = "/minute"


def played(workload, fault):
    return play(Injection(workload, (Fault.parse(fault),)), reference(workload, 0))


def told(outcome):
    return {moment.point for moment in outcome.history}


@pytest.mark.parametrize("what", INCIDENTS)
def test_an_incident_happens_and_where_it_passes_leaves_nothing_behind(what):
    point, passes = (
        "pods.ADDED" if what == "pod-bound" else "patch-pods.detach",
        INCIDENTS[what].end is not None,
    )
    outcome = played("single-replica", f"world:{point}:0:{what}{MINUTE * passes}")
    assert outcome.struck
    assert told(outcome) & {"incident impossible", "incident ends", "incident had ended"} == (
        {"incident ends"} if passes else set()
    )
    assert not passes or outcome.end == reference("single-replica", 0).end
    assert outcome.violations == ()


def test_a_pod_that_is_gone_is_not_asked_for():
    assert not any(what.startswith("pod-") for what, _ in list_incidents("pods.DELETED"))
    assert {what for point in STEPS for what, _ in list_incidents(point)} == set(INCIDENTS)


def test_room_that_was_lost_on_the_way_is_nobodys_fault_and_any_other_is(monkeypatch):
    on_the_way = "world:create-pods/binding:0:node-shrunk"
    assert played("burst", on_the_way).violations == ()
    monkeypatch.setattr(stage, "REACTION_TIME", -1.0)
    assert any("I2" in violation for violation in played("burst", on_the_way).violations)


@pytest.mark.long
def test_an_eviction_is_decided_on_what_was_there_a_moment_ago(monkeypatch):
    sent = "world:create-pods/eviction:1:node-lost"
    assert played("configuration", sent).violations == ()
    monkeypatch.setattr(stage, "REACTION_TIME", -1.0)
    assert any(
        "evicted with" in violation for violation in played("configuration", sent).violations
    )
