"""`kubedsm run` and the process that thinks for it: killed, outlived, and ended with it."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from kubedsm_lab.emulator.paper import node
from support.processes import PATIENCE, Process, Server, write

pytestmark = pytest.mark.http

CLOUD_ONLY = "nodes: [{name: c1, tier: cloud, cpu: 8, memory: 8Gi}]"
MOVING = "{suggester: {period: 500ms}, migration: {drainDelay: 0s}}"


class Scheduler(Process):
    def __init__(self, server, tmp_path):
        config = write(tmp_path, "config.yaml", MOVING)
        super().__init__(
            *("run", "--kubeconfig", server.kubeconfig, "--config", config, "-o", "json"),
            *("--diagnostics-port", "0", "--metrics-address", "127.0.0.1:0"),
        )

    @property
    def workers(self):
        """The ids of the processes that it has started."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if thinks(child)]

    def worker(self, *, but=0):
        """Of the one that runs, once it does."""
        return until(lambda: next((pid for pid in self.workers if pid != but), None))

    def until_said(self, event):
        while (said := json.loads(self.line()))["event"] != event:
            pass
        return said


def thinks(pid):
    return b"kubedsm.planner" in Path(f"/proc/{pid}/cmdline").read_bytes()


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def gone(pid):
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture
def server(tmp_path):
    with Server("--cluster", write(tmp_path, "cluster.yaml", CLOUD_ONLY)) as started:
        yield started


def test_a_worker_that_is_killed_costs_a_suggestion_that_comes_later(server, tmp_path):
    with Scheduler(server, tmp_path) as running:
        server.deploy("web", 2)
        server.until(lambda: server.bound() == 2)
        first = running.worker()
        # What a terminal sends to a group is for the scheduler.
        assert os.getpgid(first) != os.getpgid(running.process.pid)
        os.kill(first, signal.SIGKILL)
        assert running.until_said("worker ended")["error"] == "status -9"
        server.deploy("api", 1)  # nothing waits for the worker
        server.until(lambda: server.bound() == 3)
        second = running.worker(but=first)
        server.call("POST", "/api/v1/nodes", node("e1", "edge", "4", "8Gi"))
        moves = running.until_said("suggestion")["moves"]
        assert any("c1 -> e1" in move for move in moves)
        assert running.until_said("move ended")["outcome"] == "completed"
        code, _, err = running.stop(signal.SIGTERM)
        assert (code, "Traceback" in err) == (0, False)
    assert gone(second)
    with Scheduler(server, tmp_path) as running:
        worker = running.worker()
        running.process.kill()
        running.process.wait()
        until(lambda: gone(worker))
