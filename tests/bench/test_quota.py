"""CPU of a process and of its children: measured, and limited by a cgroup or by signals."""

import asyncio
from pathlib import Path

import pytest

from kubedsm.process.clock import SystemClock
from kubedsm_lab.bench import quota as quotas
from kubedsm_lab.bench.processes import Scheduler

pytestmark = pytest.mark.http

#: module that computes in a child process, and prints what makes it ready
BUSY = """
import os
parent = os.getpid()
child = os.fork()
if child:
    print("watching", flush=True)
while child or os.getppid() == parent:
    pass
"""

#: module whose children end at once
FORKING = """
import os
print("watching", flush=True)
while child := os.fork():
    os.waitpid(child, 0)
"""


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [("cpu.max", "{} {}", "25000 100000"), ("cpu.cfs_quota_us", "{}", "25000")],
)
async def test_the_group_has_the_limit_and_is_removed(tmp_path, monkeypatch, name, text, written):
    root = tmp_path / "cgroup"
    root.mkdir()
    (root / "cgroup.procs").touch()
    monkeypatch.setattr(quotas, "_CONTROLLERS", ((tmp_path, "none", "{}"), (root, name, text)))
    async with quotas.quota(0.25) as limit:
        assert limit.method == "cgroup quota"
        assert limit.group.parent == root
        assert (limit.group / name).read_text() == written
        assert f"{limit.group}/cgroup.procs" in " ".join(limit.prefix)
        (limit.group / name).unlink()  # as the kernel does with the group
    assert not limit.group.exists()


async def test_signals_stop_a_process_and_its_children_and_leave_none_stopped(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(quotas, "_CONTROLLERS", ())
    (tmp_path / "busy_module.py").write_text(BUSY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with quotas.quota(0.2) as limit:
        assert limit.method == quotas.SIGNALS
        scheduler = Scheduler(("busy_module",), SystemClock(), prefix=limit.prefix)
        async with scheduler.running() as tasks:
            await scheduler.log.synced.wait()
            enforcing = tasks.create_task(limit.enforce(scheduler))
            began, used = SystemClock().monotonic(), sum(scheduler.cpu_seconds())
            await asyncio.sleep(1.5)
            took = SystemClock().monotonic() - began
            assert sum(scheduler.cpu_seconds()) - used < 0.4 * took
            enforcing.cancel()
            await asyncio.wait([enforcing])
            assert "T" not in {state_of(pid) for pid in quotas.family(scheduler.pid)}


async def test_the_cpu_is_measured_while_children_end(tmp_path, monkeypatch):
    (tmp_path / "forking_module.py").write_text(FORKING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    scheduler = Scheduler(("forking_module",), SystemClock())
    async with scheduler.running():
        await scheduler.log.synced.wait()
        found = [sum(scheduler.cpu_seconds()) for _ in range(200)]
        assert found[-1] > found[0]
    with pytest.raises(OSError, match=f"/proc/{scheduler.pid}"):
        scheduler.cpu_seconds()
