"""Seeded bugs that chaos runs notice by themselves: `python tests/mutants --chaos`."""

import os
import subprocess
import sys
from pathlib import Path

#: workload that reaches the code of each bug; its faults are drawn as `kubedsm chaos` draws them
WORKLOADS = {
    "binds/500-is-refused": "burst",
    "binds/conflict-is-refused": "burst",
    "binds/ghost-read": "scaling",
    "binds/lost-answer-forgets": "burst",
    "binds/namesake-believed": "scaling",
    "binds/unknown-is-refused": "burst",
    "calls/bind-any-uid": "burst",
    "calls/detach-any-state": "cloud-to-edge",
    "calls/evict-any-uid": "cloud-to-edge",
    "calls/reattach-any-uid": "cloud-to-edge",
    "calls/terminating-is-ready": "cloud-to-edge",
    "gate/goes-on-under-way": "leader-change",
    "gate/late-write-leaves": "leader-change",
    "gate/open-at-the-end": "leader-change",
    "gate/patches-pass": "leader-change",
    "leaders/hung-renewal": "leader-change",
    "left-behind/not-restored-again": "cloud-to-edge",
    "moves/budget-keeps-an-orphan": "owner-deleted",
    "moves/claim-not-ended": "cloud-to-edge",
    "moves/detach-unknown-is-refused": "cloud-to-edge",
    "moves/evicts-the-last": "single-replica",
    "moves/refused-eviction-forgotten": "budgeted",
    "moves/replacement-not-released": "cloud-to-edge",
    "moves/replacement-that-cannot-come": "cloud-to-edge",
    "moves/room-not-released": "cloud-to-edge",
    "placement/lost-replacement-holds": "cloud-to-edge",
    "placement/refused-bind-holds": "burst",
    "placement/room-not-handed-over": "cloud-to-edge",
    "plans/bind-of-deleted-waits": "scaling",
    "plans/bound-anywhere": "burst",
    "plans/cancelled-is-not-lost": "cloud-to-edge",
    "plans/evicts-before-ready": "single-replica",
    "plans/live-read-ignored": "burst",
    "plans/replacement-never-late": "cloud-to-edge",
    "plans/restored-pod-gone": "cloud-to-edge",
    "plans/verified-for-ever": "burst",
    "volumes/node-stays-selected": "volumes",
    "world/freed-too-much": "scaling",
    "world/namesake-kept": "stateful-set",
    "world/older-state": "scaling",
    "world/reserved-again": "burst",
    "world/reserved-is-free": "burst",
    "world/silent-release": "burst",
}
#: bugs that must raise an alarm
NOTICED = frozenset({
    "binds/500-is-refused",
    "binds/lost-answer-forgets",
    "binds/unknown-is-refused",
    "calls/bind-any-uid",
    "calls/detach-any-state",
    "calls/evict-any-uid",
    "calls/reattach-any-uid",
    "moves/claim-not-ended",
    "moves/refused-eviction-forgotten",
    "moves/replacement-not-released",
    "placement/lost-replacement-holds",
    "placement/refused-bind-holds",
    "placement/room-not-handed-over",
    "plans/cancelled-is-not-lost",
    "plans/live-read-ignored",
})  # fmt: skip
#: a workload's share of `kubedsm chaos --short`
INJECTIONS = 110
#: prints the first alarm, with the number of runs; the run without fault is the first
_PLAY = """
import re
import sys
from kubedsm_lab.chaos.sweep import choose_injections, judge, list_injections
try:
    found = list_injections([sys.argv[1]], 0)
except RuntimeError as error:
    print(f"0 {error}")
    sys.exit()
found = [each for each in found if re.search(sys.argv[3], str(each.fault))]
chosen = choose_injections(found, int(sys.argv[2]), 0)
for number, injection in enumerate(sorted(chosen, key=lambda each: hash(str(each.fault))), 1):
    verdict = judge(injection)
    if verdict.violations:
        print(f"{number} {injection.fault}: {verdict.violations[0]}")
        break
"""


def find_alarm(copy: Path, bug: str, patience: int) -> tuple[str, str]:
    """Return the first alarm of chaos runs in a copy of the tree, or why none is known."""
    workload, faults = BUGS[bug]
    limited = ("prlimit", f"--cpu={patience}", sys.executable, "-c", _PLAY)
    done = subprocess.run(
        (*limited, workload, str(INJECTIONS), faults),
        cwd=copy,
        env={**os.environ, "PYTHONPATH": f"{copy}:{copy / 'lab'}", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode < 0:
        return f"no end after {patience} s of CPU", ""
    said = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode:
        return "", said[-1] if said else f"ended with {done.returncode}"
    return (said[0] if said else ""), ""
