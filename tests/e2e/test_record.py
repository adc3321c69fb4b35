"""`kubedsm record` as a process, on an emulated cluster over HTTP."""

import json
import signal
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from loadgen.scenario import Api, Interval, Scenario, dumps
from support.processes import PATIENCE, Process, Server, write

pytestmark = pytest.mark.http
HOW = "recorded on an emulated cluster (Kubernetes v1.36.2), over its API"
LATENCY = dict.fromkeys(("mean", "p50", "p95", "p99", "max"), 40.0)


def bind(server, pod, node):
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"metadata": {"name": pod}, "target": target}
    server.call("POST", f"/api/v1/namespaces/default/pods/{pod}/binding", binding)


def ready(server, pod):
    status = server.call("GET", f"/api/v1/namespaces/default/pods/{pod}")["status"]
    return any((c["type"], c["status"]) == ("Ready", "True") for c in status["conditions"])


def load_report(pod, began):
    served = {pod: {"answered": 9, "mean": 40.0}}
    of_web = {"requests": 10, "answered": 9, "latencyMs": LATENCY, "servedBy": served}
    began = began.isoformat()
    return {"began": began, "seconds": 3600, "services": {"web": of_web}, "total": of_web}


@pytest.fixture
def scheduler():
    """A scheduler that knows what a migration brought: its address, and how it describes itself."""
    described = {"slower": [], "cluster": ""}
    effect = {
        "expected": {"before": 0.08, "after": 0.06},
        "measured": {"before": {"all": 0.08}, "after": {"all": 0.05}},
        "untold": None,
    }

    class Told(BaseHTTPRequestHandler):
        def do_GET(self):
            said = [
                {"at": "9999", "moves": [{"at": "9999", "pod": "default/web-0", "effect": effect}]}
            ]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"decisions": said, **described}).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Told) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", described
        server.shutdown()
        thread.join()


def test_it_ends_with_the_load_or_when_it_is_told_to(tmp_path, scheduler):
    """One recording gets a report of the load, another one a signal."""
    scheduler, described = scheduler
    api = Api("web", "http://web/", (Interval.of(1, 3600),))
    scenario = write(tmp_path, "hour.json", dumps(Scenario((api,))))
    requests = tmp_path / "requests.json"
    requests.touch()
    began = datetime.now(UTC)
    with Server() as server:
        on = ("--kubeconfig", server.kubeconfig, "--scenario", scenario, "-o", "json")
        namespaces = server.call("GET", "/api/v1/namespaces")["items"]
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in namespaces}
        described["cluster"] = uids["kube-system"]
        out, named = ("--out", tmp_path / "out"), ("--policy", "by-hand")
        with (
            Process("record", *on, *out, "--requests", requests, "--server", scheduler) as ends,
            Process("record", *on, *named, "--server", "http://127.0.0.1:1") as stopped,
        ):
            for process in (ends.process, stopped.process):
                line = process.stderr.readline()
                assert line == "kubedsm: recording web in namespace default\n"
            server.deploy("web", 1)
            server.until(lambda: server.call("GET", "/api/v1/pods")["items"])
            pod = server.call("GET", "/api/v1/pods")["items"][0]["metadata"]["name"]
            bind(server, pod, "n2")
            server.until(lambda: ready(server, pod))
            write(tmp_path, "requests.json", json.dumps(load_report(pod, began)))
            with_load, errors = ends.process.communicate(timeout=PATIENCE)
            assert (ends.process.returncode, errors) == (0, "")
            code, without, errors = stopped.stop(signal.SIGTERM)
            assert (code, errors) == (0, "")
    for found, policy in ((json.loads(with_load), "kubedsm"), (json.loads(without), "by-hand")):
        (run,) = found["runs"]
        assert found["emulated"] is True
        assert found["measured"] == HOW
        assert (run["scenario"], run["policy"]) == ("hour", policy)
        assert run["shares"] == {"web": 1.0}
        assert 0 < run["pendingSeconds"]["mean"] < PATIENCE
    (run,) = json.loads(with_load)["runs"]
    assert run["latencyMs"] == {"web": {"mean": 40.0, "p95": 40.0, "network": None}}
    assert run["tierLatencyMs"] == {"web": {"edge": 40.0}}
    assert run["unanswered"] == 1
    assert run["moveEffects"]["measuredChange"] == pytest.approx(-0.03)
    assert "moveEffects" not in json.loads(without)["runs"][0]
    assert json.loads(without)["runs"][0]["latencyMs"] == {}
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == json.loads(with_load)
    page = (tmp_path / "out" / "index.html").read_text()
    assert f" R{HOW[1:]}." in page
    assert "virtual time" not in page
