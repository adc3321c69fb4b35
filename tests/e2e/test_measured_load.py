"""A real Prometheus is asked for the load of nodes and pods; killed, and started again."""

import json
import signal
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from kubedsm.app.load_reading import QUERIES
from support.command_line import kubedsm
from support.metered import total
from support.processes import Scheduler, Server, free_port
from support.real_prometheus import Program, Prometheus, get, real

pytestmark = [pytest.mark.http, real]

#: one that is started again scrapes nothing for five seconds
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
        for pod in server.call("GET", "/api/v1/namespaces/default/pods")["items"]:
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
        return total(get(f"{self.url}/metrics")[2], name, **labels)

    def knows(self, nodes):
        return self.metric("kubedsm_load_nodes") == nodes

    def told(self):
        events = self.server.call("GET", "/api/v1/namespaces/kubedsm/events")["items"]
        told = [event for event in events if event["reason"].startswith("Load")]
        return [event["reason"] for event in sorted(told, key=lambda event: event["eventTime"])]


def test_every_default_query_answers_and_prometheus_is_killed_and_started_again(tmp_path):
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
                it_goes_and_comes_back(server, scheduler, prometheus, len(nodes))
                code, _, err = scheduler.stop(signal.SIGTERM)
                assert code == 0, err


def it_is_known(server, scheduler, nodes):
    server.until(lambda: server.bound() == 3 and scheduler.knows(nodes))
    for query in QUERIES:
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
    [web] = json.loads(done.stdout)["promised"]
    assert web["workload"] == "default/web"
    assert web["measured"]["edge"] == pytest.approx(0.05, rel=0.1)
    assert web["taken"]["cloud"] == 0.08  # none of its pods is there
    assert web["qos"] == pytest.approx((0.08 - 0.06) / (0.08 - web["taken"]["edge"]))


def it_goes_and_comes_back(server, scheduler, prometheus, nodes):
    assert scheduler.metric("kubedsm_caught_errors_total", part="load monitor") == 0
    before = scheduler.told()
    prometheus.kill()
    server.deploy("meanwhile", 20)
    server.until(lambda: server.bound() == 23)
    server.until(lambda: scheduler.knows(0))
    server.deploy("after", 20)
    server.until(lambda: server.bound() == 43)
    server.until(lambda: scheduler.told() == [*before, "LoadUnknown"])
    prometheus.start()
    server.until(lambda: scheduler.knows(nodes))
    server.until(lambda: scheduler.told() == [*before, "LoadUnknown", "LoadKnown"])
    assert scheduler.metric("kubedsm_caught_errors_total", part="load monitor") == 0
