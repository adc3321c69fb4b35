"""Commands as child processes, and waiting for a condition in real time."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from kubedsm_lab.emulator.api.object_state import is_ready
from kubedsm_lab.emulator.http.server import kubeconfig
from kubedsm_lab.emulator.paper import pod_spec, workload
from support import drawing
from support.forked import Forked

PATIENCE = 120.0


def wait_until(condition, aim=""):
    """Return the condition's value as soon as it is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain until {aim}"
        time.sleep(0.05)
    return found


async def until(condition):
    """Wait until the condition holds. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - of any kind, in another process or thread
            await asyncio.sleep(0.01)


def kubedsm(*arguments, timeout=60, **options):
    return subprocess.run(
        [sys.executable, "-m", "kubedsm", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )


def start_interpreter(arguments, stdout):
    return subprocess.Popen(
        [sys.executable, "-m", "kubedsm", *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


class Process:
    """Command that serves until it is terminated; in a long run, with an interpreter of its own."""

    start = staticmethod(start_interpreter) if drawing.LONG in os.environ else Forked

    def __init__(self, *arguments, stdout=subprocess.PIPE):
        self.process = self.start(arguments, stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE)

    def line(self):
        return self.process.stdout.readline()

    def await_handler(self, number):
        """Wait until the process handles a signal."""
        status = Path(f"/proc/{self.process.pid}/status")
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            [caught] = re.findall(r"^SigCgt:\s*(\w+)$", status.read_text(), re.MULTILINE)
            if int(caught, 16) >> (number - 1) & 1:
                return
            time.sleep(0.02)
        raise AssertionError(f"signal {number} is not handled after {PATIENCE} s")

    def stop(self, number):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


class Scheduler(Process):
    """`kubedsm run` process, whose log is read line by line."""

    def __init__(self, server, *arguments, diagnostics="0"):
        super().__init__(
            *("run", "--kubeconfig", server.kubeconfig, "-o", "json"),
            *("--diagnostics-port", diagnostics, *arguments),
        )

    def until(self, event):
        """Return the next log entry of an event."""
        while line := self.line():
            if (said := json.loads(line))["event"] == event:
                return said
        raise AssertionError(f"ended without {event!r}: {self.process.stderr.read()}")


class Server(Process):
    def __init__(self, *arguments):
        quick = ("--start-delay", "200ms")
        super().__init__("emulate", "--port", "0", "-o", "json", *quick, *arguments)
        self.said = json.loads(self.line())
        self.url, self.kubeconfig = self.said["server"], self.said["kubeconfig"]
        self.headers = {"Content-Type": "application/json"}

    def call(self, method, path, body=None):
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers=self.headers,
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return json.load(response)

    def deploy(self, name, replicas, cpu="100m"):
        spec = pod_spec({"cpu": cpu, "memory": "32Mi"}, terminationGracePeriodSeconds=30)
        path = "/apis/apps/v1/namespaces/default/deployments"
        self.call("POST", path, workload(name, replicas, spec))

    def configure(self):
        """Create the ConfigMap of an installation."""
        made = {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": ""}}
        self.call("POST", "/api/v1/namespaces/kubedsm/configmaps", made)

    def pods(self, app=None):
        """Return all pods, or those whose label `app` is this."""
        selected = "" if app is None else f"?labelSelector=app%3D{app}"
        return self.call("GET", f"/api/v1/pods{selected}")["items"]

    def bound(self, app=None):
        return sum("nodeName" in pod["spec"] for pod in self.pods(app))

    def ready(self):
        """Return the nodes of the Ready pods."""
        return [pod["spec"]["nodeName"] for pod in self.pods() if is_ready(pod)]

    def bind(self, pod, node):
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/binding"
        self.call("POST", path, {"metadata": {}, "target": {"kind": "Node", "name": node}})

    until = staticmethod(wait_until)


def fetch(url, **headers):
    """Return status and text of a response, of an error's as well."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


def unreachable(tmp_path):
    config = kubeconfig(f"http://127.0.0.1:{free_port()}")
    return write(tmp_path, "kubeconfig", json.dumps(config))
