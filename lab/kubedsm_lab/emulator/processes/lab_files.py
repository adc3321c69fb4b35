"""Where everything is, for others: what Prometheus is to ask (its file_sd), and Services' URLs."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from kubedsm.model.model import Tier
from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.emulator.actors.pod_state import labels_of
from kubedsm_lab.emulator.processes.forked import Process
from kubedsm_lab.emulator.processes.pod_processes import PodProcess

TARGETS, SERVICES = "targets.json", "services.json"
#: labels of a pod that may name its application, the first one that there is
_APP = ("app", "app.kubernetes.io/name")


def targets(
    running: Iterable[tuple[PodProcess, Process]], tier_of: Callable[[str], Tier | None]
) -> list[dict[str, Any]]:
    """What Prometheus is to ask, as its file_sd has it: an entry for each pod's process."""
    return [
        {
            "targets": [urlsplit(process.url).netloc],
            "labels": {
                "job": "pods",
                "namespace": pod.name[0],
                "pod": pod.name[1],
                "node": pod.node,
                "tier": tier_of(pod.node) or "",
                "app": next((v for n in _APP if (v := labels_of(pod.pod).get(n))), ""),
            },
        }
        for pod, process in running
    ]


def services(urls: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """By `namespace/name`, the URL of the proxy on loopback."""
    return {"/".join(name): url for name, url in sorted(urls.items())}


def write(path: Path, content: object) -> None:
    """All at once: who reads it meanwhile finds what was there before. Raises OSError."""
    write_whole(path, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
