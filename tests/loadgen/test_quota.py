"""CPU time that is bounded, on a machine whose clocks are written down."""

import pytest

from loadgen.work import PERIOD, Quota


class Machine:
    """Time passes while somebody works or sleeps; working takes CPU time."""

    def __init__(self, cores):
        self.time = self.used = 0.0
        self.quota = Quota(cores, lambda: self.used, lambda: self.time, self.sleep)

    def sleep(self, seconds):
        assert seconds > 0
        self.time += seconds

    def work(self, seconds):
        self.quota.wait()
        self.time += seconds
        self.used += seconds


@pytest.mark.parametrize("cores", [0.1, 0.35, 0.5, 0.9])
@pytest.mark.parametrize("piece", [0.001, 0.004, 0.7])
def test_the_share_of_the_time_is_what_is_used_and_no_more(cores, piece):
    machine = Machine(cores)
    while machine.time < 20.0:
        machine.work(piece)
        # A piece that was begun is gone on with, and taken off what comes.
        assert machine.used <= cores * (machine.time + PERIOD) + piece
    assert machine.used == pytest.approx(cores * machine.time, abs=PERIOD + piece)


def test_a_limit_above_what_is_asked_for_stops_nobody():
    machine = Machine(2.0)
    for _ in range(1000):
        machine.work(0.001)
    assert machine.time == pytest.approx(1.0)


def test_nothing_is_saved_up():
    machine = Machine(0.5)
    machine.time = 100.0
    machine.work(0.001)
    while machine.time < 101.0:
        machine.work(0.001)
    assert machine.used == pytest.approx(0.5, abs=0.06)
