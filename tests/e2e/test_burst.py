"""`kubedsm bench burst`, `footprint`, `scale` and `soak` as processes: figures, not how fast."""

import json
import subprocess
import sys

import pytest

from support.command_line import kubedsm
from support.processes import Scheduler, Server

pytestmark = [pytest.mark.http, pytest.mark.long]


def burst(server, *more):
    return ("bench", "burst", "--kubeconfig", server.kubeconfig, "-n", 4, *more)


def own_namespaces(server):
    """Those that nobody has deleted; what is in one goes with it."""
    metadata = [n["metadata"] for n in server.call("GET", "/api/v1/namespaces")["items"]]
    there = [m["name"] for m in metadata if "deletionTimestamp" not in m]
    return [name for name in there if name.startswith("kubedsm-burst-")]


def test_a_scheduler_that_runs_has_figures_and_one_that_does_not_is_named(server):
    with Scheduler(server) as scheduler:
        scheduler.until("connected")
        done = kubedsm(*burst(server, "--schedulers", "kubedsm", "--rounds", 2, "-o", "json"))
        assert (done.returncode, done.stderr) == (0, "")
        said = json.loads(done.stdout)
        assert (said["pods"], said["nodes"], said["rounds"]) == (4, 4, 2)
        assert said["schedulers"]["kubedsm"]["watch.createdToReady.missing"] == 0

        absent = ("--schedulers", "absent,kubedsm", "--timeout", 2, "--rounds", 1)
        done = kubedsm(*burst(server, *absent))
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr == (
            "kubedsm: error: absent: 4 of 4 pods were created, and none of them was bound within"
            " 2 s; is there a scheduler of that name?\n"
        )
    server.until(lambda: not own_namespaces(server))


def test_hollow_nodes_take_the_burst_alone_and_are_deleted():
    """The cluster's own kubelets start pods after an hour: those of hollow nodes start these."""
    with Server("--start-delay", "1h") as server, Scheduler(server) as scheduler:
        scheduler.until("connected")
        options = ("--schedulers", "kubedsm", "--rounds", 1, "--hollow-nodes", 3, "-o", "json")
        done = kubedsm(*burst(server, *options))
        assert (done.returncode, done.stderr) == (0, "")
        said = json.loads(done.stdout)
        assert (said["nodes"], said["emulated"]) == (3, True)
        assert said["schedulers"]["kubedsm"]["watch.createdToReady.missing"] == 0
        nodes = [n["metadata"]["name"] for n in server.call("GET", "/api/v1/nodes")["items"]]
        assert not [name for name in nodes if name.startswith("kubedsm-burst-")]


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
    assert running["loopLag"]["looks"] > 0


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
