"""The image that .ci/image built: what is in it, and that it works as the manifests start it."""

import asyncio
import json
import os
import random
import shutil
import subprocess

import pytest

from kubedsm.kube.client.environment import SERVICE_ACCOUNT
from kubedsm.process.clock import SystemClock
from kubedsm_lab.emulator.api.object_state import node_of
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, DEPLOYMENTS, PODS
from kubedsm_lab.emulator.emulated_cluster import EmulatedCluster
from kubedsm_lab.emulator.paper import paper_cluster, pod_spec, workload
from support.manifests import BASE as MANIFESTS
from support.manifests import NAMESPACE, arguments, made, pod
from support.processes import PATIENCE, until
from support.rights import ACCOUNT, ADMIN_TOKEN, install, secured

PODMAN = shutil.which("podman")
IMAGE, BASE = os.environ.get("KUBEDSM_IMAGE"), os.environ.get("KUBEDSM_IMAGE_BASE")

#: bytes more than its base
MOST = 110_000_000
BURST = 40
pytestmark = [
    pytest.mark.http,
    pytest.mark.skipif(IMAGE is None, reason=".ci/image builds the image and runs this"),
]

#: what is anywhere, what a shell would find, and which of our files are bytecode
LOOK = """
import importlib, json, os, pkgutil, shutil, sys
import kubedsm, loadgen, plans, prometheus_api_client.prometheus_connect
for package in (kubedsm, loadgen, plans):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith((".__main__", ".cp_sat_library", ".watch_app")):
            importlib.import_module(module.name)
tools = {"pip", "pip3", "ensurepip", "pytest"}
everywhere = [os.path.join(folder, name) for top in os.listdir("/") if top not in ("proc", "sys")
              for folder, folders, files in os.walk("/" + top) for name in folders + files]
print(json.dumps({
    "tools": [p for p in everywhere
              if os.path.basename(p) in tools or os.path.basename(p).startswith("pip-")],
    "compilers": [p for p in ("cc", "gcc", "c++", "ld", "as") if shutil.which(p)],
    "tests": [p for p in everywhere if p.startswith(sys.prefix) and p.endswith("/tests")],
    "bytecode": [p for p in everywhere if p.startswith(sys.prefix) and p.endswith(".pyc")],
    "used": [m.__cached__ for m in sys.modules.values() if getattr(m, "__cached__", None)],
}))
"""


def say(text):
    print(f"\n{text}")  # noqa: T201 - .ci/image shows it


def podman(*arguments):
    """Both outputs, as the log of a container is on both."""
    done = subprocess.run(
        [PODMAN, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


def size(image):
    return int(podman("image", "inspect", "--format", "{{.Size}}", image))


def restrictions():
    """The pod's security contexts, as podman has them."""
    of_pod, [container] = pod()["securityContext"], pod()["containers"]
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    return [
        "--read-only", "--read-only-tmpfs=false", "--security-opt=no-new-privileges",
        *(f"--cap-drop={name}" for name in context["capabilities"]["drop"]),
        f"--user={of_pod['runAsUser']}:{of_pod['runAsGroup']}",
    ]  # fmt: skip


def given_by_the_kubelet(folder, server):
    """The ServiceAccount and where its API server is, as podman has them."""
    account = folder / "account"
    environment = server.environment_of(account, *ACCOUNT)
    return [
        f"--volume={account}:{SERVICE_ACCOUNT}:ro",
        *(f"--env={n}={environment[n]}" for n in environment if n.startswith("KUBERNETES_")),
    ]


@pytest.fixture(scope="module")
def found():
    return json.loads(
        podman("run", "--rm", "--network=none", "--entrypoint=python3", IMAGE, "-c", LOOK)
    )


def test_it_is_not_much_larger_than_its_base_and_starts_as_the_same_user():
    image, base = size(IMAGE), size(BASE)
    say(f"{IMAGE}: {image / 1e6:.1f} MB, {(image - base) / 1e6:.1f} MB more than its base")
    assert image - base <= MOST
    context = pod()["securityContext"]
    user = podman("image", "inspect", "--format", "{{.Config.User}}", IMAGE)
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_nothing_to_build_or_test_with_is_in_it(found):
    assert {kind: found[kind] for kind in ("tools", "compilers", "tests")} == {
        "tools": [],
        "compilers": [],
        "tests": [],
    }


def test_what_is_imported_is_compiled_and_nothing_else(found):
    """But for what a module tried to import and did without, and what its package lists."""
    used = {path for path in found["used"] if path.startswith("/opt/kubedsm/")}
    assert used
    assert used - set(found["bytecode"]) == set()
    others = set(found["bytecode"]) - used
    say(f"{len(used)} modules are compiled and imported, {len(others)} compiled only")
    assert len(others) < len(used) / 100


@pytest.mark.parametrize("program", ["kubedsm", "loadgen"])
def test_both_programs_start_with_nothing_to_write_to(program):
    entrypoint = (*restrictions(), f"--entrypoint={program}")
    said = podman("run", "--rm", "--network=none", *entrypoint, IMAGE, "--help")
    assert said.startswith(f"Usage: {program}")


async def test_it_binds_a_burst_as_the_manifests_start_it(tmp_path):
    rng = random.Random(0)
    async with (
        EmulatedCluster(paper_cluster(), SystemClock(), rng, token=ADMIN_TOKEN) as cluster,
        secured(cluster) as server,
    ):
        install(cluster)
        configmap = made(MANIFESTS)["ConfigMap", "kubedsm"]
        cluster.api.create(CONFIGMAPS, configmap, namespace=NAMESPACE)
        web = workload("web", BURST, pod_spec({"cpu": "100m", "memory": "32Mi"}))
        cluster.api.create(DEPLOYMENTS, web, namespace="default")
        options = ("--network=host", *restrictions(), *given_by_the_kubelet(tmp_path, server))
        # Another scheduler may have the default ports of this machine.
        ports = ("--diagnostics-port=0", "--metrics-address=127.0.0.1:0")
        command = (IMAGE, *arguments(), *ports)
        # In threads, as the cluster is to answer meanwhile.
        name = await asyncio.to_thread(podman, "run", "--detach", *options, *command)
        try:
            await until(lambda: sum(map(bool, map(node_of, cluster.api.list(PODS)))) == BURST)
            await asyncio.to_thread(podman, "stop", "--time=60", name)
            code = podman("inspect", "--format={{.State.ExitCode}}", name)
        finally:
            say(await asyncio.to_thread(podman, "logs", name))
            await asyncio.to_thread(podman, "rm", "--force", name)
    assert (code, server.log.forbidden) == ("0", [])
    say(f"{BURST} pods bound by {IMAGE}, {' '.join(restrictions())}")
