"""`loadgen closed` and `loadgen hpa` as a user meets them, over real connections."""

import http.server
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from loadgen.cli import main
from loadgen.scenario import loads
from loadgen.urls import url_problem
from support.manifests import BASE, MANIFESTS, documents

pytestmark = pytest.mark.http


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


@contextmanager
def serving(interrupted_at=None):
    """Its URL, and the client's address of each request; a signal comes with one of them."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            asked.append(self.client_address)
            if len(asked) == interrupted_at:
                os.kill(os.getpid(), signal.SIGINT)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            """Say nothing."""

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *arguments):
            """Say nothing: a client that is interrupted resets its connections."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()
            thread.join()


def test_clients_that_wait_each_keep_a_connection(capsys, tmp_path):
    rows = tmp_path / "rows.csv"
    with serving() as (url, asked):
        command = ("closed", "3", "--url", url, "--duration", "300ms", "--max-rate", "60")
        assert run(*command, "--csv", str(rows), "-o", "json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert (found["clients"], found["url"], found["pacingMs"]) == (3, url, None)
    assert found["total"]["answered"] == len(asked) <= 18
    assert len(set(asked)) == 3
    assert len(rows.read_text().splitlines()) == 1 + len(asked)


def test_more_clients_than_the_soft_limit_on_files_are_no_errors_of_the_service():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving() as (url, _):
        command = ("closed", "100", "--url", url, "--duration", "300ms", "--max-rate", "400")
        ended = subprocess.run(
            [sys.executable, "-m", "loadgen", *command, "-o", "json"],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)),
            capture_output=True,
            check=True,
            timeout=PATIENCE,
        )
    assert json.loads(ended.stdout)["total"]["errors"] == {}


def test_a_scenario_in_the_closed_loop_has_no_pacing_and_no_other_arrivals(capsys, tmp_path):
    intervals = [{"api_call_period": 50, "cycle_length": 320}]
    apis = [{"name": name, "endpoint": "http://x/", "intervals": intervals} for name in "ab"]
    scenario = tmp_path / "load.json"
    scenario.write_text(json.dumps({"apis": apis}))
    with serving() as (url, asked):
        command = ("run", str(scenario), "--url", url, "--closed-loop")
        assert run(*command, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["arrivals"], found["pacingMs"]) == ("closed loop", None)
    assert found["total"]["answered"] == len(asked) <= 12
    assert run(*command, "--arrivals", "poisson") == 2
    assert "--closed-loop excludes --arrivals" in capsys.readouterr().err


def test_a_short_hold_as_text_and_one_that_is_interrupted_still_reports(capsys):
    with serving() as (url, _):
        command = ("hpa", "--url", url, "--clients", "1", "--hold-time", "200ms")
        assert run(*command, "--window", "100ms", "--max-rate", "50", "--p99", "20s") == 0
    out, _ = capsys.readouterr()
    assert "HOLD, clients 1: 100% of the windows are good" in out
    assert "No window was bad: there was nothing to recover from." in out
    with serving(interrupted_at=12) as (url, _):
        command = ("hpa", "--url", url, "--clients", "1", "--window", "100ms", "--max-rate", "40")
        assert run(*command, "-o", "json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert found["interrupted"]
    assert found["hold"]["clients"] == 1
    assert 1 <= len(found["hold"]["windows"]) <= 3
    assert found["hold"]["recovery"] is None


PATIENCE = 60


@contextmanager
def process_serving(*options):
    with subprocess.Popen(
        [sys.executable, "-c", "from loadgen.cli import main; main()", "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_it_answers_counts_and_finishes_what_it_accepted():
    local = ("--host", "127.0.0.1", "--port", "0", "--drain", "0s")
    work = ("--service-time", "500ms", "--cpu", "1", "--cpu-limit", "500m", "--net", "10KB")
    with process_serving(*local, *work) as (process, url):
        assert get(f"{url}/readyz") == (200, b"ok\n")
        assert get(f"{url}/healthz") == (200, b"ok\n")
        assert get(f"{url}/any/path") == (200, b"x" * 10_000)
        lines = get(f"{url}/metrics")[1].decode().splitlines()
        assert "http_requests_total 1.0" in lines
        assert "http_request_duration_seconds_count 1.0" in lines
        answers = []
        request = threading.Thread(target=lambda: answers.append(get(url)))
        request.start()
        while "http_requests_in_flight 1.0" not in get(f"{url}/metrics")[1].decode().splitlines():
            pass
        process.send_signal(signal.SIGTERM)
        request.join()
        assert answers == [(200, b"x" * 10_000)]
        assert process.wait(PATIENCE) == 0
        with pytest.raises(urllib.error.URLError):
            get(url)


def test_it_is_not_ready_while_it_drains_and_answers_still():
    local = ("--host", "127.0.0.1", "--port", "0", "--name", "cart", "--drain", "1h")
    with process_serving(*local) as (process, url):
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            assert response.headers["X-Served-By"] == socket.gethostname()
        process.send_signal(signal.SIGTERM)
        while get(f"{url}/readyz")[0] == 200:
            pass
        assert get(f"{url}/readyz") == (503, b"stopping\n")
        assert get(url) == (200, b"cart\n")


CONFIG_MAP, JOB = documents(MANIFESTS / "loadgen-job.yaml")
POD = JOB["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_the_scenario_loads_the_example_workload():
    scenario = loads(CONFIG_MAP["data"]["scenario.json"])
    *_, service = documents(MANIFESTS / "example-workload.yaml")
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert [api.endpoint for api in scenario.apis] == [f"http://{name}.{namespace}/"]
    assert url_problem(scenario.apis[0].endpoint) is None
    assert [scenario.rate(name, seconds) for seconds in (0, 90, 180)] == [5, 25, 10]


def test_the_job_runs_the_mounted_scenario_restricted_and_once():
    assert JOB["metadata"]["namespace"] == CONFIG_MAP["metadata"]["namespace"]
    (mount,) = CONTAINER["volumeMounts"]
    (volume,) = POD["volumes"]
    assert volume == {"name": mount["name"], "configMap": {"name": CONFIG_MAP["metadata"]["name"]}}
    (key,) = CONFIG_MAP["data"]
    assert CONTAINER["command"] == ["loadgen"]
    assert CONTAINER["args"] == ["run", f"{mount['mountPath']}/{key}", "--output", "json"]
    (deployment,) = documents(BASE / "deployment.yaml")
    scheduler = deployment["spec"]["template"]["spec"]
    assert POD["securityContext"] == scheduler["securityContext"]
    assert CONTAINER["securityContext"] == scheduler["containers"][0]["securityContext"]
    assert CONTAINER["image"] == scheduler["containers"][0]["image"]
    assert POD["restartPolicy"] == "Never"
    assert JOB["spec"]["backoffLimit"] == 0
    assert "schedulerName" not in POD
