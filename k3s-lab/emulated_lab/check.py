"""python -m emulated_lab.check SERVER PROMETHEUS CONFIG FOLDER: is a run what it should be?

One line for each thing, and exit code 1 if one is not so. The cluster still runs, and the folder
has what was recorded of it.
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

PATIENCE = 30
#: of the requests. The services fail none; those of a pod that is killed would be.
MOST_FAILED = 0.01

#: what Prometheus must find to be so of the scheduler
CONDITIONS = {
    "it caught no mistake of its own": "(sum(kubedsm_caught_errors_total) or vector(0)) == 0",
    "it knows the load of its nodes": "kubedsm_load_nodes > 0",
    "and not one of long ago": "kubedsm_load_age_seconds < 15",
    # While there was load: then nobody asks the services any more.
    "it knew what services answer in": "count_over_time(kubedsm_response_time_seconds[5m]) > 0",
}

#: whether it is so, and what
Said = tuple[bool, str]


def fetched(url: str, **parameters: str) -> Any:
    answer = requests.get(url, parameters, timeout=PATIENCE)
    answer.raise_for_status()
    return answer.json()


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def of_pods(server: str) -> Iterator[Said]:
    """An autoscaler may have made one just now: it is given its time to start."""
    ends = time.monotonic() + PATIENCE
    while True:
        pods = fetched(f"{server}/api/v1/namespaces/lab/pods")["items"]
        staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        ready = sum(map(is_ready, staying))
        if 0 < ready == len(staying) or time.monotonic() > ends:
            break
        time.sleep(0.5)
    yield 0 < ready == len(staying), f"{ready} of {len(staying)} pods are Ready"


def of_requests(played: dict[str, Any]) -> Iterator[Said]:
    for name, service in played["services"].items():
        due, answered = service["requests"], service["answered"]
        enough = answered >= (1 - MOST_FAILED) * due > 0
        yield enough, f"{name}: {answered} of {due} requests were answered"


def of_results(results: dict[str, Any]) -> Iterator[Said]:
    (run,) = results["runs"]
    ratio = run["edgeRatio"]
    yield ratio is not None and 0 < ratio <= 1, f"edge ratio {ratio}"
    lost = run["lostPodSeconds"]
    yield lost == 0, f"{lost} pod-seconds lost in {run['migrations']} moves"


def asked(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """The name and the text of each query that the scheduler asks."""
    load = configuration.load_aware
    for of, queries in (
        ("loadAware.queries.node", load.queries.node),
        ("loadAware.queries.pod", load.queries.pod),
        ("latency.queries", configuration.latency.queries),
    ):
        for name, query in attrs.asdict(queries).items():
            yield f"{of}.{name}", load.fill_window(query)


def of_queries(prometheus: str, configuration: Configuration) -> Iterator[Said]:
    def answers(query: str) -> int:
        return len(fetched(f"{prometheus}/api/v1/query", query=query)["data"]["result"])

    for name, query in asked(configuration):
        found = answers(query)
        yield found > 0, f"{name} has {found} answers"
    for what, query in CONDITIONS.items():
        yield answers(query) > 0, f"the scheduler: {what}"


def main(server: str, prometheus: str, config: str, folder: str) -> int:
    said = [
        *of_pods(server),
        *of_requests(json.loads(Path(folder, "requests.json").read_bytes())),
        *of_results(json.loads(Path(folder, "results.json").read_bytes())),
        *of_queries(prometheus, load_file(config)),
    ]
    for so, what in said:
        echo(f"{'ok' if so else 'WRONG':5} {what}")
    return 0 if all(so for so, _ in said) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
