"""`kubedsm run` as its pod would: https, its ServiceAccount's token, the shipped rights."""

import asyncio
import json
import random
import sys
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest

from kubedsm.process.clock import SystemClock
from kubedsm_lab.emulator.api.resources import CONFIGMAPS
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.http.server import kubeconfig
from kubedsm_lab.emulator.paper import node
from support.in_cluster import secured
from support.processes import PATIENCE
from support.rights import ACCOUNT, ADMIN_TOKEN, Right, install, rights

pytestmark = pytest.mark.http

NODES = (node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "4", "8Gi"))
CONFIGURATION = """
apiVersion: kubedsm.io/v1alpha1
kind: KubeDSMConfiguration
preemption: enabled
suggester: {mode: apply, period: 200ms}
migration: {drainDelay: 100ms}
"""


def deployment(name, replicas, **spec):
    labels = {"app": name}
    requests = {"cpu": "1", "memory": "100Mi"}
    container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
    spec = {"schedulerName": "kubedsm", "terminationGracePeriodSeconds": 0, **spec}
    template = {"metadata": {"labels": labels}, "spec": {**spec, "containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


class Admin:
    """The administrator, who deploys and looks."""

    def __init__(self, server, session):
        self.server, self.session = server, session

    async def deploy(self, name, replicas, **spec):
        path = "/apis/apps/v1/namespaces/default/deployments"
        given = deployment(name, replicas, **spec)
        async with self.session.post(self.server.url + path, json=given) as answer:
            assert answer.status == 201, await answer.text()

    async def listed(self, what):
        path = f"{self.server.url}/api/v1/namespaces/default/{what}"
        async with self.session.get(path) as answer:
            return (await answer.json())["items"]

    async def until_bound(self, app, number):
        async def bound():
            pods = [p for p in await self.listed("pods") if p["metadata"]["labels"]["app"] == app]
            return sum("nodeName" in p["spec"] for p in pods) == number

        await until(bound, f"{number} of {app} to be bound")

    async def until_told(self, reason):
        async def told():
            return any(event["reason"] == reason for event in await self.listed("events"))

        await until(told, f"an Event {reason}")


async def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not await condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.05)


async def started(environment, *arguments):
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "kubedsm", "run", "--diagnostics-port", "0", "-o", "json", *arguments),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def installed(missing=None):
    """The shipped rights but the missing one, a configuration; the administrator and the server."""
    spec = ClusterSpec(NODES, Timing(start_delay=0.1, stop_delay=0.1))
    async with (
        EmulatedCluster(spec, SystemClock(), random.Random(0), token=ADMIN_TOKEN) as cluster,
        secured(cluster) as server,
        aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
            connector=aiohttp.TCPConnector(ssl=server.client_tls()),
        ) as session,
    ):
        install(cluster, missing)
        given = {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": CONFIGURATION}}
        cluster.api.create(CONFIGMAPS, given, namespace="kubedsm")
        yield Admin(server, session), server


@asynccontextmanager
async def as_its_pod(server, tmp_path, said):
    """`kubedsm run` with what its pod is given; `said` gets the lines of its log."""
    pod = server.environment_of(tmp_path / "mounted", *ACCOUNT)
    process = await started(
        pod, "--configmap", "kubedsm/kubedsm", "--metrics-address", "127.0.0.1:0"
    )
    try:
        yield
    finally:
        process.terminate()
        out, _ = await process.communicate()
        said.extend(json.loads(line) for line in out.splitlines())


def complaints(said):
    """But that something came late: how busy this machine is, is nothing a right could mend."""
    loud = [line for line in said if line["level"] in ("warning", "error")]
    return [line for line in loud if line["event"] not in ("event loop late", "no response")]


async def test_the_shipped_manifests_are_what_it_can_live_on(tmp_path):
    said = []
    async with installed() as (admin, server), as_its_pod(server, tmp_path, said):
        await admin.deploy("first", 4)
        await admin.until_bound("first", 4)
        await admin.deploy("second", 2)
        await admin.until_told("Migrated")
        await admin.deploy("third", 2)
        await admin.until_bound("third", 2)
        await admin.deploy("urgent", 1, priorityClassName="system-cluster-critical")
        await admin.until_told("Preempted")
        await admin.until_bound("urgent", 1)
    assert server.log.forbidden == []
    assert complaints(said) == []
    paths = {asked.path for asked, _ in server.log.requests}
    assert "/api/v1/namespaces/kubedsm/configmaps" in paths  # the pause switch


async def test_without_the_right_to_read_its_configuration_it_places_pods_all_the_same(tmp_path):
    said, missing = [], Right("Role", "", "configmaps", "get")
    assert missing in rights()
    async with installed(missing) as (admin, server), as_its_pod(server, tmp_path, said):
        await admin.deploy("first", 4)
        await admin.until_bound("first", 4)
    [line] = complaints(said)
    assert line["event"] == "configuration unreadable, defaults in effect"
    assert 'cannot get resource "configmaps"' in line["error"]


async def test_a_token_that_the_cluster_does_not_know_is_refused_in_one_line(tmp_path):
    async with (
        EmulatedCluster(ClusterSpec(()), SystemClock(), random.Random(0), token="t") as cluster,  # noqa: S106 - nobody's
        secured(cluster) as server,
    ):
        install(cluster)
        config = tmp_path / "kubeconfig"
        config.write_text(json.dumps(kubeconfig(server.url, "another", server.ca)))
        process = await started(None, "--kubeconfig", str(config))
        _, errors = await process.communicate()
    assert process.returncode == 1
    [line] = errors.decode().splitlines()
    assert line.startswith("kubedsm: error: 401 Unauthorized")
