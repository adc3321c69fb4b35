"""`kubedsm record` as a process, on an emulated cluster over HTTP."""

import json
import signal
import time
from datetime import UTC, datetime

import pytest

from loadgen.scenario import Api, Interval, Scenario, dumps
from support.processes import PATIENCE, Process, Server, write

pytestmark = pytest.mark.http
HOW = "recorded on an emulated cluster (Kubernetes v1.36.2), over its API"
LATENCY = dict.fromkeys(("mean", "p50", "p95", "p99", "max"), 40.0)


def load_report(pod, began, ended):
    served = {pod: {"answered": 9, "mean": 40.0}}
    of_web = {"requests": 10, "answered": 9, "latencyMs": LATENCY, "servedBy": served}
    lasted = {"began": began.isoformat(), "seconds": (ended - began).total_seconds()}
    return lasted | {"services": {"web": of_web}, "total": of_web}


def test_it_ends_with_the_load_or_when_it_is_told_to(tmp_path):
    """One recording gets a report of the load, another one a signal, and says what it misses."""
    api = Api("web", "http://web/", (Interval.of(1, 3600),))
    scenario = write(tmp_path, "hour.json", dumps(Scenario((api,))))
    requests = tmp_path / "requests.json"
    requests.touch()
    with Server() as server:
        on = ("--kubeconfig", server.kubeconfig, "--scenario", scenario, "-o", "json")
        out = ("--out", tmp_path / "out")
        named = ("--policy", "by-hand", "--requests", tmp_path / "none")
        with (
            Process("record", *on, *out, "--requests", requests) as ends,
            Process("record", *on, *named) as stopped,
        ):
            for process in (ends.process, stopped.process):
                line = process.stderr.readline()
                assert line == "kubedsm: recording web in namespace default\n"
            began = datetime.now(UTC)
            server.deploy("web", 1)
            server.until(server.pods)
            [pod] = server.pods()
            server.bind(pod, "n2")
            server.until(server.ready)
            time.sleep(1)  # until the recording sees it, too
            report = load_report(pod["metadata"]["name"], began, datetime.now(UTC))
            write(tmp_path, "requests.json", json.dumps(report))
            with_load, errors = ends.process.communicate(timeout=PATIENCE)
            assert (ends.process.returncode, errors) == (0, "")
            code, without, errors = stopped.stop(signal.SIGTERM)
            missed = f"{tmp_path / 'none'}: No such file or directory; no response times"
            assert (code, errors) == (0, f"kubedsm: {missed}\n")
    for found, policy, how in (
        (json.loads(with_load), "kubedsm", HOW),
        (json.loads(without), "by-hand", f"{HOW}; incomplete: {missed}"),
    ):
        (run,) = found["runs"]
        assert found["emulated"] is True
        assert found["measured"] == how
        assert (run["scenario"], run["policy"]) == ("hour", policy)
        assert run["shares"] == {"web": 1.0}
        assert 0 < run["pendingSeconds"]["mean"] < PATIENCE
    (run,) = json.loads(with_load)["runs"]
    assert run["latencyMs"] == {"web": {"mean": 40.0, "p95": 40.0, "network": None}}
    assert run["tierLatencyMs"] == {"web": {"edge": 40.0}}
    assert run["unanswered"] == 1
    assert json.loads(without)["runs"][0]["latencyMs"] == {}
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == json.loads(with_load)
    page = (tmp_path / "out" / "index.html").read_text()
    assert f" R{HOW[1:]}." in page
    assert "virtual time" not in page
