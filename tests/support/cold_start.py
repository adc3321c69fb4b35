"""Cold start of real processes: `PYTHONPATH=tests python -m support.cold_start [RUNS [LOAD]]`.

990 pods wait on 50 empty nodes of `kubedsm emulate` before `kubedsm run` starts, next to LOAD busy
loops. Each run prints the pods at the edge and in the cloud once all are bound; all fit the edge.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

PORT = 18471
BASE = f"http://127.0.0.1:{PORT}"
NODES, WORKLOADS, REPLICAS = 50, 30, 33
TIMEOUT = 180.0


def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def deployment(number):
    labels = {"app": f"svc-{number:02}"}
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": labels["app"], "namespace": "default"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"schedulerName": "kubedsm", "containers": [container]},
            },
        },
    }


def nodes_of_pods():
    return [pod["spec"].get("nodeName") for pod in ask("/api/v1/pods")["items"]]


def until(condition):
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if condition():
                return
        time.sleep(0.5)
    raise SystemExit("timed out")


def run_once(directory, load):
    nodes = [
        {"name": f"{tier}{n:02}", "tier": tier, "cpu": "8", "memory": "16Gi"}
        for tier, number in (("edge", 35), ("cloud", 15))
        for n in range(number)
    ]
    cluster, kubeconfig = directory / "cluster.yaml", directory / "kubeconfig"
    cluster.write_text(json.dumps({"nodes": nodes}))
    with contextlib.ExitStack() as stack:

        def start(*command):
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)

        kubedsm = Path(sys.executable).with_name("kubedsm")
        emulate = ("--cluster", cluster, "--port", str(PORT), "--kubeconfig", kubeconfig)
        start(kubedsm, "emulate", *emulate)
        until(lambda: len(ask("/api/v1/nodes")["items"]) == NODES)
        for number in range(WORKLOADS):
            ask("/apis/apps/v1/namespaces/default/deployments", deployment(number))
        until(lambda: len(nodes_of_pods()) == WORKLOADS * REPLICAS)
        for _ in range(load):
            start("timeout", str(TIMEOUT), sys.executable, "-c", "while True: pass")
        start(kubedsm, "run", "--kubeconfig", kubeconfig, "--leader-elect=false")
        until(lambda: None not in nodes_of_pods())
        return Counter(node.rstrip("0123456789") for node in nodes_of_pods())


def main(runs=5, load=8):
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as directory:
            print(dict(run_once(Path(directory), load)), flush=True)  # noqa: T201 - its output


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
