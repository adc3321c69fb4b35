"""Runs with a fault in them can be repeated exactly, and what is broken is seen."""

import pytest

from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm_lab.chaos.faults import Fault, UnknownFaultError
from kubedsm_lab.chaos.sweep import reference
from kubedsm_lab.chaos.trace import Injection, play
from kubedsm_lab.replay import virtual_time
from support.faults import lost_answers_forget_reservations

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


def test_a_fault_is_found_where_its_reference_has_it():
    story = play(Injection("burst", (LOST,)), reference("burst", 0))
    assert story.struck
    assert story.violations == ()


def test_a_run_that_stands_still_is_an_alarm_and_not_the_end_of_the_sweep(monkeypatch):
    monkeypatch.setattr(virtual_time, "TURNS", 3)
    assert play(Injection("burst", (LOST,))).violations[0].startswith("I6: the moment ")


def test_a_pod_that_waits_takes_the_room_of_a_reservation_that_is_forgotten(monkeypatch):
    usual, answer = reference("burst", 0), Fault.parse("call:create-pods/binding:2:500-applied")
    assert play(Injection("burst", (answer,)), usual).violations == ()
    lost_answers_forget_reservations(monkeypatch)
    violations = play(Injection("burst", (answer,)), usual).violations
    assert any(violation.startswith("I2: ") for violation in violations)


def test_a_pod_that_nobody_tells_of_room_that_is_free_again_is_seen(monkeypatch):
    usual, answer = reference("contended", 0), Fault.parse("call:patch-pods.detach:0:timeout")
    assert play(Injection("contended", (answer,)), usual).violations == ()
    monkeypatch.setattr(SchedulingQueue, "help", lambda *_: None)
    violations = play(Injection("contended", (answer,)), usual).violations
    assert any("camera" in text and "waits although it fits" in text for text in violations)


def test_a_pod_whose_affinity_names_a_lost_node_does_not_fit_on_others():
    lost = Fault.parse("world:patch-pods.detach:0:node-lost")
    assert play(Injection("slow-termination", (lost,))).violations == ()


@pytest.mark.parametrize("text", ["", "call:x:1", "call:x:one:404", "call:a:b:1:404"])
def test_what_is_no_fault_is_refused(text):
    with pytest.raises(UnknownFaultError):
        Fault.parse(text)


@pytest.mark.parametrize("text", ["call:create-pods/binding:1:503/minute", str(LOST)])
def test_a_fault_is_read_as_it_is_written(text):
    assert str(Fault.parse(text)) == text


@pytest.mark.long
def test_a_pod_that_stays_unbound_is_seen(monkeypatch):
    usual = reference("burst", 0)

    async def never(*_, **__):
        pass

    monkeypatch.setattr("kubedsm.execution.bind_calls.writes.bind", never)
    assert any("I7" in violation for violation in play(Injection("burst"), usual).violations)
