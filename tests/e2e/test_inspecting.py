"""Commands that ask about a cluster: its state, checks and scheduler, never those of another."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from support.command_line import kubedsm
from support.kubectl import KUBECTL, Kubectl, needs_kubectl
from support.processes import Process, Scheduler, Server, unreachable, write

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def scheduler(server):
    with Scheduler(server) as running:
        running.url = running.until("connected")["diagnostics"]
        running.until("leading")
        server.deploy("web", 1)
        server.until(lambda: server.bound() == 1)
        yield running


@pytest.fixture(scope="module")
def another():
    """Another cluster: a pod waits there, and no scheduler of ours runs."""
    with Server() as server:
        server.configure()
        server.deploy("db", 1)
        server.until(server.pods)
        yield server


def ask(server, scheduler, *arguments):
    return kubedsm(*arguments, "--kubeconfig", server.kubeconfig, "--server", scheduler.url)


def test_without_a_scheduler_the_state_is_down_and_the_check_fails(another):
    nowhere = ("--kubeconfig", another.kubeconfig, "--server", "http://127.0.0.1:9")
    done = kubedsm("status", *nowhere)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("down: No scheduler is known to lead")
    done = kubedsm("check", *nowhere, "-o", "json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert said["ok"] is False
    failed = [each["text"] for each in said["checks"] if each["verdict"] == "fail"]
    assert any("has no holder" in text for text in failed)
    assert kubedsm("check", "--pre", *nowhere).returncode == 0
    done = kubedsm("logs", *nowhere)
    assert done.returncode == 1
    assert "no replica leads: Lease kubedsm/kubedsm has no holder" in done.stderr


def test_with_a_scheduler_the_checks_pass_and_the_state_is_healthy(server, scheduler):
    done = ask(server, scheduler, "check")
    assert done.returncode == 0, done.stdout
    assert "  ok    Lease kubedsm/kubedsm is held by " in done.stdout
    assert (
        f"  ok    the scheduler at {scheduler.url} is ready; metrics are reachable" in done.stdout
    )
    assert "0 failed" in done.stdout.splitlines()[-1]
    done = ask(server, scheduler, "status", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert (said["state"], said["notRead"], said["services"]) == ("healthy", {}, 1)
    done = ask(server, scheduler, "version")
    assert done.stdout.splitlines() == ["client: 0.1.0", "scheduler: 0.1.0", "API server: v1.36.2"]
    assert kubedsm("version", "--client").stdout == "client: 0.1.0\n"


@needs_kubectl
def test_kubectl_runs_status_as_a_plugin(server, scheduler, tmp_path):
    plugin = f"#!{sys.executable}\nfrom kubedsm.__main__ import plugin\nplugin()\n"
    write(tmp_path, "kubectl-kubedsm", plugin).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": server.kubeconfig}
    command = (KUBECTL, "kubedsm", "status", "-o", "json", "--server", scheduler.url)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "healthy")


def test_watching_repeats_until_interrupted(server, scheduler):
    cluster = ("--kubeconfig", server.kubeconfig, "--server", scheduler.url)
    with Process("status", "-w", "--interval", "1s", "-o", "json", *cluster) as watching:
        assert [json.loads(watching.line())["state"] for _ in range(2)] == ["healthy"] * 2
        code, _, err = watching.stop(signal.SIGINT)
    assert (code, err) == (130, "")


def test_the_bundle_holds_what_a_report_needs(server, scheduler, tmp_path):
    path = tmp_path / "bundle.tar.gz"
    done = ask(server, scheduler, "support-bundle", "--out", path)
    assert (done.returncode, done.stdout) == (0, f"{path}\n")
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as archive:
        files = {
            member.name.partition("/")[2]: archive.extractfile(member).read()
            for member in archive.getmembers()
        }
    assert files.keys() >= {"check.json", "status.json", "cluster.json", "metrics.json"}
    (tmp_path / "cluster.json").write_bytes(files["cluster.json"])
    done = kubedsm("explain", "node/n2", "--from", tmp_path / "cluster.json")
    assert done.returncode == 0, done.stderr


@needs_kubectl
def test_the_remedy_of_a_missing_right_mends_it(tmp_path):
    with Server("--tls") as secured:
        kubectl = Kubectl(secured.kubeconfig, tmp_path)

        def rights():
            where = ("--kubeconfig", secured.kubeconfig, "--server", "http://127.0.0.1:9")
            said = json.loads(kubedsm("check", *where, "-o", "json").stdout)
            return [each for each in said["checks"] if each["group"] == "rights"]

        failed = [each for each in rights() if each["verdict"] == "fail"]
        assert any("no right to list nodes" in each["text"] for each in failed)
        assert {each["remedy"] for each in failed} == {"kubedsm rbac -o yaml | kubectl apply -f -"}
        roles = tmp_path / "roles.yaml"
        roles.write_text(kubedsm("rbac", "-o", "yaml").stdout)
        kubectl("apply", "-f", roles)
        assert [each["verdict"] for each in rights()] == ["ok"]


DOCS = Path(__file__).parents[2] / "docs"


def pod_of(server):
    [pod] = server.pods()
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
def test_a_wrong_kubeconfig_fails_though_a_scheduler_answers(server, scheduler, tmp_path, command):
    for given, why in (
        (("--kubeconfig", server.kubeconfig, "--context", "nope"), "no context 'nope'"),
        (("--kubeconfig", tmp_path / "nope"), "no such file"),
        (("--kubeconfig", unreachable(tmp_path)), "connection refused; check that the API server"),
    ):
        done = kubedsm(*ASKING[command](server), *given, "--server", scheduler.url)
        assert (done.returncode, done.stdout) == (1, "")
        assert why in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ASKING)
def test_a_scheduler_of_another_cluster_is_ignored(scheduler, another, command):
    url, arguments = scheduler.url, ASKING[command](another)
    done = ask(another, scheduler, *arguments, "-o", "json")
    first, *more = (line for line in done.stderr.splitlines() if " s of at most " not in line)
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


def test_the_scheduler_of_the_named_cluster_answers(server, scheduler):
    done = ask(server, scheduler, *ASKING["explain"](server), "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["nodesAsOf"] == "decision"


@needs_kubectl
@pytest.mark.usefixtures("scheduler")
def test_the_command_in_the_docs_names_the_leader(server):
    for page in ("use-the-page", "explain-decisions"):
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
