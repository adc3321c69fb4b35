"""`kubedsm run` as its pod would: https, its ServiceAccount's token, the shipped rights."""

import asyncio
import json
import random
import signal

import pytest

from kubedsm.process.clock import SystemClock
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, DEPLOYMENTS, EVENTS, PODS
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.paper import node, pod_spec, workload
from support.forked import Forked
from support.processes import PATIENCE, until
from support.rights import ACCOUNT, ADMIN_TOKEN, install, secured

NODES = (node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "4", "8Gi"))
CONFIGURATION = """
preemption: enabled
suggester: {mode: apply, period: 200ms}
migration: {drainDelay: 100ms}
"""
#: of a busy machine, which no right could mend
LATE = ("event loop late", "no response")


def deploy(api, name, replicas, **spec):
    given = workload(name, replicas, pod_spec({"cpu": "1", "memory": "100Mi"}, **spec))
    api.create(DEPLOYMENTS, given, namespace="default")


@pytest.mark.http
async def test_the_shipped_manifests_are_what_it_can_live_on(tmp_path):
    spec, clock = ClusterSpec(NODES, Timing(start_delay=0.1, stop_delay=0.1)), SystemClock()

    async with (
        EmulatedCluster(spec, clock, random.Random(0), token=ADMIN_TOKEN) as cluster,
        secured(cluster) as server,
    ):
        api = cluster.api

        def bound(app):
            pods = api.list(PODS, "default", labels=f"app={app}")
            return sum("nodeName" in pod["spec"] for pod in pods)

        def has_event(reason):
            return any(event["reason"] == reason for event in api.list(EVENTS, "default"))

        install(cluster)
        given = {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": CONFIGURATION}}
        api.create(CONFIGMAPS, given, namespace="kubedsm")
        options = ("--configmap", "kubedsm/kubedsm", "--metrics-address", "127.0.0.1:0")
        environment = server.environment_of(tmp_path / "mounted", *ACCOUNT)
        process = Forked(
            ("run", "--diagnostics-port", "0", "-o", "json", *options),
            **{"KUBECONFIG": "", **environment},
        )
        try:
            deploy(api, "first", 4)
            await until(lambda: bound("first") == 4)
            deploy(api, "second", 2)
            await until(lambda: has_event("Migrated"))
            deploy(api, "third", 2)
            await until(lambda: bound("third") == 2)
            deploy(api, "urgent", 1, priorityClassName="system-cluster-critical")
            await until(lambda: has_event("Preempted"))
            await until(lambda: bound("urgent") == 1)
        finally:
            process.send_signal(signal.SIGTERM)
            out, _ = await asyncio.to_thread(process.communicate, PATIENCE)
    assert server.log.forbidden == []
    lines = map(json.loads, out.splitlines())
    loud = [line for line in lines if line["level"] in ("warning", "error")]
    assert [line for line in loud if line["event"] not in LATE] == []
    paths = {asked.path for asked, _ in server.log.requests}
    assert "/api/v1/namespaces/kubedsm/configmaps" in paths  # the pause switch
