"""The benches of `kubedsm run` as a process, short: what they say, not how fast anything was."""

import json

import pytest

from support.processes import kubedsm

pytestmark = pytest.mark.http


def said(*arguments):
    done = kubedsm("bench", *arguments, "-o", "json", timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_idle_tells_what_a_scheduler_costs_that_was_there_all_the_time():
    idle = said("idle", "--nodes", 6, "--pods", 5, "--seconds", 3, "--heartbeat", 1)
    assert (idle["nodes"], idle["pods"], idle["scrapes"]) == (6, 5, 1)
    assert idle["heartbeatsPerSecond"] > 0
    assert idle["cpuPercentOfACore"] >= 0
    assert idle["residentMB"] > 10
    assert 0 < idle["scrapeMedianMs"] <= idle["scrapeWorstMs"]


def test_start_tells_how_long_the_first_bind_takes_in_each_round():
    start = said("start", "--rounds", 2)
    assert start["rounds"] == 2
    for times in (start["toFirstBind"], start["python -c 'import kubedsm.cli'"]):
        assert 0 < times["medianSeconds"] <= times["worstSeconds"]
    assert start["ratio"] > 0


def test_more_pods_than_the_nodes_have_room_for_are_refused():
    done = kubedsm("bench", "idle", "--nodes", 1, "--pods", 51)
    assert done.returncode == 2
    assert done.stderr.startswith("kubedsm: error: --pods: more than 50 for each node")
