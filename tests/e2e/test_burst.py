"""`kubedsm bench burst` as a user runs it, on emulated clusters over HTTP."""

import json
import signal

import pytest
from click.testing import CliRunner

from kubedsm_lab.cli.bench import burst as burst_command
from support.command_line import kubedsm
from support.processes import Process, Scheduler, Server

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def server():
    with Server() as started:
        yield started


def burst(server, *more):
    return ("bench", "burst", "--kubeconfig", server.kubeconfig, "-n", 4, *more)


def own_namespaces(server):
    """Those that nobody has deleted; what is in one goes with it."""
    metadata = [n["metadata"] for n in server.call("GET", "/api/v1/namespaces")["items"]]
    there = [m["name"] for m in metadata if "deletionTimestamp" not in m]
    return [name for name in there if name.startswith("kubedsm-burst-")]


@pytest.mark.long
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


@pytest.mark.long
def test_an_interrupt_leaves_nothing_behind(server):
    with Process(*map(str, burst(server, "--schedulers", "absent"))) as process:
        server.until(lambda: own_namespaces(server))
        code, out, err = process.stop(signal.SIGINT)
    assert (code, out) == (130, "")
    assert err.splitlines() == ["kubedsm: error: interrupted"]
    server.until(lambda: not own_namespaces(server))


@pytest.mark.long
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


REAL = ("--kubeconfig", "absent")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--schedulers", "kubedsm,,D"), "Invalid value for '--schedulers': a name is empty"),
        (("--policies", "kubedsm,none"), "Invalid value for '--policies': no policy 'none'"),
        (("--policies", "kubedsm.batched"), "Invalid value for '--policies': no policy 'kubedsm."),
        (("--policies", "random,random"), "Invalid value for '--policies': 'random' is given twic"),
        (("-n", 551), "the paper's five workers take 550 pods, not 551"),
        (("--policies", "kubedsm", "--keepalive", 15), "--keepalive is about bare-loop"),
        (("--schedulers", "kubedsm"), "--schedulers is for a real cluster, with --kubeconfig"),
        (("--context", "a"), "--context is for a real cluster, with --kubeconfig"),
        ((*REAL, "--policies", "kubedsm"), "--policies is not for a real cluster"),
        ((*REAL, "--keepalive", 15), "--keepalive is not for a real cluster"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, problem):
    done = CliRunner().invoke(burst_command, list(map(str, options)))
    assert done.exit_code == 2
    assert f"Error: {problem}" in done.output
