"""What pods and nodes used: what /proc says, added up, and what autoscalers are told of it."""

import asyncio
import os
import random

import pytest

from kubedsm_lab.emulator.processes.pod_processes import PodProcess
from kubedsm_lab.emulator.processes.usage import (
    Accounts,
    Counters,
    Look,
    PodUsage,
    held_by,
    measure_usage,
)
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.drawing import drawn_cases

TICKS = os.sysconf("SC_CLK_TCK")
STAT = "{} (a) {} S 1 7 7 0 -1 4194304 9 0 0 0 {} {} 0 0 20 0 3 0 9 8 7"


def proc(tmp_path, pid=7, name="", user=0.0, system=0.0, **files):
    """Write the files of a process that has used so many seconds."""
    folder = tmp_path / str(pid)
    folder.mkdir(exist_ok=True)
    stat = STAT.format(pid, name, round(user * TICKS), round(system * TICKS))
    for file, text in {"stat": stat, **files}.items():
        (folder / file).write_text(text)
    return tmp_path


def test_what_the_kernel_tells_of_a_process(tmp_path):
    at = proc(
        tmp_path,
        name="b (c)",
        user=250 / TICKS,
        system=50 / TICKS,
        io="rchar: 1\nwchar: 2\nread_bytes: 300\nwrite_bytes: 4096\ncancelled_write_bytes: 5\n",
        smaps_rollup="55d-7ff ---p 00000000 00:00 0    [rollup]\nRss:  50 kB\nPss:   12 kB\n",
    )
    counters = Counters(user=250 / TICKS, system=50 / TICKS, read=300, written=4096)
    assert measure_usage(7, at) == counters
    assert held_by(7, at) == 12 * 1024


def test_what_it_does_not_tell_counts_as_nothing(tmp_path):
    at = proc(tmp_path)
    assert measure_usage(7, at) == Counters()
    assert held_by(7, at) == 0


def look(uid, node, pid, seconds):
    return Look(uid, node, pid, Counters(user=seconds))


def test_a_pod_keeps_what_its_process_used_when_that_is_another_one():
    accounts = Accounts()
    accounts.take([look("a", "e1", 1, 5.0)])
    accounts.take([look("a", "e1", 2, 0.5)])
    assert accounts.pods["a"].user == accounts.nodes["e1"].user == pytest.approx(5.5)


def test_what_passed_a_proxy_is_added():
    accounts = Accounts()
    accounts.add("a", "e1", Counters(received=10, sent=20))
    accounts.take([look("a", "e1", 1, 5.0)])
    accounts.add("a", "e1", Counters(received=1))
    assert accounts.pods["a"] == accounts.nodes["e1"] == Counters(user=5.0, received=11, sent=20)


@pytest.mark.parametrize("seed", drawn_cases(range(20)))
def test_nothing_is_lost_nor_counted_twice_nor_ever_less(seed):
    rng = random.Random(seed)
    accounts, running, used = Accounts(), {}, {"e1": 0, "c1": 0}
    for pid in range(60):
        if running and rng.random() < 0.3:
            del running[rng.choice(list(running))]
        if rng.random() < 0.5:
            running[pid] = (f"u{pid}", rng.choice(["e1", "c1"]), 0)
        for one, (uid, node, seconds) in running.items():
            more = rng.randrange(5)
            running[one] = (uid, node, seconds + more)
            used[node] += more
        before = dict(accounts.nodes)
        accounts.take(look(*of, one, seconds) for one, (*of, seconds) in running.items())
        assert {node: accounts.nodes[node].user for node in used} == used
        assert all(accounts.nodes[node].user >= was.user for node, was in before.items())
        assert accounts.pods.keys() <= {uid for uid, _, _ in running.values()}


class Process:
    def __init__(self, pid):
        self.pid = pid


class Pods:
    """Those that run, by name."""

    def __init__(self):
        self.processes = {}

    def running(self):
        return iter(self.processes.items())


@pytest.fixture
def pods():
    return Pods()


def pod(name):
    return PodProcess({"metadata": {"namespace": "shop", "name": name}}, "c", (), lambda: None)


async def test_cores_are_of_the_time_since_it_was_asked_last(pods, tmp_path):
    usage, cart, other = PodUsage(pods, VirtualClock(), tmp_path), pod("cart"), pod("other")
    pods.processes = {other: Process(8), cart: Process(7)}
    proc(tmp_path, 7, user=100.0, smaps_rollup="Pss: 12 kB\n")
    proc(tmp_path, 8)
    assert usage("shop", "cart", "cpu") is None
    assert usage("shop", "cart", "memory") == 12 * 1024
    await asyncio.sleep(15)
    proc(tmp_path, 7, user=105.0, system=1.0)
    assert usage("shop", "cart", "cpu") == pytest.approx(0.4)
    assert usage("shop", "other", "cpu") is None
    # Another process: what the first one used is none of its own.
    pods.processes[cart] = Process(9)
    proc(tmp_path, 9, user=3.0)
    await asyncio.sleep(15)
    assert usage("shop", "cart", "cpu") is None
    await asyncio.sleep(10)
    proc(tmp_path, 9, user=6.0)
    assert usage("shop", "cart", "cpu") == pytest.approx(0.3)


async def test_of_what_does_not_run_nothing_is_known(pods, tmp_path):
    usage = PodUsage(pods, VirtualClock(), tmp_path)
    assert usage("shop", "cart", "cpu") is None
    pods.processes = {pod("cart"): Process(7)}
    assert usage("shop", "cart", "cpu") is None
    proc(tmp_path, 7, user=1.0)
    assert usage("shop", "cart", "ephemeral-storage") is None
    assert usage("other", "cart", "memory") is None
