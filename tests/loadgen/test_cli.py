"""The command as a user meets it: exit codes, one line on stderr, nothing else on stdout."""

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
from loadgen.generators import PAPER_REQUESTS, normal, wavy
from loadgen.scenario import load, loads
from loadgen.urls import url_problem
from support.manifests import BASE, MANIFESTS, documents
from support.processes import PATIENCE, fetch

EXAMPLES = " such as 500ms, 90s or 2m"
DIFFERENT = " are not different names with commas between"
NO_URL = " is not a URL such as http://cart.shop/"
URL = "http://127.0.0.1:1/"


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def test_generate_prints_the_scenario_or_writes_a_file_with_everything_asked_for(capsys, tmp_path):
    assert run("generate", "normal", "1.5", "0.4", "--seed", "3") == 0
    out, err = capsys.readouterr()
    assert loads(out) == normal(1.5, 0.4, seed=3)
    assert err == ""
    path = tmp_path / "load.json"
    code = run(
        *("generate", "normal", "1.2", "0.1", "--cycles", "3", "--cycle-length", "1.5m"),
        *("--seed", "9", "--services", "cart,video", "--endpoint", "http://{service}.shop/ping"),
        *("-o", str(path)),
    )
    assert code == 0
    assert capsys.readouterr().out == ""
    scenario = load(path)
    assert scenario.services == ("cart", "video")
    assert scenario.duration == 270
    assert scenario.apis[0].endpoint == "http://cart.shop/ping"


def scenario_text(endpoint="http://x/", **intervals):
    """Return a scenario file; `intervals` are a period and a length each, by service."""
    names = ("api_call_period", "cycle_length")
    apis = [
        {
            "name": service,
            "endpoint": endpoint,
            "intervals": [dict(zip(names, each, strict=True)) for each in given],
        }
        for service, given in intervals.items()
    ]
    return json.dumps({"apis": apis})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "load.json"
    path.write_text(scenario_text(cart=[(100, 30_000), (50, 60_000)], video=[(40, 60_000)]))
    return path


def test_show_cuts_where_any_rate_may_change(path, capsys):
    assert run("show", str(path), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "services": ["cart", "video"],
        "duration": 90.0,
        "cycles": [
            {"start": 0.0, "end": 30.0, "rates": {"cart": 10.0, "video": 25.0}},
            {"start": 30.0, "end": 60.0, "rates": {"cart": 20.0, "video": 25.0}},
            {"start": 60.0, "end": 90.0, "rates": {"cart": 20.0, "video": 0.0}},
        ],
    }
    assert run("show", str(path)) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line[:1] in "│┃"]
    figures = [[cell for cell in row if cell not in "│┃"] for row in rows]
    assert figures[0] == ["cycle", "from", "s", "to", "s", "cart", "video"]
    assert figures[1:] == [
        ["1", "0", "30", "10", "25"],
        ["2", "30", "60", "20", "25"],
        ["3", "60", "90", "20", "0"],
    ]


@pytest.mark.parametrize(
    ("command", "arguments", "why"),
    [
        ("generate normal", "1", "Missing argument 'SIGMA'"),
        ("generate normal", "1 1 --cycle-length 90", f"'90' is not a duration,{EXAMPLES}"),
        ("generate normal", "1 1 --services x,x", f"'x,x'{DIFFERENT}"),
        ("generate normal", "1 1 --services a,b,c,d,e", "5 names for the paper's 4 services"),
        ("generate wavy", "1 1 --edge 4", "'4' is not cores and GB, such as 13,11"),
        ("run", "{path} --endpoint b=http://x/", "no service 'b' among cart, video"),
        ("run", "{path} --url ftp://x/", f"'ftp://x/'{NO_URL}"),
        ("run", "{path} --timeout 0s", "0 seconds are too few"),
        ("hpa", "", "Missing option '--url'"),
        ("hpa", "--url cart", f"'cart'{NO_URL}"),
        ("hpa", f"--url {URL} --window 0s", "0 seconds are too few"),
        ("serve", "--memory much", "'much' is not a size, such as 500B, 10KB or 1.5MB"),
        ("serve", "--call cart", f"'cart'{NO_URL}"),
        ("serve", "--cpu-limit half", "'half' are not cores, such as 0.5 or 500m"),
    ],
)
def test_a_wrong_argument_is_one_line_with_the_help_to_see(command, arguments, why, path, capsys):
    assert run(*command.split(), *arguments.format(path=path).split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("loadgen: error: ")
    assert err.endswith(f"{why} (see loadgen {command} --help)\n")


@pytest.mark.parametrize(
    ("typed", "code", "line"),
    [
        ("rnu", 2, "No such command 'rnu'. Did you mean run? (see loadgen --help)"),
        ("show /absent/load.json", 1, "/absent/load.json: No such file or directory"),
        (
            "generate normal 1 1 -o /absent/load.json",
            1,
            "/absent/load.json: there is no folder /absent",
        ),
        ("run /absent/load.json", 1, "/absent/load.json: No such file or directory"),
        (f"closed 2 --url {URL}", 1, f"nothing listens at {URL}: connection refused"),
        (f"hpa --url {URL}", 1, f"nothing listens at {URL}: connection refused"),
        ("serve --memory 999999999GB", 1, "out of memory"),
        (
            "serve --host 192.0.2.1",
            1,
            "cannot listen on 192.0.2.1:8080: Cannot assign requested address",
        ),
    ],
)
def test_errors_are_one_line(typed, code, line, capsys):
    assert run(*typed.split()) == code
    assert capsys.readouterr() == ("", f"loadgen: error: {line}\n")


def test_generate_wavy_prints_the_scenario_and_defaults_to_the_papers_cluster(capsys):
    code = run(
        *("generate", "wavy", "0.5", "2", "--cycles", "8", "--cycle-length", "30s"),
        *("--max-step", "3", "--edge", "10,8.5", "--cluster", "20,40", "--services", "x,y,z"),
        *("--endpoint", "http://{service}.shop/"),
    )
    assert code == 0
    assert loads(capsys.readouterr().out) == wavy(
        0.5,
        2,
        cycles=8,
        cycle_seconds=30,
        max_step=3,
        edge_total={"cpu": 10, "memory": 8.5e9},
        cluster_total={"cpu": 20, "memory": 40e9},
        requests=dict(zip("xyz", PAPER_REQUESTS.values(), strict=False)),
        endpoint="http://{service}.shop/",
    )
    assert run("generate", "wavy", "0.75", "4") == 0
    assert loads(capsys.readouterr().out) == wavy(0.75, 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (scenario_text(a=[(101, 100)]), "no request is in it, every interval is silent"),
        (scenario_text("localhost:80", a=[(10, 100)]), f"endpoint of a: 'localhost:80'{NO_URL}"),
        (scenario_text("http://", a=[(10, 100)]), f"endpoint of a: 'http://'{NO_URL}"),
        (
            scenario_text("http://..", a=[(10, 100)]),
            "endpoint of a: 'http://..' is not a URL: a part of its host name is empty or too long",
        ),
        (
            scenario_text("http://x:99999/", a=[(10, 100)]),
            "endpoint of a: 'http://x:99999/' is not a URL: Port out of range 0-65535",
        ),
    ],
)
def test_a_broken_scenario_is_refused_in_one_line(text, reason, tmp_path, capsys):
    path = tmp_path / "load.json"
    path.write_text(text, encoding="utf-8")
    assert run("run", str(path)) == 1
    assert capsys.readouterr() == ("", f"loadgen: error: {path}: {reason}\n")


@pytest.mark.http
def test_endpoints_and_files_that_cannot_be_used_are_one_line(path, capsys):
    refused = "http://127.0.0.1:1"
    rows = path.with_suffix(".csv")
    code = run(
        *("run", str(path), "--endpoint", refused + "/{service}", "--url", f"cart={refused}"),
        *("--csv", str(rows)),
    )
    assert code == 1
    out, err = capsys.readouterr()
    cart = f"cart at {refused}: connection refused"
    video = f"video at {refused}/video: connection refused"
    assert (out, err) == ("", f"loadgen: error: nothing listens for {cart}, {video}\n")
    assert not rows.exists()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        assert run("run", str(path), "--url", url, "--csv", "/absent/rows.csv") == 1
    assert capsys.readouterr() == (
        "",
        "loadgen: error: /absent/rows.csv: there is no folder /absent\n",
    )


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


@pytest.mark.http
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


@pytest.mark.http
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


@pytest.mark.http
def test_a_scenario_in_the_closed_loop_has_no_pacing_and_no_other_arrivals(capsys, tmp_path):
    scenario = tmp_path / "load.json"
    scenario.write_text(scenario_text(a=[(50, 320)], b=[(50, 320)]))
    with serving() as (url, asked):
        command = ("run", str(scenario), "--url", url, "--closed-loop")
        assert run(*command, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["arrivals"], found["pacingMs"]) == ("closed loop", None)
    assert found["total"]["answered"] == len(asked) <= 12
    assert run(*command, "--arrivals", "poisson") == 2
    assert "--closed-loop excludes --arrivals" in capsys.readouterr().err


@pytest.mark.http
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


@pytest.mark.http
def test_it_answers_counts_and_finishes_what_it_accepted():
    local = ("--host", "127.0.0.1", "--port", "0", "--drain", "0s")
    work = ("--service-time", "500ms", "--cpu", "1", "--cpu-limit", "500m", "--net", "10KB")
    with process_serving(*local, *work) as (process, url):
        assert fetch(f"{url}/readyz") == (200, "ok\n")
        assert fetch(f"{url}/healthz") == (200, "ok\n")
        assert fetch(f"{url}/any/path") == (200, "x" * 10_000)
        lines = fetch(f"{url}/metrics")[1].splitlines()
        assert "http_requests_total 1.0" in lines
        assert "http_request_duration_seconds_count 1.0" in lines
        answers = []
        request = threading.Thread(target=lambda: answers.append(fetch(url)))
        request.start()
        while "http_requests_in_flight 1.0" not in fetch(f"{url}/metrics")[1].splitlines():
            pass
        process.send_signal(signal.SIGTERM)
        request.join()
        assert answers == [(200, "x" * 10_000)]
        assert process.wait(PATIENCE) == 0
        with pytest.raises(urllib.error.URLError):
            fetch(url)


@pytest.mark.http
def test_it_is_not_ready_while_it_drains_and_answers_still():
    local = ("--host", "127.0.0.1", "--port", "0", "--name", "cart", "--drain", "1h")
    with process_serving(*local) as (process, url):
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            assert response.headers["X-Served-By"] == socket.gethostname()
        process.send_signal(signal.SIGTERM)
        while fetch(f"{url}/readyz")[0] == 200:
            pass
        assert fetch(f"{url}/readyz") == (503, "stopping\n")
        assert fetch(url) == (200, "cart\n")


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
