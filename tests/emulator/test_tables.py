"""What `kubectl get` is given to print."""

import pytest

from kubedsm_lab.emulator.http.tables import human_duration, pod_status

CREATED = "2025-12-31T23:55:30Z"


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
def test_durations_are_as_short_as_kubectl_has_them(seconds, text):
    assert human_duration(seconds) == text


def pod(phase="Running", containers=None, *, deleting=False, **status):
    metadata = {"deletionTimestamp": CREATED} if deleting else {}
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
def test_a_pod_status_is_worked_out(word, obj):
    assert pod_status(obj) == word
