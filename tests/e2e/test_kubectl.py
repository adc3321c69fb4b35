"""kubectl works on the emulated cluster."""

import asyncio
import json
import os
import random
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest

from kubedsm.process.clock import SystemClock
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.http.server import HttpFront, kubeconfig

KUBECTL = shutil.which("kubectl")

pytestmark = [
    pytest.mark.http,
    pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH"),
]

#: its pods name their node, so that no scheduler is needed
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: n2
      terminationGracePeriodSeconds: 0
      containers:
      - {name: c, image: nginx, resources: {requests: {cpu: 100m, memory: 64Mi}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: lone}
spec:
  nodeName: n3
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: nginx}]
"""
NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata: {name: lab}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: lab}
data: {a: "1"}
"""


@attrs.frozen
class Kubectl:
    environment: dict[str, str]

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        assert KUBECTL is not None
        return await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            env=self.environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def fail(self, *arguments: str, stdin: str = "") -> str:
        """What it says on stderr when it fails, as it must."""
        code, _, errors = await self._run(arguments, stdin)
        assert code != 0, arguments
        return errors

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What it prints; it must succeed."""
        code, output, errors = await self._run(arguments, stdin)
        assert code == 0, f"kubectl {' '.join(arguments)}: {errors}"
        return output

    async def _run(self, arguments: tuple[str, ...], stdin: str) -> tuple[int | None, str, str]:
        async with asyncio.timeout(20):
            process = await self.start(*arguments)
            output, errors = await process.communicate(stdin.encode())
        return process.returncode, output.decode(), errors.decode()


def table(output: str) -> list[dict[str, str]]:
    """The rows of `kubectl get`; columns are two blanks or more apart, as are headings."""
    header, *lines = output.splitlines()
    starts = [
        index
        for index, letter in enumerate(header)
        if letter != " " and (index == 0 or header[max(0, index - 2) : index] == "  ")
    ]
    ends = [*starts[1:], None]
    spans = list(zip(starts, ends, strict=True))
    return [{header[a:b].strip(): line[a:b].strip() for a, b in spans} for line in lines if line]


def node(name: str, tier: str) -> dict[str, object]:
    amounts = {"cpu": "4", "memory": "4Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubedsm.io/tier": tier}},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    spec = ClusterSpec(
        (node("n2", "edge"), node("n3", "cloud")),
        Timing(start_delay=0.05, stop_delay=0.05),
    )
    config = tmp_path / "kubeconfig"
    async with (
        EmulatedCluster(spec, SystemClock(), random.Random(0)) as cluster,
        HttpFront(cluster.routes) as front,
    ):
        config.write_text(json.dumps(kubeconfig(front.url)))
        # HOME holds its cache of what a server at an address can do
        yield Kubectl(
            {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(config)}
        )


@pytest.fixture
async def web(kubectl: Kubectl) -> Kubectl:
    """With the Deployment `web` rolled out."""
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    out = await kubectl("rollout", "status", "deployment/web", "--timeout=10s")
    assert "successfully rolled out" in out
    return kubectl


async def test_get_prints_the_columns_of_a_real_server(web: Kubectl) -> None:
    pods = table(await web("get", "pods", "-o", "wide"))
    assert len(pods) == 2
    for pod in pods:
        assert pod["NAME"].startswith("web-")
        assert (pod["READY"], pod["STATUS"], pod["RESTARTS"]) == ("1/1", "Running", "0")
        assert pod["NODE"] == "n2"
        assert pod["NOMINATED NODE"] == pod["READINESS GATES"] == "<none>"

    nodes = table(await web("get", "nodes", "-o", "wide"))
    assert [(n["NAME"], n["STATUS"], n["ROLES"]) for n in nodes] == [
        ("n2", "Ready", "<none>"),
        ("n3", "Ready", "<none>"),
    ]
    (deployment,) = table(await web("get", "deployments", "-o", "wide"))
    assert (deployment["READY"], deployment["UP-TO-DATE"], deployment["AVAILABLE"]) == (
        "2/2",
        "2",
        "2",
    )
    assert (deployment["IMAGES"], deployment["SELECTOR"]) == ("nginx", "app=web")
    (replica_set,) = table(await web("get", "rs"))
    assert (replica_set["DESIRED"], replica_set["CURRENT"], replica_set["READY"]) == ("2", "2", "2")
    assert "pod/web-" in await web("get", "all")
    labels = table(await web("get", "pods", "--show-labels"))
    assert all("app=web" in pod["LABELS"] for pod in labels)
    everywhere = table(await web("get", "pods", "-A"))
    assert {pod["NAMESPACE"] for pod in everywhere} == {"default"}
    assert await web("get", "pods", "-l", "app=other") == ""


async def test_describe_reads_what_it_needs(web: Kubectl) -> None:
    described = await web("describe", "deployment", "web")
    assert "2 desired | 2 updated | 2 total | 2 available | 0 unavailable" in described
    described = await web("describe", "pods", "-l", "app=web")
    assert "Node:             n2" in described
    assert "Controlled By:  ReplicaSet/web-" in described
    assert "kubedsm.io/tier=edge" in await web("describe", "node", "n2")


async def test_scale_and_wait(web: Kubectl) -> None:
    assert await web("scale", "deployment/web", "--replicas=3") == "deployment.apps/web scaled\n"
    await web("rollout", "status", "deployment/web", "--timeout=10s")
    assert len(table(await web("get", "pods"))) == 3
    await web("scale", "deployment/web", "--replicas=1")
    await web("wait", "deployment/web", "--for=jsonpath={.status.replicas}=1", "--timeout=10s")


async def test_apply_again_changes_only_what_changed(web: Kubectl) -> None:
    same = await web("apply", "-f", "-", stdin=DEPLOYMENT)
    assert same == "deployment.apps/web unchanged\n"
    more = await web("apply", "-f", "-", stdin=DEPLOYMENT.replace("100m", "200m"))
    assert more == "deployment.apps/web configured\n"
    await web("rollout", "status", "deployment/web", "--timeout=10s")
    requests = await web(
        "get", "deployment", "web",
        "-o", "jsonpath={.spec.template.spec.containers[0].resources.requests}",
    )  # fmt: skip
    assert json.loads(requests) == {"cpu": "200m", "memory": "64Mi"}


async def test_a_field_of_the_wrong_type_is_refused(kubectl: Kubectl) -> None:
    wrong = DEPLOYMENT.replace("replicas: 2", "replicas: two")
    assert "cannot be handled as a Deployment" in await kubectl.fail(
        "apply", "-f", "-", stdin=wrong
    )


async def test_label_annotate_and_patch(web: Kubectl) -> None:
    await web("label", "deployment", "web", "team=a")
    await web("annotate", "deployment", "web", "kubedsm.io/qos=0.5")
    await web("patch", "deployment", "web", "-p", '{"metadata":{"labels":{"team":"b"}}}')
    await web(
        "patch", "deployment", "web", "--type=merge",
        "-p", '{"metadata":{"annotations":{"kubedsm.io/qos":null}}}',
    )  # fmt: skip
    await web(
        "patch", "deployment", "web", "--type=json",
        "-p", '[{"op":"add","path":"/metadata/labels/tier","value":"front"}]',
    )  # fmt: skip
    metadata = json.loads(await web("get", "deployment", "web", "-o", "jsonpath={.metadata}"))
    assert metadata["labels"] == {"app": "web", "team": "b", "tier": "front"}
    assert "kubedsm.io/qos" not in metadata["annotations"]
    assert "not found" in await web.fail("label", "deployment", "ghost", "a=b")


async def test_cordon_and_taint(kubectl: Kubectl) -> None:
    await kubectl("cordon", "n2")
    await kubectl("taint", "nodes", "n3", "lab=gpu:NoSchedule")
    nodes = {n["NAME"]: n for n in table(await kubectl("get", "nodes"))}
    assert nodes["n2"]["STATUS"] == "Ready,SchedulingDisabled"
    taints = await kubectl("get", "node", "n3", "-o", "jsonpath={.spec.taints}")
    assert json.loads(taints) == [{"key": "lab", "value": "gpu", "effect": "NoSchedule"}]
    await kubectl("uncordon", "n2")
    await kubectl("taint", "nodes", "n3", "lab-")
    nodes = {n["NAME"]: n for n in table(await kubectl("get", "nodes"))}
    assert nodes["n2"]["STATUS"] == "Ready"


async def test_drain_evicts_what_a_controller_brings_back(web: Kubectl) -> None:
    out = await web("drain", "n2", "--timeout=10s")
    assert "node/n2 drained" in out


async def test_get_watches(kubectl: Kubectl) -> None:
    watching = await kubectl.start("get", "pods", "-w")
    assert watching.stdout is not None
    try:
        async with asyncio.timeout(10):
            await kubectl("create", "-f", "-", stdin=POD)
            seen = ""
            while "Running" not in seen:
                seen += (await watching.stdout.readline()).decode()
            await kubectl("delete", "pod", "lone")
            while "Terminating" not in seen:
                seen += (await watching.stdout.readline()).decode()
    finally:
        watching.terminate()
        await watching.communicate()
    assert seen.startswith("NAME   READY   STATUS")
    assert seen.count("NAME") == 1


async def test_delete_waits_until_it_is_gone(web: Kubectl) -> None:
    await web("create", "-f", "-", stdin=POD)
    assert await web("delete", "pod", "lone") == 'pod "lone" deleted\n'
    assert 'pods "lone" not found' in await web.fail("get", "pod", "lone")
    await web("delete", "deployment", "web")
    await web("wait", "pods", "-l", "app=web", "--for=delete", "--timeout=10s")
    assert await web("get", "pods") == ""


async def test_a_namespace_takes_all_of_its_contents_with_it(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=NAMESPACE)
    await kubectl("-n", "lab", "apply", "-f", "-", stdin=DEPLOYMENT)
    await kubectl("delete", "namespace", "lab", "--timeout=10s")
    namespaces = {n["NAME"] for n in table(await kubectl("get", "namespaces"))}
    assert "lab" not in namespaces
    assert await kubectl("get", "pods,configmaps", "-A", "-o", "name") == ""


async def test_everything_discovery_lists_can_be_listed(web: Kubectl) -> None:
    names = {resource["NAME"] for resource in table(await web("api-resources", "--verbs=list"))}
    assert {"pods", "nodes", "leases", "horizontalpodautoscalers"} <= names
    # one call fails if any of them is not served
    await web("get", ",".join(sorted(names)), "-A", "-o", "wide")


async def test_what_it_cannot_do_it_says_in_one_sentence(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=POD)
    await kubectl("wait", "pod/lone", "--for=condition=Ready", "--timeout=10s")
    for command in (("exec", "lone", "--", "ls"), ("port-forward", "lone", "0:80")):
        assert "an emulated cluster runs no containers: " in await kubectl.fail(*command)
    unknown = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": "a"},
    }
    said = await kubectl.fail("apply", "-f", "-", stdin=json.dumps(unknown))
    assert 'no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"' in said
    assert "ensure CRDs are installed first" in said


async def test_version(kubectl: Kubectl) -> None:
    assert json.loads(await kubectl("version", "-o", "json"))["serverVersion"]["minor"] == "36"
