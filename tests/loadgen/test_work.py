"""Load on one resource each, and CPU time that is bounded."""

import os
import time

import pytest

from loadgen.work import PERIOD, Quota, Work, burn, pi, write


def test_pi_is_pi():
    for decimals in (0, 1, 5, 20, 50):
        digits = "314159265358979323846264338327950288419716939937510"
        assert str(pi(decimals)) == digits[: decimals + 1]
    # Those of the published table: the thousandth is 9.
    assert str(pi(1000)).endswith("2164201989")
    assert len(str(pi(1000))) == 1001


def test_cpu_time_is_taken_in_a_thread_of_those_that_compute_or_write():
    before, paused = time.thread_time(), []
    burn(0.02, lambda: paused.append(time.thread_time()))
    assert time.thread_time() - before >= 0.02
    assert len(paused) > 1
    assert not Work(service_time=1.0, memory=5, net=5).takes_a_thread
    assert all(w.takes_a_thread for w in (Work(cpu=0.1), Work(pi_decimals=1), Work(disk=1)))


@pytest.mark.parametrize("size", [0, 1, 2**20, 2_500_000])
def test_so_many_bytes_reach_the_disk_and_leave_nothing_there(size, tmp_path, monkeypatch):
    synced = [0]
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    write(size)
    assert synced[-1] == size
    assert list(tmp_path.iterdir()) == []


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


def test_no_time_is_saved_up_and_a_high_limit_stops_nobody():
    machine = Machine(2.0)
    for _ in range(1000):
        machine.work(0.001)
    assert machine.time == pytest.approx(1.0)
    machine = Machine(0.5)
    machine.time = 100.0
    machine.work(0.001)
    while machine.time < 101.0:
        machine.work(0.001)
    assert machine.used == pytest.approx(0.5, abs=0.06)
