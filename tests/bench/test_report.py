"""Reports of benchmarks, verdicts of `bench board`, and CPU of processes, measured and limited."""

import asyncio
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubedsm.process.clock import SystemClock
from kubedsm_lab.bench import quota as quotas
from kubedsm_lab.bench.board import IDLE, Quality, Run
from kubedsm_lab.bench.burst import bare_loop
from kubedsm_lab.bench.processes import Scheduler
from kubedsm_lab.bench.report import Report, format_duration, format_number, measure_cpu
from kubedsm_lab.bench.sites import Outage, play
from kubedsm_lab.bench.soak.tenants import ODDITIES
from kubedsm_lab.cli import bench


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 µs"),
        (7.234e-6, "7.23 µs"),
        (0.00086, "860 µs"),
        (0.0614, "61.4 ms"),
        (43.71, "43.7 s"),
        (1613.7, "26.9 min"),
    ],
)
def test_a_duration_has_the_unit_that_suits_it(seconds, shown):
    assert format_duration(seconds) == shown


def test_no_more_digits_are_shown_than_are_significant():
    assert [format_number(each, 2) for each in (51_234.5, 0.0349, 2.349)] == [
        "51,000",
        "0.035",
        "2.3",
    ]


def test_other_processes_are_not_measured(monkeypatch):
    monkeypatch.setattr("time.process_time", iter((1.0, 3.5)).__next__)
    assert measure_cpu(lambda: "done") == ("done", 2.5)


@pytest.mark.parametrize("options", [[], ["-o", "json"]])
def test_people_get_tables_and_programs_get_json(monkeypatch, options):
    found = Report({"ratio": 2}, ["a table"], ["a note"])
    monkeypatch.setattr("kubedsm_lab.bench.sites.run", lambda: found)
    printed = CliRunner().invoke(bench.bench, ["site", *options]).stdout
    if options:
        assert json.loads(printed) == {"ratio": 2}
    else:
        assert printed.splitlines() == ["a table", "a note"]


def test_names_and_defaults_are_those_of_the_benchmarks():
    assert tuple(ODDITIES) == bench.ODDITIES
    [keepalive] = (each for each in bench.burst.params if each.name == "keepalive")
    assert keepalive.default == bare_loop.FOREVER


def test_help_imports_no_benchmark():
    asked = (
        "import sys, click; from kubedsm_lab.cli.bench import bench;"
        "bench.main(['--help'], standalone_mode=False);"
        "print(*(name for name in sys.modules if name.startswith('kubedsm_lab.bench')))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n\n")


def test_knowing_of_sites_spares_pods_and_costs_no_capacity():
    outage = Outage("cut", 1, away=500.0, after=200.0)
    ours, beside = (play(outage, scheduler) for scheduler in ("kubedsm", "without sites"))
    assert ours.evicted == beside.evicted == 8
    assert 0 < ours.needless < beside.needless
    assert ours.serving == ours.wanted


FULL = Quality(placed=1000, at_edge=800, least_share=0.5, spread=9.0)
SHAPE = ["board", "--quotas", "50", "--load", "0"]


def run(*quality, seconds=(1.0, 2.0, 0.5, 40.0)):
    return Run(seconds, quality or (FULL, FULL, FULL), cpu=4.0)


def show(monkeypatch, limited):
    async def measured(shape, advance):
        return {IDLE: run(), "50% of a core": limited}

    monkeypatch.setattr("kubedsm_lab.bench.board.run", measured)
    return CliRunner().invoke(bench.bench, SHAPE)


def test_a_later_run_with_another_spread_is_as_good(monkeypatch):
    limited = run(FULL, FULL, Quality(1000, 800, 0.5, 11.0), seconds=(2.0, 5.0, 1.5, 90.0))
    shown = show(monkeypatch, limited)
    assert shown.exit_code == 0
    assert "are equal in all runs" in shown.stdout
    assert "1000 / 1000" in shown.stdout


@pytest.mark.parametrize(
    "limited",
    [
        run(FULL, FULL, Quality(999, 800, 0.5, 9.0)),
        run(FULL, Quality(1000, 512, 0.5, 9.0), FULL),
        run(Quality(1000, 800, 0.4, 9.0), FULL, FULL),
        run(seconds=(1.0, 2.0, math.inf, 40.0)),
    ],
)
def test_a_worse_placement_or_none_in_time_fails(monkeypatch, limited):
    shown = show(monkeypatch, limited)
    assert shown.exit_code == 1
    assert "took too long: 50% of a core" in " ".join(shown.stdout.split())


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


@pytest.mark.http
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


@pytest.mark.http
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
