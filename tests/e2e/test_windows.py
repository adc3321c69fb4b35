"""A freeze and a budget set by kubectl while a scheduler runs, and what `kubedsm explain` says."""

import json

import pytest

from support.command_line import kubedsm
from support.kubectl import Kubectl, needs_kubectl
from support.processes import Scheduler, Server, free_port

pytestmark = [pytest.mark.http, pytest.mark.long, needs_kubectl]

COMMON = "suggester: {period: 500ms}\nmigration: {price: 0s, drainDelay: 200ms, "
FREEZE = "freezes: {start: 2020-01-01T00:00:00Z, end: 2090-01-01T00:00:00Z}}"
BUDGET = "budget: {workloadPerHour: 1}}"


def test_a_freeze_is_explained_and_lifted_and_a_budget_outlives_the_scheduler(tmp_path):
    port = free_port()
    with Server() as server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)

        def configure(text):
            data = json.dumps({"data": {"config.yaml": COMMON + text}})
            kubectl("-n", "kubedsm", "patch", "cm", "kubedsm", "--type=merge", "-p", data)

        def at_edge():
            pods = server.call("GET", "/api/v1/namespaces/default/pods")["items"]
            return sum(
                pod["metadata"]["labels"].get("kubedsm.io/tier") == "edge"
                and "deletionTimestamp" not in pod["metadata"]
                for pod in pods
            )

        def explain():
            asked = ("explain", "deployment/default/web", "--server", f"http://127.0.0.1:{port}")
            done = kubedsm(*asked, "--kubeconfig", server.kubeconfig)
            return " ".join(done.stdout.split())

        kubectl("-n", "kubedsm", "create", "configmap", "kubedsm")
        kubectl("cordon", "-l", "kubedsm.io/tier=edge")
        configure(FREEZE)
        options = ("--configmap", "kubedsm/kubedsm")
        with Scheduler(server, *options, diagnostics=str(port)) as scheduler:
            server.deploy("web", 2)
            server.until(lambda: server.bound() == 2)
            kubectl("uncordon", "-l", "kubedsm.io/tier=edge")
            assert "Migrations are deferred until 2090-01-01 00:00 UTC: frozen." in explain()
            assert at_edge() == 0
            configure(BUDGET)
            server.until(lambda: at_edge() == 1)
            scheduler.until("migration ended")
        with Scheduler(server, *options, diagnostics=str(port)) as scheduler:
            scheduler.until("leading")
            server.until(lambda: "the budget of 1 per workload an hour is spent" in explain())
            assert at_edge() == 1
