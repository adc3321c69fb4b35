"""The benches of `kubedsm run` as a process, short: what they say, not how fast anything was."""

import json

import pytest

from support.command_line import kubedsm

pytestmark = pytest.mark.http


def said(*arguments):
    done = kubedsm("bench", *arguments, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_idle_tells_what_a_scheduler_costs_that_was_there_all_the_time():
    idle = said("idle", "--nodes", 6, "--pods", 5, "--seconds", 1, "--heartbeat", 1)
    assert (idle["nodes"], idle["pods"], idle["scrapes"]) == (6, 5, 1)
    assert idle["heartbeatsPerSecond"] > 0
    assert idle["cpuPercentOfACore"] >= 0
    assert idle["residentMB"] > 10
    assert 0 < idle["scrapeMedianMs"] <= idle["scrapeWorstMs"]


def test_page_tells_what_viewers_get_and_cost():
    size = ("--nodes", 6, "--pods", 5, "--viewers", 2)
    page = said("page", *size, "--rounds", 1, "--seconds", 0.5)
    assert (page["nodes"], page["viewers"], page["rounds"]) == (6, 2, 1)
    assert page["messagesPerSecondOfAViewer"] > 0
    assert page["cpuPercentOfACore"]["alone"] >= 0


def test_start_tells_how_long_the_first_bind_takes_in_each_round():
    start = said("start", "--rounds", 2)
    assert start["rounds"] == 2
    for times in (start["toFirstBind"], start["python -c 'import kubedsm.cli.scheduler_process'"]):
        assert 0 < times["medianSeconds"] <= times["worstSeconds"]
    assert start["ratio"] > 0


def test_scale_tells_what_a_scheduler_costs_while_pods_come_and_go():
    size = ("--nodes", 4, "--pods", 20, "--rounds", 1, "--suggestions", 0)
    running = said("scale", *size, "--seconds", 1)["running"]
    assert running["churn"]["podEventsPerSecond"] > 0
    assert running["churn"]["cpuPercentOfACore"] > 0
    assert running["residentMB"] > 10
    assert running["loopLag"]["looks"] > 0


def test_more_pods_than_the_nodes_have_room_for_are_refused():
    done = kubedsm("bench", "idle", "--nodes", 1, "--pods", 51)
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
