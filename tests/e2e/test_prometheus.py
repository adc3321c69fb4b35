"""A real Prometheus scrapes a scheduler, and is asked for the load of nodes and pods."""

import json
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from kubedsm.app.load_reading import DEMAND, LATENCY, QUERIES
from support.command_line import kubedsm
from support.dashboard import PANELS, queries
from support.manifests import MONITORING, made
from support.metered import total
from support.processes import PATIENCE, Process, Scheduler, Server, fetch, free_port, unreachable

PROGRAMS = ("prometheus", "prometheus-node-exporter")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]
real = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (Debian's)")


def instances(target):
    """Yield scrape configurations of a target: itself, or one per instance name."""
    address, names = (target, ()) if isinstance(target, str) else target
    for name in names:
        yield {"targets": [address], "labels": {"instance": name}}
    if not names:
        yield {"targets": [address]}


class Program:
    def __init__(self, *arguments):
        self.arguments = list(map(str, arguments))
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Prometheus(Program):
    """Prometheus process; `targets` has by job an address, optionally with instance names."""

    def __init__(self, folder, targets, rules=None):
        self.url = f"http://127.0.0.1:{free_port()}"
        rule_file, config = folder / "rules.yaml", folder / "prometheus.yaml"
        rule_file.write_text(yaml.safe_dump(rules or {}))
        jobs = [
            {"job_name": job, "honor_labels": True, "static_configs": list(instances(target))}
            for job, target in targets.items()
        ]
        # A scrape may take as long as the interval: on a busy machine, more than 250 ms.
        every = {"scrape_interval": "2s", "evaluation_interval": "250ms"}
        files = {"rule_files": [str(rule_file)], "scrape_configs": jobs}
        config.write_text(yaml.safe_dump({"global": every, **files}))
        super().__init__(
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        )

    def ask(self, query):
        status, text = fetch(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
        if status == 503:
            raise urllib.error.URLError("it starts")
        assert status == 200, f"{query}: {text}"
        return json.loads(text)["data"]["result"]

    def until(self, query, holds):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                found = self.ask(query)
            except urllib.error.URLError:
                found = None  # it has not begun to listen, or to serve
            if found is not None and holds(found):
                return found
            assert time.monotonic() < deadline, f"{query}: {found}"
            time.sleep(0.1)


pytestmark = pytest.mark.http

RULES = made(MONITORING)["PrometheusRule", "kubedsm"]["spec"]
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
#: panels of the dashboard with a query to which some untroubled seconds may give nothing, and why
EMPTY = {
    "Optimality gap, p99": "all decisions are proven",
    "Migrations not completed, by result": "nothing is moved",
    "Duration of migration plans": "nothing is moved",
    "Packings, and planner requests without response": "no question goes unanswered",
    "Age of the measured load": "loadAware is off",
    "Prometheus queries without usable result": "loadAware is off",
    "Response time by workload and tier": "loadAware is off",
    "Slower at the edge than in the cloud": "loadAware is off",
    "Migrations by effect": "nothing is moved",
    "Change of response time by migrations": "nothing is moved",
    "Watch errors": "there is none",
    "Failed API requests": "none does",
}


class Scraped(Scheduler):
    def __init__(self, server, *arguments):
        super().__init__(server, *(arguments or ("--metrics-address", "127.0.0.1:0")))
        self.url = self.until("connected")["metrics"]


@pytest.fixture(scope="module")
def scheduler(server):
    with Scraped(server) as running:
        server.deploy("web", 3)
        server.until(lambda: server.bound() == 3)
        yield running


def test_health_readiness_and_metrics_are_served_where_asked(server, scheduler):
    for path in ("healthz", "livez", "readyz"):
        assert fetch(f"{scheduler.url}/{path}") == (200, "ok")
    assert "[+]synced ok\n" in fetch(f"{scheduler.url}/readyz?verbose")[1]
    with urllib.request.urlopen(f"{scheduler.url}/metrics", timeout=PATIENCE) as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = response.read().decode()
    assert total(text, "scheduler_schedule_attempts_total", result="scheduled") == 3
    assert total(text, "process_cpu_seconds_total") > 0
    host = server.url.removeprefix("http://")
    bound = total(text, "rest_client_requests_total", method="POST", code="201", host=host)
    assert bound >= 3
    assert fetch(f"{scheduler.url}/decisions")[0] == 404


def test_an_address_that_is_taken_ends_it_only_if_it_was_asked_for(server, scheduler):
    taken = scheduler.url.removeprefix("http://")
    done = kubedsm("run", "--kubeconfig", server.kubeconfig, "--metrics-address", taken)
    assert done.returncode == 1
    assert done.stderr == f"kubedsm: error: cannot listen on {taken}: Address already in use\n"
    verbose = ("--log-level", "debug")
    with Scraped(server, *verbose) as first, Scheduler(server, *verbose) as second:
        warning = second.until("no metrics")
        assert warning["level"] == "warning"
        assert warning["error"].startswith("cannot listen on 127.0.0.1:10271: ")
        assert second.until("connected")["metrics"] == "none"
        assert first.stop(signal.SIGTERM)[0] == second.stop(signal.SIGTERM)[0] == 0


def test_a_scheduler_that_cannot_reach_its_server_yet_is_alive_and_not_ready(tmp_path):
    port = free_port()
    with Process(
        "run", "--kubeconfig", unreachable(tmp_path), "--metrics-address", f"127.0.0.1:{port}",
        "--diagnostics-port", "0", "-o", "json",
    ) as waiting:  # fmt: skip
        assert "trying again" in json.loads(waiting.line())["event"]
        assert fetch(f"http://127.0.0.1:{port}/healthz")[0] == 200
        status, text = fetch(f"http://127.0.0.1:{port}/readyz")
        assert status == 503
        assert "[-]joined failed: waits for an API server" in text
        code, _, err = waiting.stop(signal.SIGTERM)
        assert (code, err) == (0, "")


def test_the_log_is_json_on_stderr_unless_people_read_it(server):
    quiet = ("--diagnostics-port", "0", "--metrics-address", "127.0.0.1:0")
    run = ("run", "--kubeconfig", server.kubeconfig, *quiet)
    with (
        Process(*run) as usual,
        Process(*run, "--log-format", "console") as console,
        Process(*run, "--log-level", "error") as silent,
    ):
        for running, is_json in ((usual, True), (console, False)):
            line = running.process.stderr.readline()
            assert line.startswith("{") is is_json
            assert "connected" in line
            assert running.stop(signal.SIGTERM)[:2] == (0, "")
        silent.await_handler(signal.SIGTERM)
        assert silent.stop(signal.SIGTERM) == (0, "", "")


def answers(prometheus, panel):
    """Of each of its queries, whether there is a number in what it gives."""
    for query in queries(panel, __rate_interval="1m", __range="1m"):
        yield any(found["value"][1] != "NaN" for found in prometheus.ask(query))


def pods_wait_and_are_bound(server, prometheus):
    """One after the other: of series that begin with a pod nothing tells that it came."""
    bound = "sum(scheduler_pod_scheduling_sli_duration_seconds_count)"
    server.deploy("huge", 1, cpu="1000")
    for name, pods in (("more", 4), ("and-more", 5)):
        server.deploy(name, 1)
        prometheus.until(f"{bound} >= {pods}", bool)
    prometheus.until('scheduler_unschedulable_pods{plugin="NodeResourcesFit"} > 0', bool)


@real
@pytest.mark.network
def test_every_query_of_alerts_and_dashboard_answers_in_a_real_prometheus(tmp_path):
    exporter = f"127.0.0.1:{free_port()}"
    with Server() as server, Scraped(server) as scheduler:
        server.deploy("web", 3)
        server.until(lambda: server.bound() == 3)
        targets = {"kubedsm": scheduler.url.removeprefix("http://"), "node": exporter}
        with (
            Program("prometheus-node-exporter", f"--web.listen-address={exporter}"),
            Prometheus(tmp_path, targets, RULES) as prometheus,
        ):
            ask_everything(server, scheduler, prometheus)


def ask_everything(server, scheduler, prometheus):
    prometheus.until("count(up == 1)", lambda found: found and found[0]["value"][1] == "2")
    prometheus.until('count_over_time(up{job="kubedsm"}[1m])', lambda f: int(f[0]["value"][1]) >= 3)
    assert prometheus.ask("count(node_cpu_seconds_total)")
    for alert in ALERTS:
        prometheus.ask(alert["expr"])
        for name in re.findall(r"([a-z_]+)\{", alert["expr"]):
            assert prometheus.ask(f'{name}{{job="kubedsm"}}'), name
    rules = json.loads(fetch(f"{prometheus.url}/api/v1/rules")[1])["data"]["groups"][0]["rules"]
    assert [(rule["name"], rule["health"]) for rule in rules] == [
        (alert["alert"], "ok") for alert in ALERTS
    ]
    leads = prometheus.ask('leader_election_master_status{job="kubedsm"}')
    assert [found["value"][1] for found in leads] == ["1"]
    pods_wait_and_are_bound(server, prometheus)
    empty = {panel["title"] for panel in PANELS if not all(answers(prometheus, panel))}
    assert empty <= set(EMPTY) <= {panel["title"] for panel in PANELS}
    share = prometheus.ask('kubedsm_workload_edge_share{workload="web"}')
    assert [(f["metric"]["namespace"], f["value"][1]) for f in share] == [("default", "1")]
    scheduler.stop(signal.SIGKILL)
    prometheus.until('up{job="kubedsm"}', lambda found: found[0]["value"][1] == "0")
    [gone] = prometheus.until(ALERTS[0]["expr"], bool)
    assert gone["value"][1] == "1"


WINDOW = "30s"
#: of what cAdvisor and a service tell of a pod, what each second adds
COUNTED = {
    "container_cpu_usage_seconds_total": 0.25,
    "container_fs_reads_bytes_total": 1000.0,
    "container_fs_writes_bytes_total": 2000.0,
    "container_network_receive_bytes_total": 300.0,
    "container_network_transmit_bytes_total": 400.0,
    "http_request_duration_seconds_sum": 5.0,
    "http_request_duration_seconds_count": 100.0,
}
ANSWERS = {
    "seconds": "sum by(namespace,pod)(rate(http_request_duration_seconds_sum[$window]))",
    "requests": "sum by(namespace,pod)(rate(http_request_duration_seconds_count[$window]))",
}


@contextmanager
def pods_measured(server):
    """What cAdvisor, and a service in each pod, would show of the pods in the emulated cluster."""
    began = time.monotonic()

    def text():
        for pod in server.pods():
            labels = f'{{namespace="default",pod="{pod["metadata"]["name"]}",container="c"}}'
            for name, each in COUNTED.items():
                yield f"{name}{labels} {each * (time.monotonic() - began)}\n"
            yield f"container_memory_working_set_bytes{labels} 1000000\n"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write("".join(text()).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as shown:
        threading.Thread(target=shown.serve_forever, args=(0.05,)).start()
        try:
            yield f"127.0.0.1:{shown.server_port}"
        finally:
            shown.shutdown()


class Measuring(Scheduler):
    def __init__(self, server, prometheus):
        load = {"prometheus": prometheus, "period": "500ms", "window": WINDOW}
        text = yaml.safe_dump(
            {
                "loadAware": load,
                "latency": {"queries": ANSWERS},
                "services": {"default/web": {"latencyTarget": "60ms"}},
            }
        )
        made = {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": text}}
        server.call("POST", "/api/v1/namespaces/kubedsm/configmaps", made)
        super().__init__(
            server, "--metrics-address", "127.0.0.1:0", "--configmap", "kubedsm/kubedsm"
        )
        self.server = server
        said = self.until("connected")
        self.url, self.diagnostics = said["metrics"], said["diagnostics"]

    def metric(self, name, **labels):
        return total(fetch(f"{self.url}/metrics")[1], name, **labels)

    def knows(self, nodes):
        return self.metric("kubedsm_load_nodes") == nodes


@real
@pytest.mark.network
def test_every_default_query_answers(tmp_path):
    exporter = f"127.0.0.1:{free_port()}"
    with (
        Server() as server,
        Program("prometheus-node-exporter", f"--web.listen-address={exporter}"),
        pods_measured(server) as pods,
    ):
        nodes = [node["metadata"]["name"] for node in server.call("GET", "/api/v1/nodes")["items"]]
        server.deploy("web", 3)
        targets = {"node": (exporter, [f"{name}:9100" for name in nodes]), "pods": pods}
        with Prometheus(tmp_path, targets) as prometheus:
            prometheus.until(
                f"rate(http_request_duration_seconds_count[{WINDOW}])", lambda f: len(f) == 3
            )
            prometheus.until(f"rate(node_cpu_seconds_total[{WINDOW}])", bool)
            with Measuring(server, prometheus.url) as scheduler:
                it_is_known(server, scheduler, len(nodes))
                code, _, err = scheduler.stop(signal.SIGTERM)
                assert code == 0, err


def it_is_known(server, scheduler, nodes):
    server.until(lambda: server.bound() == 3 and scheduler.knows(nodes))
    # No demand and no latencies by site are configured.
    for query in sorted({*QUERIES} - {DEMAND, LATENCY}):
        server.until(
            lambda q=query: scheduler.metric(
                "kubedsm_load_queries_total", query=q, result="answered"
            )
        )
    seconds = {"namespace": "default", "workload": "web"}
    server.until(lambda: scheduler.metric("kubedsm_response_time_seconds", **seconds))
    assert scheduler.metric("kubedsm_response_time_seconds", **seconds) == pytest.approx(
        0.05, rel=0.1
    )
    done = kubedsm("config", "show", "--running", "--server", scheduler.diagnostics, "-o", "json")
    shown = kubedsm("config", "show", "--running", "--server", scheduler.diagnostics).stdout
    assert "default/web" in shown
    assert "60ms" in shown
    [web] = json.loads(done.stdout)["targets"]
    assert web["workload"] == "default/web"
    assert web["measured"]["edge"] == pytest.approx(0.05, rel=0.1)
    assert web["taken"]["cloud"] == 0.08  # none of its pods is there
    assert web["qos"] == pytest.approx((0.08 - 0.06) / (0.08 - web["taken"]["edge"]))
