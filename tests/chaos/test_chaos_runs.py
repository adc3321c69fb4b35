"""Chaos runs can be repeated exactly; users, incidents and late requests do what they are for."""

import pytest

from kubedsm_lab.chaos import lying_prometheus, stage
from kubedsm_lab.chaos.faults import Fault, UnknownFaultError
from kubedsm_lab.chaos.incidents import INCIDENTS, STEPS, list_incidents
from kubedsm_lab.chaos.sweep import reference
from kubedsm_lab.chaos.trace import Injection, play
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.replay import virtual_time
from support.drawing import keep_one_in

LOST = Fault.parse("call:create-pods/binding:1:timeout-applied")


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_fault_has_the_same_story(seed):
    first, again = (play(Injection("burst", (LOST,), seed)) for _ in range(2))
    assert first.struck
    assert first == again


def test_a_paced_run_is_another_that_can_be_repeated():
    paced, again, plain = (play(Injection("burst", (LOST,), 0, p)) for p in (True, True, False))
    assert paced == again
    assert paced.violations == ()
    assert paced.history != plain.history
    assert (
        paced.injection.command == f"kubedsm chaos --workload burst --seed 0 --paced --fault {LOST}"
    )


@pytest.mark.long
def test_another_seed_has_tasks_go_on_in_another_order():
    histories = {play(Injection("cloud-to-edge", (), seed)).history for seed in range(4)}
    assert len(histories) > 1


def test_a_run_that_stands_still_is_an_alarm_and_not_the_end_of_the_sweep(monkeypatch):
    monkeypatch.setattr(virtual_time, "TURNS", 3)
    assert play(Injection("burst", (LOST,))).violations[0].startswith("I6: the moment ")


@pytest.mark.parametrize("text", ["", "call:x:1", "call:x:one:404", "call:a:b:1:404"])
def test_what_is_no_fault_is_refused(text):
    with pytest.raises(UnknownFaultError):
        Fault.parse(text)


@pytest.mark.parametrize("text", ["call:create-pods/binding:1:503/minute", str(LOST)])
def test_a_fault_is_read_as_it_is_written(text):
    assert str(Fault.parse(text)) == text


@pytest.mark.parametrize("workload", keep_one_in(5, WORKLOADS))
def test_a_workload_ends_well_and_always_the_same(workload):
    assert play(Injection(workload, (), 1), reference(workload, 0)).violations == ()


@pytest.mark.parametrize(
    ("point", "status"),
    [("create-pods/binding", 409), ("patch-pods.detach", 409), ("create-pods/eviction", 404)],
)
def test_a_request_that_arrives_after_the_lease_has_passed_is_refused(point, status, monkeypatch):
    """The pod is bound or changed; the pod to evict is gone."""
    answers = []

    def apply(front, request):
        answers.append(front._routes.handle(front._api_request(request)).status)

    monkeypatch.setattr(EmulatedFront, "_apply", apply)
    fault = Fault.parse(f"process:{point}:0:stopped-late")
    outcome = play(Injection("leader-change", (fault,)), reference("leader-change", 0))
    assert outcome.struck
    assert answers == [status]
    assert outcome.violations == ()


LYING = Injection("lying-prometheus")


def detached(outcome):
    return [moment for moment in outcome.history if moment.point == "patch-pods.detach"]


def test_no_lie_has_a_pod_migrated():
    outcome = play(LYING)
    assert outcome.violations == ()
    assert str(outcome.end["web"]) == "1 at the edge, 0 in the cloud, 0 waiting"
    assert str(outcome.end["shop"]) == "2 at the edge, 0 in the cloud, 0 waiting"
    assert (outcome.deleted, detached(outcome)) == (0, [])
    starts = [moment for moment in outcome.history if moment.point == "create-leases"]
    assert len(starts) == 1


@pytest.mark.long
def test_the_same_would_have_one_migrated_if_it_were_believed(monkeypatch):
    believed = dict.fromkeys(lying_prometheus.LIES, lying_prometheus._send_claims)
    monkeypatch.setattr(lying_prometheus, "LIES", believed)
    assert detached(play(LYING))


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
