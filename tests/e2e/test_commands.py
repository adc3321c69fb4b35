"""The commands as a user runs them: processes, sockets, files, signals, exit codes."""

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support import command_line
from support.processes import Server, write

pytestmark = pytest.mark.http


def test_the_emulated_cluster_lets_in_holders_of_the_token_of_the_file_alone(tmp_path):
    with Server("--token-file", tmp_path / "token", "--kubeconfig", tmp_path / "config") as server:
        token = (tmp_path / "token").read_text().strip()
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            server.call("GET", "/api/v1/nodes")
        refused.value.close()
        server.headers["Authorization"] = f"Bearer {token}"
        assert server.call("GET", "/api/v1/nodes")["items"]
        assert command_line.kubedsm("suggest", "--kubeconfig", server.kubeconfig).returncode == 0
        config = json.loads(Path(server.kubeconfig).read_text())
        config["users"][0]["user"] = {"token": "wrong"}
        done = command_line.kubedsm("run", "--kubeconfig", write(tmp_path, "k", json.dumps(config)))
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("kubedsm: error: 401 Unauthorized")


def test_a_taken_port_gets_one_line(server):
    port = server.url.rpartition(":")[2]
    done = command_line.kubedsm("emulate", "--port", port)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert f"127.0.0.1:{port}" in done.stderr
