"""`kubedsm emulate --run-pods`: pods that are processes, reached and measured."""

import json
import os
import signal
from pathlib import Path

import pytest

from support.metered import total
from support.processes import PATIENCE, Server, fetch, wait_until

pytestmark = pytest.mark.http

NAMESPACE = "/api/v1/namespaces/default"
NODE = {"name": "e1", "tier": "edge", "cpu": 4, "memory": "4Gi"}


class Lab(Server):
    """One edge node, a Service `cart`, and pods of it that are bound where they are made."""

    def __init__(self, folder):
        cluster = folder / "cluster.json"
        cluster.write_text(json.dumps({"nodes": [NODE]}))
        self.folder = folder / "lab"
        super().__init__(
            *("--cluster", cluster, "--run-pods", self.folder),
            *("--metrics-address", "127.0.0.1:0", "--network", "edge=20ms"),
        )
        ports = [{"port": 80, "targetPort": 8080}]
        spec = {"selector": {"app": "cart"}, "ports": ports}
        service = {"metadata": {"name": "cart"}, "spec": spec}
        self.call("POST", f"{NAMESPACE}/services", service)

    def run(self, name, *arguments):
        container = {"name": "c", "image": "kubedsm", "command": ["loadgen", "serve"]}
        spec = {"nodeName": "e1", "containers": [{**container, "args": list(arguments)}]}
        metadata = {"name": name, "labels": {"app": "cart"}}
        self.call("POST", f"{NAMESPACE}/pods", {"metadata": metadata, "spec": spec})

    def container(self):
        status = self.call("GET", f"{NAMESPACE}/pods/p")["status"]
        return status.get("containerStatuses", [{"ready": False, "restartCount": 0}])[0]

    def file(self, name):
        return json.loads((self.folder / f"{name}.json").read_text())

    def metric(self, name, **labels):
        return total(fetch(f"{self.said['metrics']}/metrics")[1], name, **labels)

    def processes(self):
        """The processes of pods: forked by one that the emulator started."""
        return [pod for child in children(self.process.pid) for pod in children(child)]


def children(pid):
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(each) for task in tasks for each in (task / "children").read_text().split()]
    except FileNotFoundError:
        return []


def is_there(pid):
    """Nor a zombie, of which somebody has not heard yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_pod_is_a_process_that_is_reached_measured_started_again_and_gone_with_its_pod(tmp_path):
    with Lab(tmp_path) as lab:
        lab.run("p", "--cpu", "30", "--net", "2KB", "--drain", "0s")
        wait_until(lambda: lab.container()["ready"])
        ((target,),) = [each["targets"] for each in lab.file("targets")]
        labels = {"job": "pods", "namespace": "default", "pod": "p"}
        labels |= {"node": "e1", "tier": "edge", "app": "cart"}
        assert lab.file("targets") == [{"targets": [target], "labels": labels}]

        cart = lab.file("services")["default/cart"]
        for _ in range(3):
            assert fetch(cart)[1] == "x" * 2000
        assert total(fetch(f"http://{target}/metrics")[1], "http_requests_total") == 3
        of = {"namespace": "default", "pod": "p"}
        clients = {**of, "tier": "edge", "service": "cart"}
        assert lab.metric("kubedsm_lab_request_duration_seconds_count", **clients) == 3
        assert lab.metric("kubedsm_lab_request_duration_seconds_sum", **clients) >= 3 * 0.05
        assert lab.metric("container_cpu_usage_seconds_total", container="c", **of) >= 0.09
        assert lab.metric("container_memory_working_set_bytes", **of) > 2**20
        assert lab.metric("container_network_transmit_bytes_total", **of) > 6000
        assert lab.metric("node_cpu_seconds_total", instance="e1") >= 0.09
        assert lab.metric("node_memory_MemTotal_bytes", instance="e1") == 4 * 2**30

        (pid,) = lab.processes()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: lab.container()["ready"] and lab.container()["restartCount"] == 1)
        assert lab.metric("node_cpu_seconds_total", instance="e1") >= 0.09

        lab.call("DELETE", f"{NAMESPACE}/pods/p")
        wait_until(lambda: lab.pods() == [])
        assert lab.processes() == []
        wait_until(lambda: lab.file("targets") == [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_emulator(number, tmp_path):
    with Lab(tmp_path) as lab:
        lab.run("p")
        wait_until(lambda: lab.container()["ready"])
        started = children(lab.process.pid) + lab.processes()
        assert len(started) >= 2
        lab.process.send_signal(number)
        lab.process.wait(PATIENCE)
        try:
            wait_until(lambda: not any(is_there(pid) for pid in started))
        finally:
            for pid in filter(is_there, started):
                os.kill(pid, signal.SIGKILL)
