"""Numbers as benchmarks show them, the commands that show them, and verdicts of `bench board`."""

import json
import math
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kubedsm_lab.bench.board import IDLE, Quality, Run
from kubedsm_lab.bench.burst import bare_loop
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
