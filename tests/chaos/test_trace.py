"""Runs with a fault in them can be repeated exactly, and what is broken is seen."""

import pytest

from kubedsm_lab.chaos.faults import Fault, UnknownFaultError
from kubedsm_lab.chaos.trace import Injection, play
from kubedsm_lab.replay import virtual_time

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
