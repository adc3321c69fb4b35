"""Commands that name a cluster get no answer about another one from a scheduler on loopback."""

import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from support.command_line import kubedsm
from support.processes import Scheduler, Server, unreachable

pytestmark = pytest.mark.http
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def scheduled():
    """Cluster A with a scheduler, and its address."""
    with Server() as server, Scheduler(server) as scheduler:
        said = scheduler.until("connected")
        server.deploy("web", 1)
        server.until(lambda: server.bound() == 1)
        yield server, said["diagnostics"]


@pytest.fixture(scope="module")
def another():
    """Cluster B: a pod waits there, and no scheduler of ours runs."""
    with Server() as server:
        server.configure()
        server.deploy("db", 1)
        server.until(lambda: server.call("GET", "/api/v1/pods")["items"])
        yield server


def pod_of(server):
    [pod] = server.call("GET", "/api/v1/pods")["items"]
    return pod["metadata"]["name"]


#: commands that ask a running scheduler about a cluster
ASKING = {
    "explain": lambda server: ("explain", f"default/{pod_of(server)}"),
    "explain all": lambda _: ("explain", "--all"),
    "suggest": lambda _: ("suggest",),
    "pack": lambda _: ("pack",),
    "config": lambda _: ("config", "show", "--running"),
}


@pytest.mark.parametrize("command", ASKING)
def test_a_wrong_kubeconfig_fails_though_a_scheduler_answers(scheduled, tmp_path, command):
    server, url = scheduled
    for given, why in (
        (("--kubeconfig", server.kubeconfig, "--context", "nope"), "no context 'nope'"),
        (("--kubeconfig", tmp_path / "nope"), "no such file"),
        (("--kubeconfig", unreachable(tmp_path)), "connection refused; check that the API server"),
    ):
        done = kubedsm(*ASKING[command](server), *given, "--server", url)
        assert (done.returncode, done.stdout) == (1, "")
        assert why in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ASKING)
def test_a_scheduler_of_another_cluster_is_ignored(scheduled, another, command):
    _, url = scheduled
    arguments = ASKING[command](another)
    done = kubedsm(*arguments, "--kubeconfig", another.kubeconfig, "--server", url, "-o", "json")
    first, *more = done.stderr.splitlines()
    ignored = f"kubedsm: the scheduler at {url} serves another cluster; ignored: {another.url} is"
    assert first == f"{ignored} read instead"
    if command == "config":
        assert (done.returncode, done.stdout) == (1, "")
        assert more == [f"kubedsm: error: no scheduler of {another.url} responds at {url}"]
        return
    assert (done.returncode, more) == (0, [])
    said = json.loads(done.stdout)
    if "explain" in command:
        assert said["pod"] == f"default/{pod_of(another)}"
        assert said["nodesAsOf"] == "now"


def test_the_scheduler_of_the_named_cluster_answers(scheduled):
    server, url = scheduled
    done = kubedsm(
        *ASKING["explain"](server), "--kubeconfig", server.kubeconfig, "--server", url, "-o", "json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["nodesAsOf"] == "decision"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")
def test_the_command_in_the_docs_names_the_leader(scheduled):
    server, _ = scheduled
    for page in ("use-the-page", "explain-decisions", "troubleshoot"):
        text = (DOCS / "how-to" / f"{page}.md").read_text(encoding="utf-8")
        [command] = re.findall(r"kubectl -n kubedsm get lease [^\n]* cut -d_ -f1", text)
        assert "deploy/kubedsm" not in text
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            env={**os.environ, "KUBECONFIG": server.kubeconfig},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{socket.gethostname()}\n"
