"""`kubedsm bench burst`, `footprint`, `scale` and `soak` as processes: figures, not how fast."""

import json
import subprocess
import sys

import pytest

from support.command_line import kubedsm

pytestmark = [pytest.mark.http, pytest.mark.long]


def burst(server, *more):
    return ("bench", "burst", "--kubeconfig", server.kubeconfig, "-n", 4, *more)


def test_policies_are_processes_of_their_own():
    policies = ("--policies", "kubedsm,kube-scheduler")
    options = ("-n", 5, "--rounds", 1, "--silence", 0, "-o", "json")
    done = kubedsm("bench", "burst", *policies, *options)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert (said["emulated"], said["pods"], said["nodes"]) == (True, 5, 5)
    assert list(said["ratiosTo"]) == ["kube-scheduler"]
    for figures in said["schedulers"].values():
        assert figures["watch.createdToReady.missing"] == 0
        assert figures["onAllNodes.pods.jain"] == 1
        assert "schedulerCpu" in figures


def figures(*arguments):
    done = kubedsm("bench", *arguments, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_footprint_measures_the_start_and_the_cost_while_idle():
    size = ("--nodes", 6, "--pods", 5, "--seconds", 1, "--heartbeat", 1)
    found = figures("footprint", *size, "--rounds", 1)
    start, idle = found["start"], found["idle"]
    assert start["rounds"] == 1
    for times in ("toFirstBind", "onOneCore", "cpu", "import"):
        assert 0 < start[times]["medianSeconds"] <= start[times]["worstSeconds"]
    assert (idle["nodes"], idle["pods"], idle["scrapes"]) == (6, 5, 1)
    assert idle["heartbeatsPerSecond"] > 0
    assert idle["cpuPercentOfACore"] >= 0
    assert min(idle["memoryMB"].values()) > 10
    assert 0 < idle["scrapeMedianMs"] <= idle["scrapeWorstMs"]


def test_scale_measures_the_cost_while_pods_come_and_go():
    size = ("--nodes", 4, "--pods", 20, "--rounds", 1, "--suggestions", 0)
    running = figures("scale", *size, "--seconds", 1)["running"]
    assert running["churn"]["podEventsPerSecond"] > 0
    assert running["churn"]["cpuPercentOfACore"] > 0
    assert running["residentMB"] > 10
    assert min(lag["looks"] for lag in running["loopLag"]) > 0


#: the promises that do not depend on how busy this machine is
SAFE = (
    *("caught", "ends", "never", "bound", "marks", "replicas", "room", "work", "processes"),
    *("multiply",),
)


def test_a_short_soak_leaves_everybody_bound_and_nothing_caught_whatever_harm_is_done():
    harm = ["--replicas", "2", "--kill-every", "4", "--cut-every", "3"]
    command = ["bench", "soak", "--minutes", "0.25", "--odd-pods", "8", *harm, "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "kubedsm", *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert said["workloads"] > 0
    assert said["podsBound"] > 0
    assert said["namespacesDeleted"] > 0
    assert said["harm"]["leaders killed"] > 0
    assert said["leaders"] > 1
    for name in SAFE:
        assert said["guarantees"][name]["kept"], said["guarantees"][name]
    assert said["kept"] == all(each["kept"] for each in said["guarantees"].values())
    assert done.returncode == (0 if said["kept"] else 1)
