"""A `kubedsm run` whose moves take very long, told to stop."""

import json
import signal
import time

import pytest

from kubedsm_lab.emulator.paper import node
from support.processes import Process, Server, write

pytestmark = pytest.mark.http

CLOUD_ONLY = "nodes: [{name: c1, tier: cloud, cpu: 8, memory: 8Gi}]"
#: a move that is under way stays so
ENDLESS = """
apiVersion: kubedsm.io/v1alpha1
kind: KubeDSMConfiguration
suggester: {period: 200ms}
migration: {drainDelay: 1h, deadline: 2h}
"""
MIGRATING = "kubedsm.io/migrating"


@pytest.fixture
def server(tmp_path):
    """With Ready pods in the cloud, and room on the edge."""
    with Server("--cluster", write(tmp_path, "cluster.yaml", CLOUD_ONLY)) as server:
        server.deploy("web", 2)
        server.until(lambda: len(pods(server)) == 2)
        for pod in pods(server):
            path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/binding"
            server.call("POST", path, {"metadata": {}, "target": {"kind": "Node", "name": "c1"}})
        server.until(lambda: ready(server) == 2)
        server.call("POST", "/api/v1/nodes", node("e1", "edge", "4", "8Gi"))
        yield server


def scheduler(server, tmp_path):
    path = write(tmp_path, "endless.yaml", ENDLESS)
    return Process(
        *("run", "--kubeconfig", server.kubeconfig, "--config", path, "--diagnostics-port", "0"),
        *("-o", "json", "--leader-elect-retry-period", "1s", "--grace-period", "1h"),
    )


def pods(server):
    return server.call("GET", "/api/v1/pods")["items"]


def ready(server):
    conditions = [c for pod in pods(server) for c in pod["status"].get("conditions", ())]
    return sum((c["type"], c["status"]) == ("Ready", "True") for c in conditions)


def moving(server):
    return [pod for pod in pods(server) if MIGRATING in pod["metadata"]["labels"]]


def test_a_second_signal_ends_at_once_what_the_first_would_wait_for(server, tmp_path):
    with scheduler(server, tmp_path) as acting:
        server.until(lambda: moving(server))
        acting.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert acting.process.poll() is None
        code, out, err = acting.stop(signal.SIGINT)
    assert code == 0
    said = [json.loads(line) for line in out.splitlines()][-1]
    assert (said["event"], said["why"]) == ("stopped", "immediate stop requested")
    assert (said["signal"], said["moves_done"]) == ("SIGTERM", 0)
    assert "Traceback" not in err
    assert moving(server)
