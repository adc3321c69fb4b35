"""What loads one resource each."""

import os
import time

import pytest

from loadgen.work import Work, burn, pi, write


@pytest.mark.parametrize("decimals", [0, 1, 5, 20, 50])
def test_pi_is_pi(decimals):
    assert (
        str(pi(decimals)) == "314159265358979323846264338327950288419716939937510"[: decimals + 1]
    )


def test_a_thousand_decimals_of_pi():
    # Those of the published table: the thousandth is 9.
    assert str(pi(1000)).endswith("2164201989")
    assert len(str(pi(1000))) == 1001


def test_cpu_time_is_taken():
    before, paused = time.thread_time(), []
    burn(0.02, lambda: paused.append(time.thread_time()))
    assert time.thread_time() - before >= 0.02
    assert len(paused) > 1


@pytest.mark.parametrize("size", [0, 1, 2**20, 2_500_000])
def test_so_many_bytes_reach_the_disk_and_leave_nothing_there(size, tmp_path, monkeypatch):
    synced = [0]
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    write(size)
    assert synced[-1] == size
    assert list(tmp_path.iterdir()) == []


def test_what_neither_computes_nor_writes_takes_no_thread():
    assert not Work(service_time=1.0, memory=5, net=5).takes_a_thread
    assert all(w.takes_a_thread for w in (Work(cpu=0.1), Work(pi_decimals=1), Work(disk=1)))
