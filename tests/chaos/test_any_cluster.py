"""Chaos on real sockets: the same oracles and incidents on a cluster over HTTP, with nothing left
behind, and hostile clients, which notice a listener without limits or that logs each request.
"""

import asyncio
import math
import random
import uuid
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.observability import server as metrics_server
from kubedsm.process import http_limits, log_throttle
from kubedsm.process.clock import SystemClock
from kubedsm_lab.bench.watched_api import WatchedApiServer, connect_blocking
from kubedsm_lab.chaos import any_cluster, hostile_connections
from kubedsm_lab.chaos.hands import MERGE
from kubedsm_lab.chaos.hostile_connections import attack
from kubedsm_lab.chaos.oracles import Invariants
from kubedsm_lab.cli.chaos import chaos
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import node_of
from kubedsm_lab.emulator.api.resources import LEASES, NAMESPACES, NODES, PODS
from support.processes import Server, until

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def server():
    """The cluster's own kubelets take an hour: only those of the hollow nodes start pods."""
    with Server("--start-delay", "1h") as started:
        yield started


def planned(server, **changes):
    name = f"kubedsm-chaos-{uuid.uuid4().hex[:6]}"
    values = {"incidents": 2, "seed": 1, "kill_every": 0, "cut_every": 0} | changes
    return any_cluster.Plan(Path(server.kubeconfig), None, name=name, **values)


def left_of(server, plan):
    """Return the names of all objects that carry the run's name."""
    paths = ("namespaces", "nodes", "namespaces/kube-node-lease/leases")
    groups = ("/api/v1", "/api/v1", "/apis/coordination.k8s.io/v1")
    return [
        each["metadata"]["name"]
        for group, path in zip(groups, paths, strict=True)
        for each in server.call("GET", f"{group}/{path}")["items"]
        if plan.name in each["metadata"]["name"]
    ]


@pytest.fixture
def quick(monkeypatch):
    for name, seconds in {"_LASTING": 1.0, "_PAUSE": 0.6, "_QUIET": 6.0, "_REACTION": 0.8}.items():
        monkeypatch.setattr(any_cluster, name, seconds)


@pytest.mark.long
async def test_incidents_break_no_guarantee_and_leave_nothing_behind(server):
    plan = planned(server, incidents=10, kill_every=15.0, cut_every=11.0)
    result = await any_cluster.run(plan, lambda: None)
    assert sum(result.incidents.values()) == 10
    assert result.harm["leaders killed"] + result.harm["standbys killed"]
    assert result.binds >= 6
    assert result.evictions
    assert (result.violations, result.left) == ([], [])
    assert left_of(server, plan) == []


async def test_an_interrupt_deletes_all_that_was_created(server, quick):
    plan = planned(server)
    running = asyncio.ensure_future(any_cluster.run(plan, lambda: None))
    await until(lambda: any("bank" in pod["metadata"]["name"] for pod in pods_of(server, plan)))
    name = f"/api/v1/namespaces/{plan.name}/pods/{pods_of(server, plan)[0]['metadata']['name']}"
    server.headers["Content-Type"] = MERGE
    await asyncio.to_thread(
        server.call, "PATCH", name, {"metadata": {"finalizers": ["example.com/held"]}}
    )
    assert left_of(server, plan)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert left_of(server, plan) == []


def pods_of(server, plan):
    return server.call("GET", f"/api/v1/namespaces/{plan.name}/pods")["items"]


async def test_watches_show_the_oracles_a_node_that_is_bound_too_much(server):
    name = f"over-{uuid.uuid4().hex[:6]}"
    clock, rng, path = SystemClock(), random.Random(0), Path(server.kubeconfig)
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    with connect_blocking(path, None) as send:
        api = WatchedApiServer(send, clock, rng)
        oracle = Invariants(api, name)
        async with await KubernetesCluster.connect(path) as cluster, asyncio.TaskGroup() as tasks:
            watches = [await api.watch(tasks, cluster, rng, each) for each in (NODES, PODS)]
            api.create(NAMESPACES, {"metadata": {"name": name}})
            api.create(NODES, any_cluster._build_node(name, "2", name))
            for pod in ("a", "b", "c"):
                spec = {"schedulerName": name, "containers": [container]}
                api.create(PODS, {"metadata": {"name": pod}, "spec": spec}, namespace=name)
                api.bind(name, pod, {"target": {"kind": "Node", "name": name}})
            await until(lambda: node_of(api.get(PODS, name, "c")))
            assert oracle.binds.total() == 3
            [violation] = oracle.wrong
            assert violation.startswith(f"I2: cpu on {name} lacks 1000")
            with pytest.raises(ApiError, match="not found"):
                api.evict(name, "d", {"metadata": {"name": "d"}})
            with pytest.raises(ApiError, match="already exists"):
                api.create(NAMESPACES, {"metadata": {"name": name}}, dry_run=True)
            for watch in watches:
                watch.cancel()
            assert await any_cluster.delete_all(api, name, clock) == []
            api.delete(NODES, "", name)
    assert not api.exists(LEASES, "kube-node-lease", name)


def test_a_violation_or_an_object_left_behind_is_exit_code_1(server, monkeypatch):
    async def give(plan, advance):
        wrong = ["I2: cpu on n lacks 1000 with p"] if plan.seed == 1 else []
        left = ["/api/v1/nodes/n"] if plan.seed == 2 else []
        return any_cluster.Result({("budget", "caused"): 1}, {}, 1, 0, 1, wrong, left)

    monkeypatch.setattr(any_cluster, "run", give)
    given = ["--kubeconfig", str(server.kubeconfig), "--yes", "--seed"]
    codes, printed = zip(
        *(
            ((done := CliRunner().invoke(chaos, [*given, str(n)])).exit_code, done.output)
            for n in range(3)
        ),
        strict=True,
    )
    assert codes == (0, 1, 1)
    assert "BROKEN I2: cpu on n lacks 1000 with p" in printed[1]
    assert "not deleted: /api/v1/nodes/n" in printed[2]


def test_without_consent_nothing_is_created(server, monkeypatch):
    monkeypatch.setattr(any_cluster, "run", None)
    done = CliRunner().invoke(chaos, ["--kubeconfig", str(server.kubeconfig)], input="n\n")
    assert done.exit_code == 1
    assert "Aborted" in done.output


# `kubedsm chaos`, which .ci/run runs, does the same.
@pytest.mark.long
def test_a_scheduler_keeps_its_lease_and_binds_pods_among_hostile_clients():
    assert attack() == []


@pytest.mark.long
def test_a_listener_without_limits_is_noticed(monkeypatch):
    endless = attrs.evolve(http_limits.METRICS, connections=10_000, per_address=10_000)
    monkeypatch.setattr(metrics_server, "METRICS", endless)
    monkeypatch.setattr(hostile_connections, "_PATIENCE", 2.0)
    monkeypatch.setattr(hostile_connections, "_EACH", 45)
    assert "metrics: more than 128 connections" in attack()


@pytest.mark.long
def test_a_line_for_each_request_is_noticed(monkeypatch):
    monkeypatch.setattr(log_throttle, "PERIOD", -math.inf)
    monkeypatch.setattr(hostile_connections, "_EACH", 10)
    assert any("lines into the log" in violation for violation in attack())
