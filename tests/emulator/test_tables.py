"""What `kubectl get` is given to print."""

from typing import Any

import pytest

from kubedsm_lab.emulator.api import resources
from kubedsm_lab.emulator.http.tables import as_table, human_duration, pod_status

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
CREATED = "2025-12-31T23:55:30Z"


def row(resource: resources.Resource, obj: dict[str, Any]) -> dict[str, Any]:
    """Column → cell."""
    obj = {**obj, "metadata": {"name": "x", "creationTimestamp": CREATED, **obj["metadata"]}}
    table = as_table(resource, [obj], {}, now=NOW)
    names = [column["name"] for column in table["columnDefinitions"]]
    (only,) = table["rows"]
    return dict(zip(names, only["cells"], strict=True))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (270, "4m30s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 120, "5h2m"),
        (48 * 3600, "2d"),
        (800 * 86400, "2y70d"),
        (3000 * 86400, "8y"),
    ],
)
def test_durations_are_as_short_as_kubectl_has_them(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def pod(
    phase: str = "Running",
    containers: list[dict[str, Any]] | None = None,
    *,
    deleting: bool = False,
    **status: Any,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"deletionTimestamp": CREATED} if deleting else {}
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "c"}], "nodeName": "n2"},
        "status": {"phase": phase, "containerStatuses": containers or [], **status},
    }


RUNNING = {"name": "c", "ready": True, "restartCount": 0, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("word", "obj"),
    [
        ("Pending", pod("Pending")),
        ("Running", pod(containers=[RUNNING])),
        ("Terminating", pod(containers=[RUNNING], deleting=True)),
        ("Succeeded", pod("Succeeded", deleting=True)),
        ("Unknown", pod(deleting=True, reason="NodeLost")),
        ("OutOfcpu", pod("Failed", reason="OutOfcpu")),
        (
            "SchedulingGated",
            pod("Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]),
        ),
        (
            "ContainerCreating",
            pod(containers=[{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]),
        ),
        ("Error", pod(containers=[{"name": "c", "state": {"terminated": {"reason": "Error"}}}])),
        ("ExitCode:3", pod(containers=[{"name": "c", "state": {"terminated": {"exitCode": 3}}}])),
    ],
)
def test_a_pod_status_is_worked_out(word: str, obj: dict[str, Any]) -> None:
    assert pod_status(obj) == word


def test_a_pod_row() -> None:
    restarted = {
        **RUNNING,
        "restartCount": 2,
        "lastState": {"terminated": {"finishedAt": "2025-12-31T23:59:00Z"}},
    }
    obj = pod(containers=[restarted], podIP="10.244.1.2")
    obj["spec"]["readinessGates"] = [{"conditionType": "a"}, {"conditionType": "b"}]
    obj["status"]["conditions"] = [{"type": "a", "status": "True"}]
    assert row(resources.PODS, obj) == {
        "Name": "x",
        "Ready": "1/1",
        "Status": "Running",
        "Restarts": "2 (60s ago)",
        "Age": "4m30s",
        "IP": "10.244.1.2",
        "Node": "n2",
        "Nominated Node": "<none>",
        "Readiness Gates": "1/2",
    }
