"""Commands as a user runs them: processes, sockets, files, signals; and `emulate --tls`."""

import json
import stat

import pytest

from kubedsm_lab.emulator.http.server import kubeconfig
from support.command_line import kubedsm
from support.kubectl import Kubectl, needs_kubectl
from support.processes import Server, fetch, write

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def server(folder):
    with Server("--tls", "--kubeconfig", folder / "config") as server:
        yield server


@pytest.fixture
def kubectl(server, folder):
    return Kubectl(server.kubeconfig, folder)


def test_the_kubeconfig_lets_its_owner_in_and_knows_the_server(server, folder):
    path = folder / "config"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.url.startswith("https://127.0.0.1:")
    assert kubedsm("suggest", "--kubeconfig", path).returncode == 0
    config = json.loads(path.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    (folder / "strangers").write_text(json.dumps(config))
    done = kubedsm("suggest", "--kubeconfig", folder / "strangers")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "certificate" in line


@needs_kubectl
def test_a_user_who_may_list_no_pods_gets_no_verdict_of_health(kubectl, server, folder):
    kubectl("wait", "sa/default", "-n", "default", "--for=create", "--timeout=60s")
    config = json.loads((folder / "config").read_text())
    config["users"][0]["user"] = {"token": kubectl("create", "token", "default")}
    (folder / "guest").write_text(json.dumps(config))
    done = kubedsm("status", "--server", server.url, "--kubeconfig", folder / "guest")
    assert (done.returncode, done.stdout) == (1, "")
    assert "health unknown, nodes and pods not read: no right to list nodes" in done.stderr


def test_the_emulated_cluster_lets_in_holders_of_the_token_of_the_file_alone(tmp_path):
    with Server("--token-file", tmp_path / "token", "--kubeconfig", tmp_path / "config") as server:
        token = (tmp_path / "token").read_text().strip()
        assert fetch(f"{server.url}/api/v1/nodes")[0] == 403
        server.headers["Authorization"] = f"Bearer {token}"
        assert server.call("GET", "/api/v1/nodes")["items"]
        assert kubedsm("suggest", "--kubeconfig", server.kubeconfig).returncode == 0
        wrong = write(tmp_path, "k", json.dumps(kubeconfig(server.url, "wrong")))
        done = kubedsm("run", "--kubeconfig", wrong)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("kubedsm: error: 401 Unauthorized")


def test_a_taken_port_gets_one_line(server):
    port = server.url.rpartition(":")[2]
    done = kubedsm("emulate", "--port", port)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert f"127.0.0.1:{port}" in done.stderr
