"""`kubedsm suggest --apply` beside a `kubedsm run` that leads, as processes, over HTTP."""

import pytest

from kubedsm.emulator.paper import node
from support.command_line import kubedsm
from support.processes import Process, Server, write

pytestmark = pytest.mark.http

CLOUD_ONLY = "nodes: [{name: c1, tier: cloud, cpu: 8, memory: 8Gi}]"
OFF = "{suggester: {mode: 'off'}, migration: {drainDelay: 0s}}"


def test_the_leader_makes_the_moves_and_they_stay(tmp_path):
    cluster = write(tmp_path, "cluster.yaml", CLOUD_ONLY)
    config = write(tmp_path, "off.yaml", OFF)
    with Server("--cluster", cluster) as server:
        leader = Process(
            *("run", "--kubeconfig", server.kubeconfig, "--config", config, "-o", "json"),
            *("--diagnostics-port", "0", "--leader-elect-retry-period", "1s"),
        )
        with leader:
            server.until(lambda: "leading" in leader.line())
            server.deploy("web", 1)
            server.until(lambda: ready(server) == ["c1"])
            server.call("POST", "/api/v1/nodes", node("e1", "edge", "4", "8Gi"))
            done = kubedsm("suggest", "--apply", "--kubeconfig", server.kubeconfig)
            assert done.returncode == 0, done.stderr
            *_, taken, moved = done.stderr.splitlines()
            assert taken.startswith("kubedsm: the scheduler that runs has taken request ")
            assert moved.endswith(" to e1 completed")
            assert ready(server) == ["e1"]


def ready(server):
    """Where Ready pods are."""
    return [
        pod["spec"].get("nodeName")
        for pod in server.call("GET", "/api/v1/pods")["items"]
        for condition in pod["status"].get("conditions", ())
        if (condition["type"], condition["status"]) == ("Ready", "True")
    ]
