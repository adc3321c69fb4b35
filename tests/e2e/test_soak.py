"""The soak as a user runs it, short: what it says, not how fast anything was."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.http, pytest.mark.long]

#: the promises that do not depend on how busy this machine is
SAFE = (
    *("caught", "ends", "never", "bound", "marks", "replicas", "room", "work", "processes"),
    *("multiply",),
)


def test_a_short_soak_leaves_everybody_bound_and_nothing_caught_whatever_harm_is_done():
    harm = ["--replicas", "2", "--kill-every", "4", "--cut-every", "3"]
    command = ["bench", "soak", "--minutes", "0.25", "--odd-pods", "8", *harm, "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "kubedsm", *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert said["workloads"] > 0
    assert said["podsBound"] > 0
    assert said["namespacesDeleted"] > 0
    assert said["harm"]["leaders killed"] > 0
    assert said["leaders"] > 1
    for promise in SAFE:
        assert said["promises"][promise]["kept"], said["promises"][promise]
    assert said["kept"] == all(promise["kept"] for promise in said["promises"].values())
    assert done.returncode == (0 if said["kept"] else 1)
