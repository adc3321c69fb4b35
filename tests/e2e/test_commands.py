"""The commands as a user runs them: processes, sockets, files, signals, exit codes."""

import json
import signal
import urllib.error
import urllib.request
from itertools import islice
from pathlib import Path

import pytest

from kubedsm_lab.emulator.paper import node
from support import command_line
from support.processes import Process, Server, kubedsm, unreachable, write

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def server():
    with Server() as started:
        yield started


def test_the_paper_cluster_is_its_four_nodes_and_nothing_else(server):
    nodes = server.call("GET", "/api/v1/nodes")["items"]
    tiers = {n["metadata"]["name"]: n["metadata"]["labels"]["kubedsm.io/tier"] for n in nodes}
    assert tiers == {"n2": "edge", "n3": "edge", "n4": "edge", "n5": "cloud"}
    cpus = {n["metadata"]["name"]: n["status"]["allocatable"]["cpu"] for n in nodes}
    assert cpus == {"n2": "5", "n3": "4", "n4": "7", "n5": "22"}
    assert server.call("GET", "/api/v1/pods")["items"] == []


def test_a_scheduler_that_is_killed_again_and_again_leaves_no_pod_unplaced():
    with Server() as server:
        wanted = 0
        for number in range(3):
            with Process(
                *("run", "--kubeconfig", server.kubeconfig, "--diagnostics-port", "0"),
                "--leader-elect=false",
            ) as scheduler:
                before = server.bound()
                server.deploy(f"web-{number}", 60)
                wanted += 60
                server.until(lambda before=before: server.bound() > before)
                scheduler.process.kill()
        with Process(
            *("run", "--kubeconfig", server.kubeconfig, "--diagnostics-port", "0"),
            "--leader-elect=false",
        ) as scheduler:
            server.deploy("last", 10)
            server.until(lambda: server.bound() == wanted + 10)
            code, out, err = scheduler.stop(signal.SIGTERM)
        assert (code, out) == (0, "")
        assert "Traceback" not in err


def test_run_logs_json_on_stdout_when_asked_for(server):
    with Process(
        "run", "--kubeconfig", server.kubeconfig, "--diagnostics-port", "0", "-o", "json"
    ) as scheduler:
        said = (json.loads(scheduler.line())["event"] for _ in range(9))
        events = list(islice((event for event in said if event != "event loop late"), 3))
        assert events[0] == "connected"
        assert set(events[1:]) == {"leading", "synced"}
        assert scheduler.stop(signal.SIGINT)[0] == 0


def test_a_cluster_from_a_file(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("nodes:\n- {name: e1, tier: edge, cpu: 4, memory: 4Gi}\n")
    with Server("--cluster", path) as server:
        names = [n["metadata"]["name"] for n in server.call("GET", "/api/v1/nodes")["items"]]
        assert names == ["e1"]


def test_place_reads_standard_input_and_prints_json_only():
    nodes = [node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "4", "8Gi")]
    dump = {"kind": "List", "items": nodes}
    done = kubedsm("place", "--from", "-", "-o", "json", input=json.dumps(dump))
    assert done.returncode == 0
    placed = json.loads(done.stdout)
    assert placed["bindings"] == placed["unplaced"] == []
    assert placed["proven"] is True
    assert done.stderr.splitlines() == [
        "kubedsm: no Pod in standard input: assumed that there is none",
    ]


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


BAD = {
    "unknown command": (lambda p: ["frobnicate"], 2, "frobnicate"),
    "unknown option": (lambda p: ["run", "--frobnicate"], 2, "--frobnicate"),
    "missing option": (lambda p: ["place"], 2, "--from"),
    "bad output": (lambda p: ["emulate", "-o", "xml"], 2, "xml"),
    "port out of range": (lambda p: ["emulate", "--port", "70000"], 2, "70000"),
    "no dump": (lambda p: ["place", "--from", p / "none"], 1, "none: No such file"),
    "not a dump": (lambda p: ["place", "--from", write(p, "d", "}{")], 1, "d: not YAML: "),
    "no token": (lambda p: ["emulate", "--token-file", write(p, "t", "")], 1, "t: not a token"),
    "token on the command line": (lambda p: ["emulate", "--token", "x"], 2, "--token-file"),
    "a name without a certificate": (lambda p: ["emulate", "--tls-san", "a"], 2, "--tls"),
    "no name for a certificate": (lambda p: ["emulate", "--tls", "--tls-san", "a b"], 1, "'a b'"),
    "no cluster file": (lambda p: ["emulate", "--cluster", p / "none"], 1, "none"),
    "unknown tier": (
        lambda p: [
            "emulate",
            "--cluster",
            write(p, "c", "nodes: [{name: e1, tier: fog, cpu: 4, memory: 4Gi}]"),
        ],
        1,
        "fog",
    ),
    "malformed cluster file": (
        lambda p: ["emulate", "--cluster", write(p, "c", "nodes: {")],
        1,
        "not YAML",
    ),
    "no configuration": (lambda p: ["run", "--config", p / "none"], 1, "none"),
    "bad configuration": (
        lambda p: ["run", "--config", write(p, "c", "batch: {idle: 5}")],
        1,
        "batch.idle",
    ),
    "no kubeconfig": (lambda p: ["run", "--kubeconfig", p / "none"], 1, "none"),
    "bad kubeconfig": (lambda p: ["run", "--kubeconfig", write(p, "k", "{]")], 1, "k"),
    "unreachable server": (lambda p: ["suggest", "--kubeconfig", unreachable(p)], 1, "127.0.0.1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_line_and_an_exit_code(case, tmp_path):
    arguments, code, says = BAD[case]
    done = command_line.kubedsm(*arguments(tmp_path))
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("kubedsm: error: ")
    assert says in line


def test_run_ends_with_one_line_where_it_is_not_let_in(tmp_path):
    with Server("--token-file", tmp_path / "token") as server:
        config = json.loads(Path(server.kubeconfig).read_text())
        config["users"][0]["user"] = {"token": "wrong"}
        done = kubedsm("run", "--kubeconfig", write(tmp_path, "k", json.dumps(config)))
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("kubedsm: error: 401 Unauthorized")


def test_the_emulated_cluster_lets_in_holders_of_the_token_of_the_file(tmp_path):
    with Server("--token-file", tmp_path / "token", "--kubeconfig", tmp_path / "config") as server:
        token = (tmp_path / "token").read_text().strip()
        assert token not in Path(f"/proc/{server.process.pid}/cmdline").read_text()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            server.call("GET", "/api/v1/nodes")
        server.headers["Authorization"] = f"Bearer {token}"
        assert server.call("GET", "/api/v1/nodes")["items"]
        assert kubedsm("suggest", "--kubeconfig", server.kubeconfig).returncode == 0


def test_a_taken_port_gets_one_line(server):
    port = server.url.rpartition(":")[2]
    done = kubedsm("emulate", "--port", port)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert f"127.0.0.1:{port}" in done.stderr
