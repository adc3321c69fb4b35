"""The commands as a user runs them: processes, sockets, files, signals, exit codes."""

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support import command_line
from support.processes import Scheduler, Server, kubedsm, unreachable, write

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def server():
    with Server() as started:
        yield started


@pytest.mark.long
def test_a_scheduler_that_is_killed_again_and_again_leaves_no_pod_unplaced(server):
    for number in range(2):
        with Scheduler(server, "--leader-elect=false") as scheduler:
            before = server.bound()
            server.deploy(f"web-{number}", 60)
            server.until(lambda before=before: server.bound() > before)
            scheduler.process.kill()
    with Scheduler(server, "--leader-elect=false") as scheduler:
        server.deploy("last", 10)
        server.until(lambda: server.bound() == 130)
        code, _, err = scheduler.stop(signal.SIGTERM)
    assert code == 0
    assert "Traceback" not in err


def test_the_demo_places_what_its_load_asks_for():
    done = kubedsm("demo", "--cycles", "1", "-o", "json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["emulated"] is True
    assert said["pending"] == 0
    assert said["replicas"] == {"a": 4, "b": 2, "c": 4, "d": 2}
    assert said["bound"] >= 12
    assert 0 < said["edgeRatio"] <= 1
    assert set(said["edgeShare"]) == {"a", "b", "c", "d"}
    assert 0 < said["bindLatencyMs"]["mean"] <= said["bindLatencyMs"]["p99"]
    assert said["lostPodSeconds"] == 0
    assert "kubectl --kubeconfig" in done.stderr


#: arguments, exit code, and a part of the line; FILE:TEXT is a file with this text
BAD = {
    "unknown command": (["frobnicate"], 2, "frobnicate"),
    "unknown option": (["run", "--frobnicate"], 2, "--frobnicate"),
    "missing option": (["place"], 2, "--from"),
    "bad output": (["emulate", "-o", "xml"], 2, "xml"),
    "port out of range": (["emulate", "--port", "70000"], 2, "70000"),
    "no dump": (["place", "--from", "none"], 1, "none: No such file"),
    "not a dump": (["place", "--from", "d:}{"], 1, "d: not YAML: "),
    "no token": (["emulate", "--token-file", "t:"], 1, "t: not a token"),
    "token on the command line": (["emulate", "--token", "x"], 2, "--token-file"),
    "a name without a certificate": (["emulate", "--tls-san", "a"], 2, "--tls"),
    "no name for a certificate": (["emulate", "--tls", "--tls-san", "a b"], 1, "'a b'"),
    "no cluster file": (["emulate", "--cluster", "none"], 1, "none"),
    "unknown tier": (
        ["emulate", "--cluster", "c:nodes: [{name: e1, tier: fog, cpu: 4, memory: 4Gi}]"],
        1,
        "fog",
    ),
    "malformed cluster file": (["emulate", "--cluster", "c:nodes: {"], 1, "not YAML"),
    "no configuration": (["run", "--config", "none"], 1, "none"),
    "bad configuration": (["run", "--config", "c:batch: {idle: 5}"], 1, "batch.idle"),
    "two configurations": (
        ["run", "--configmap", "a/b", "--config", "x"],
        2,
        "--config and --configmap: only one of them",
    ),
    "no namespace": (
        ["run", "--configmap", "kubedsm"],
        2,
        "kubedsm is no namespace and name, such",
    ),
    "more than a name": (["run", "--configmap", "a/b/c"], 2, "a/b/c is no namespace and name"),
    "no kubeconfig": (["run", "--kubeconfig", "none"], 1, "none"),
    "bad kubeconfig": (["run", "--kubeconfig", "k:{]"], 1, "k"),
    "no page token": (
        ["run", "--page-address", ":0", "--page-token-file", "t:"],
        2,
        "--page-token-file",
    ),
    "no duration": (["run", "--leader-elect-lease-duration", "15"], 2, "'15' is not a duration"),
    "a short lease": (
        ["run", "--leader-elect-lease-duration", "10s"],
        2,
        "lease-duration must be more than",
    ),
    "a short renewal": (
        ["run", "--leader-elect-renew-deadline", "2s"],
        2,
        "renew-deadline must be more than",
    ),
    "no pause between tries": (
        ["run", "--leader-elect-retry-period", "0s"],
        2,
        "retry-period must be more than 0",
    ),
    "no name of a lease": (
        ["run", "--leader-elect-resource-name", "A/b"],
        2,
        "resource-name: 'A/b'",
    ),
    "no grace period": (["run", "--grace-period", "soon"], 2, "'soon' is not a duration"),
    **{
        f"no address: {address}": (
            ["run", "--metrics-address", address],
            2,
            f"'{address}' is not HOST:PORT, such as 127.0.0.1:10271",
        )
        for address in ("10271", "localhost:http", "::1:80", "[::1]", ":70000", ":")
    },
    "no network": (
        ["emulate", "--run-pods", ".", "--network", "edge=fast"],
        2,
        "Invalid value for '--network': 'fast' is not a duration, such as 500ms, 10s or 1m30s",
    ),
    "no tier's time": (
        ["emulate", "--run-pods", ".", "--network", "fog=1s"],
        2,
        "Invalid value for '--network': 'fog=1s' is not a tier's time, such as edge=20ms",
    ),
    "a network of no pods": (
        ["emulate", "--network", "edge=1s"],
        2,
        "--network and --metrics-address are about pods that --run-pods runs",
    ),
    "no URL of metrics": (
        ["emulate", "--hpa-metrics", "prometheus"],
        2,
        "'--hpa-metrics': 'prometheus' is not a URL such as http://cart.shop/",
    ),
    "no folder of pods": (
        ["emulate", "--port", "0", "--run-pods", "file/x"],
        1,
        "file/x/logs: Not a directory",
    ),
    "too many pods": (
        ["bench", "footprint", "--nodes", "1", "--pods", "51"],
        2,
        "--pods: more than 50 for each node",
    ),
    "sizes of different length": (
        ["bench", "scale", "--nodes", "1,2", "--pods", "3"],
        2,
        "--nodes and --pods: not as many of the one as of the other",
    ),
    **{
        f"bench burst {typed}": (["bench", "burst", *typed.split()], 2, line)
        for typed, line in (
            ("--schedulers kubedsm,,D", "Invalid value for '--schedulers': a name is empty"),
            ("--policies kubedsm,none", "Invalid value for '--policies': no policy 'none'"),
            ("--policies random,random", "Invalid value for '--policies': 'random' is given twic"),
            ("-n 551", "the paper's five workers take 550 pods, not 551"),
            ("--policies kubedsm --keepalive 15", "--keepalive is about bare-loop"),
            ("--schedulers kubedsm", "--schedulers is for a real cluster, with --kubeconfig"),
            ("--context a", "--context is for a real cluster, with --kubeconfig"),
            ("--kubeconfig x --policies kubedsm", "--policies is not for a real cluster"),
            ("--kubeconfig x --keepalive 15", "--keepalive is not for a real cluster"),
        )
    },
    "a size of nothing": (
        ["bench", "scale", "--nodes", "1,0", "--pods", "3,4"],
        2,
        "Invalid value for '--nodes': '1,0' is no list of numbers from 1 up",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_line_and_an_exit_code(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "file", "")
    arguments, code, says = BAD[case]
    for at, (name, colon, text) in enumerate(each.partition(":") for each in arguments):
        if colon and name.isalpha() and len(name) == 1:
            write(tmp_path, name, text)
            arguments = [*arguments[:at], name, *arguments[at + 1 :]]
    done = command_line.kubedsm(*arguments)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("kubedsm: error: ")
    assert says in line


def test_the_emulated_cluster_lets_in_holders_of_the_token_of_the_file_alone(tmp_path):
    with Server("--token-file", tmp_path / "token", "--kubeconfig", tmp_path / "config") as server:
        token = (tmp_path / "token").read_text().strip()
        assert token not in Path(f"/proc/{server.process.pid}/cmdline").read_text()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            server.call("GET", "/api/v1/nodes")
        server.headers["Authorization"] = f"Bearer {token}"
        assert server.call("GET", "/api/v1/nodes")["items"]
        assert command_line.kubedsm("suggest", "--kubeconfig", server.kubeconfig).returncode == 0
        config = json.loads(Path(server.kubeconfig).read_text())
        config["users"][0]["user"] = {"token": "wrong"}
        done = kubedsm("run", "--kubeconfig", write(tmp_path, "k", json.dumps(config)))
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("kubedsm: error: 401 Unauthorized")


def test_a_taken_port_gets_one_line(server):
    port = server.url.rpartition(":")[2]
    done = command_line.kubedsm("emulate", "--port", port)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert f"127.0.0.1:{port}" in done.stderr


def test_an_unreachable_server_gets_one_line(tmp_path):
    done = command_line.kubedsm("suggest", "--kubeconfig", unreachable(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "127.0.0.1" in done.stderr
