"""`kubedsm run --dry-run`, then one that leads, and `suggest --apply` beside it: over HTTP."""

import json
import signal

import pytest

from kubedsm_lab.emulator.paper import node
from support.command_line import kubedsm
from support.processes import Process, Server, write

pytestmark = pytest.mark.http

CLOUD_ONLY = "nodes: [{name: c1, tier: cloud, cpu: 8, memory: 8Gi}]"
OFF = "{suggester: {mode: 'off'}, migration: {drainDelay: 0s}}"
LEASES = "/apis/coordination.k8s.io/v1/leases"


def test_first_nothing_is_done_then_the_leader_does_what_it_is_asked_for(tmp_path):
    config = write(tmp_path, "off.yaml", OFF)
    with Server("--cluster", write(tmp_path, "cluster.yaml", CLOUD_ONLY)) as server:
        server.deploy("web", 1)
        with scheduler(server, config, "--dry-run") as dry:
            at = next(filter(None, (json.loads(dry.line()).get("diagnostics") for _ in range(9))))
            server.until(lambda: "would bind" in dry.line())
            assert server.bound() == 0
            assert server.call("GET", LEASES)["items"] == []
            assert server.call("GET", "/api/v1/events")["items"] == []
            with scheduler(server, config) as leader:
                server.until(lambda: "leading" in leader.line())
                server.until(lambda: ready(server) == ["c1"])
                server.call("POST", "/api/v1/nodes", node("e1", "edge", "4", "8Gi"))
                apply = ("suggest", "--apply", "--kubeconfig", server.kubeconfig)
                refused = kubedsm(*apply, "--server", at)
                assert (refused.returncode, ready(server)) == (1, ["c1"])
                assert "is a dry run, which takes no requests" in refused.stderr
                done = kubedsm(*apply)
                assert done.returncode == 0, done.stderr
                *_, taken, moved = done.stderr.splitlines()
                assert taken.startswith("kubedsm: the running scheduler has accepted request ")
                assert moved.endswith(" to e1 completed")
                assert ready(server) == ["e1"]
            code, _, _ = dry.stop(signal.SIGTERM)
            assert code == 0


def scheduler(server, config, *more):
    return Process(
        *("run", "--kubeconfig", server.kubeconfig, "--config", config, "-o", "json"),
        *("--diagnostics-port", "0", "--leader-elect-retry-period", "1s", *more),
    )


def ready(server):
    """Where Ready pods are."""
    return [
        pod["spec"].get("nodeName")
        for pod in server.call("GET", "/api/v1/pods")["items"]
        for condition in pod["status"].get("conditions", ())
        if (condition["type"], condition["status"]) == ("Ready", "True")
    ]
