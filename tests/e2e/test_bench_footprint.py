"""Benchmarks of `kubedsm run` as a process, short: their figures, not how fast anything was."""

import json

import pytest

from support.command_line import kubedsm

pytestmark = pytest.mark.http


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


def test_more_pods_than_fit_on_the_nodes_are_refused():
    done = kubedsm("bench", "footprint", "--nodes", 1, "--pods", 51)
    assert done.returncode == 2
    assert done.stderr.startswith("kubedsm: error: --pods: more than 50 for each node")


def test_sizes_that_are_none_are_refused():
    for nodes, pods, why in (
        ("1,2", "3", "--nodes and --pods: not as many of the one as of the other"),
        ("1,0", "3,4", "Invalid value for '--nodes': '1,0' is no list of numbers from 1 up"),
    ):
        done = kubedsm("bench", "scale", "--nodes", nodes, "--pods", pods)
        assert done.returncode == 2
        assert done.stderr.startswith(f"kubedsm: error: {why}")
