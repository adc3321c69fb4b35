"""Benchmarks of `kubedsm run` as a process, short: their figures, not how fast anything was."""

import json

import pytest

from support.command_line import kubedsm

pytestmark = [pytest.mark.http, pytest.mark.long]


def figures(*arguments):
    done = kubedsm("bench", *arguments, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_footprint_measures_the_start_and_the_cost_while_idle():
    size = ("--nodes", 6, "--pods", 5, "--seconds", 1, "--heartbeat", 1)
    found = figures("footprint", *size, "--rounds", 1)
    start, idle = found["start"], found["idle"]
    assert start["rounds"] == 1
    for times in (start["toFirstBind"], start["python -c 'import kubedsm.cli.scheduler_process'"]):
        assert 0 < times["medianSeconds"] <= times["worstSeconds"]
    assert start["ratio"] > 0
    assert (idle["nodes"], idle["pods"], idle["scrapes"]) == (6, 5, 1)
    assert idle["heartbeatsPerSecond"] > 0
    assert idle["cpuPercentOfACore"] >= 0
    assert idle["residentMB"] > 10
    assert 0 < idle["scrapeMedianMs"] <= idle["scrapeWorstMs"]


def test_scale_measures_the_cost_while_pods_come_and_go():
    size = ("--nodes", 4, "--pods", 20, "--rounds", 1, "--suggestions", 0)
    running = figures("scale", *size, "--seconds", 1)["running"]
    assert running["churn"]["podEventsPerSecond"] > 0
    assert running["churn"]["cpuPercentOfACore"] > 0
    assert running["residentMB"] > 10
    assert running["loopLag"]["looks"] > 0
