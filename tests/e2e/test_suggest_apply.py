"""`kubedsm run --dry-run`, then one that leads, and `suggest --apply` beside it: over HTTP."""

import signal

import pytest

from kubedsm_lab.emulator.paper import node
from support.command_line import kubedsm
from support.processes import Scheduler, Server, write

pytestmark = pytest.mark.http

CLOUD_ONLY = "nodes: [{name: c1, tier: cloud, cpu: 8, memory: 8Gi}]"
OFF = "{suggester: {mode: 'off'}, migration: {drainDelay: 0s}}"
QUICK = ("--leader-elect-retry-period", "1s")
LEASES = "/apis/coordination.k8s.io/v1/leases"


def test_first_nothing_is_done_then_the_leader_does_what_it_is_asked_for(tmp_path):
    config = write(tmp_path, "off.yaml", OFF)
    with Server("--cluster", write(tmp_path, "cluster.yaml", CLOUD_ONLY)) as server:
        server.deploy("web", 1)
        with Scheduler(server, "--config", config, *QUICK, "--dry-run") as dry:
            at = dry.until("connected")["diagnostics"]
            server.until(lambda: "would bind" in dry.line())
            assert server.bound() == 0
            assert server.call("GET", LEASES)["items"] == []
            assert server.call("GET", "/api/v1/events")["items"] == []
            with Scheduler(server, "--config", config, *QUICK) as leader:
                leader.until("leading")
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


def ready(server):
    """Where Ready pods are."""
    return [
        pod["spec"].get("nodeName")
        for pod in server.call("GET", "/api/v1/pods")["items"]
        for condition in pod["status"].get("conditions", ())
        if (condition["type"], condition["status"]) == ("Ready", "True")
    ]
