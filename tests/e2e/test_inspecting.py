"""`kubedsm check`, `status`, `version`, `logs` and `support-bundle`, as a user runs them."""

import json
import os
import signal
import subprocess
import sys
import tarfile

import pytest

from support.command_line import kubedsm
from support.kubectl import KUBECTL, Kubectl, needs_kubectl
from support.processes import Process, Scheduler, Server, write

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def scheduler(server):
    with Scheduler(server) as running:
        running.url = running.until("connected")["diagnostics"]
        running.until("leading")
        server.deploy("web", 3)
        server.until(lambda: server.bound() == 3)
        yield running


def ask(server, scheduler, *arguments):
    return kubedsm(*arguments, "--kubeconfig", server.kubeconfig, "--server", scheduler.url)


def test_without_a_scheduler_the_state_is_down_and_the_check_fails():
    with Server() as alone:
        nowhere = ("--kubeconfig", alone.kubeconfig, "--server", "http://127.0.0.1:9")
        done = kubedsm("status", *nowhere)
        assert (done.returncode, done.stderr) == (2, "")
        assert done.stdout.startswith("down: No scheduler is known to lead")
        alone.deploy("web", 2)
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
