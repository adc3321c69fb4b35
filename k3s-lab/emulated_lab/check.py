"""Check of a lab run: `python -m emulated_lab.check SERVER PROMETHEUS CONFIG FOLDER`.

Prints a line per check; exit code 1 if a check fails. The cluster must still run, and its recording
be in the folder.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import requests

from kubedsm.config.settings import Configuration, load_file
from kubedsm.terminal.echo import echo
from kubedsm_lab.emulator.api.object_state import is_ready, is_terminating

PATIENCE = 30
#: tolerated proportion of failed requests: those in flight to a terminated pod
MOST_FAILED = 0.01

#: queries of the scheduler that must have a result
CONDITIONS = {
    "no internal error occurred": "(sum(kubedsm_caught_errors_total) or vector(0)) == 0",
    "the load of the nodes is known": "kubedsm_load_nodes > 0",
    "the load is recent": "kubedsm_load_age_seconds < 15",
    # Under load only: services have no requests afterwards.
    "response times were measured": "count_over_time(kubedsm_response_time_seconds[5m]) > 0",
}

#: result and description
Check = tuple[bool, str]


def fetch(url: str, **parameters: str) -> Any:
    answer = requests.get(url, parameters, timeout=PATIENCE)
    answer.raise_for_status()
    return answer.json()


def check_pods(server: str) -> Iterator[Check]:
    """Check that all pods are Ready, waiting for replicas that an autoscaler has just created."""
    ends = time.monotonic() + PATIENCE
    while True:
        pods = fetch(f"{server}/api/v1/namespaces/lab/pods")["items"]
        staying = [pod for pod in pods if not is_terminating(pod)]
        ready = sum(map(is_ready, staying))
        if 0 < ready == len(staying) or time.monotonic() > ends:
            break
        time.sleep(0.5)
    yield 0 < ready == len(staying), f"{ready} of {len(staying)} pods are Ready"


def check_requests(played: dict[str, Any]) -> Iterator[Check]:
    for name, service in played["services"].items():
        due, answered = service["requests"], service["answered"]
        enough = answered >= (1 - MOST_FAILED) * due > 0
        yield enough, f"{name}: {answered} of {due} requests were answered"


def check_results(results: dict[str, Any]) -> Iterator[Check]:
    (run,) = results["runs"]
    ratio = run["edgeRatio"]
    yield ratio is not None and 0 < ratio <= 1, f"edge ratio {ratio}"
    lost = run["lostPodSeconds"]
    yield lost == 0, f"{lost} pod-seconds lost in {run['migrations']} moves"


def list_queries(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Yield name and PromQL expression of each Prometheus query of the scheduler."""
    load = configuration.load_aware
    for of, queries in (
        ("loadAware.queries.node", load.queries.node),
        ("loadAware.queries.pod", load.queries.pod),
        ("latency.queries", configuration.latency.queries),
    ):
        for name, query in attrs.asdict(queries).items():
            yield f"{of}.{name}", load.fill_window(query)


def check_queries(prometheus: str, configuration: Configuration) -> Iterator[Check]:
    def answers(query: str) -> int:
        return len(fetch(f"{prometheus}/api/v1/query", query=query)["data"]["result"])

    for name, query in list_queries(configuration):
        found = answers(query)
        yield found > 0, f"{name} has {found} answers"
    for what, query in CONDITIONS.items():
        yield answers(query) > 0, f"the scheduler: {what}"


def main(server: str, prometheus: str, config: str, folder: str) -> int:
    said = [
        *check_pods(server),
        *check_requests(json.loads(Path(folder, "requests.json").read_bytes())),
        *check_results(json.loads(Path(folder, "results.json").read_bytes())),
        *check_queries(prometheus, load_file(config)),
    ]
    for so, what in said:
        echo(f"{'ok' if so else 'WRONG':5} {what}")
    return 0 if all(so for so, _ in said) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
