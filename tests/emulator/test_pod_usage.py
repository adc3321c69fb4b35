"""What autoscalers are told of pods that are processes."""

import asyncio
import os

import pytest

from kubedsm_lab.emulator.processes.pod_processes import PodProcess
from kubedsm_lab.emulator.processes.usage import PodUsage
from kubedsm_lab.replay.virtual_time import VirtualClock

TICKS = os.sysconf("SC_CLK_TCK")


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


@pytest.fixture
def proc(tmp_path):
    def write(pid, user, system=0.0, pss=0):
        folder = tmp_path / str(pid)
        folder.mkdir(exist_ok=True)
        ticks = f"{round(user * TICKS)} {round(system * TICKS)}"
        stat = f"{pid} (a) S 1 7 7 0 -1 4194304 9 0 0 0 {ticks} 0 0 20 0 3 0 9 8 7"
        (folder / "stat").write_text(stat)
        (folder / "smaps_rollup").write_text(f"Pss: {pss} kB\n")

    write.path = tmp_path
    return write


def pod(name):
    return PodProcess({"metadata": {"namespace": "shop", "name": name}}, "c", (), lambda: None)


async def test_cores_are_of_the_time_since_it_was_asked_last(pods, proc):
    usage, cart, other = PodUsage(pods, VirtualClock(), proc.path), pod("cart"), pod("other")
    pods.processes = {other: Process(8), cart: Process(7)}
    proc(7, 100.0, pss=12)
    proc(8, 0.0)
    assert usage("shop", "cart", "cpu") is None
    assert usage("shop", "cart", "memory") == 12 * 1024
    await asyncio.sleep(15)
    proc(7, 105.0, 1.0)
    assert usage("shop", "cart", "cpu") == pytest.approx(0.4)
    assert usage("shop", "other", "cpu") is None
    # Another process: what the first one used is none of its own.
    pods.processes[cart] = Process(9)
    proc(9, 3.0)
    await asyncio.sleep(15)
    assert usage("shop", "cart", "cpu") is None
    await asyncio.sleep(10)
    proc(9, 6.0)
    assert usage("shop", "cart", "cpu") == pytest.approx(0.3)


async def test_of_what_does_not_run_nothing_is_known(pods, proc):
    usage = PodUsage(pods, VirtualClock(), proc.path)
    assert usage("shop", "cart", "cpu") is None
    pods.processes = {pod("cart"): Process(7)}
    assert usage("shop", "cart", "cpu") is None
    proc(7, 1.0)
    assert usage("shop", "cart", "ephemeral-storage") is None
    assert usage("other", "cart", "memory") is None
