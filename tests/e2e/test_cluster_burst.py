"""`kubedsm bench burst --kubeconfig` as a user runs it, on an emulated cluster over HTTP."""

import json
import signal

import pytest

from support.command_line import kubedsm
from support.processes import Process, Server

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


def test_a_scheduler_that_runs_has_figures_and_one_that_does_not_is_named(server):
    with Process(
        *("run", "--kubeconfig", server.kubeconfig, "--diagnostics-port", "0", "-o", "json")
    ) as scheduler:
        assert "connected" in scheduler.line()
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


def test_an_interrupt_leaves_nothing_behind(server):
    with Process(*map(str, burst(server, "--schedulers", "absent"))) as process:
        server.until(lambda: own_namespaces(server))
        code, out, err = process.stop(signal.SIGINT)
    assert (code, out) == (130, "")
    assert err.splitlines() == ["kubedsm: error: interrupted"]
    server.until(lambda: not own_namespaces(server))


def test_a_name_that_no_scheduler_can_have_is_refused(server):
    done = kubedsm(*burst(server, "--schedulers", "kubedsm,,Default"))
    assert done.returncode == 2
    assert done.stderr.startswith("kubedsm: error: Invalid value for '--schedulers': ''")
