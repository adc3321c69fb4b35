"""Seeded bugs that chaos runs notice by themselves: `python tests/mutants --chaos`."""

#: faults at every point; at binds; and those that keep a leader from its Lease
ANY, BIND, LEASE = "", "create-pods/binding:", "leases-lost|stopped-before|-leases:.*/minute"
#: workload that reaches the code of each bug, and a pattern of the faults there, and of the second
#: faults during the recovery, if it takes two; up to `INJECTIONS` of these runs are drawn as
#: `kubedsm chaos` draws them, whose long run has each kind at each point
NOTICED = {
    "binds/500-is-refused": ("burst", BIND),
    "binds/conflict-is-refused": ("burst", BIND),
    "binds/lost-answer-forgets": ("burst", BIND),
    "binds/unknown-is-refused": ("burst", BIND),
    "calls/bind-any-uid": ("burst", ANY),
    "calls/detach-any-state": ("cloud-to-edge", ANY),
    "calls/evict-any-uid": ("cloud-to-edge", ANY),
    "calls/reattach-any-uid": ("cloud-to-edge", ANY),
    "gate/late-write-leaves": ("leader-change", f"process:{BIND}.*stopped-before"),
    "gate/patches-pass": ("leader-change", f"process:{BIND}.*leases-lost"),
    "leaders/hung-renewal": ("leader-change", "update-leases:.*:timeout$"),
    "leaders/taken-early": ("slow-leader", f"process:{BIND}.*leases-lost"),
    "moves/budget-keeps-an-orphan": ("budgeted", ANY),
    "moves/claim-not-ended": ("contended", "patch-pods.detach"),
    "moves/refused-eviction-forgotten": ("budgeted", ANY),
    "moves/replacement-not-released": ("cloud-to-edge", f"{BIND}2:400$", "world:.*pod-deleted$"),
    "moves/room-not-released": ("cloud-to-edge", "patch-pods.detach"),
    "placement/no-drain-delay": ("cloud-to-edge", ANY),
    "placement/refused-bind-holds": ("burst", BIND),
    "placement/room-not-handed-over": ("cloud-to-edge", ANY),
    "placement/slow-plans-are-waited-for": ("slow-termination", ANY),
    "plans/bound-anywhere": ("burst", f"world:{BIND}.*pod-bound"),
    "plans/cancelled-is-not-lost": ("cloud-to-edge", ANY),
    "plans/evicts-before-ready": ("single-replica", ANY),
    "plans/evicts-before-settled": ("single-replica", ANY),
    "plans/live-read-ignored": ("burst", BIND),
    "world/reserved-is-free": ("burst", BIND),
    "world/silent-release": ("contended", "patch-pods.detach:.*:timeout"),
    "world/terminating-holds-nothing": ("edge-to-cloud", ANY),
}
#: those that need not raise an alarm; all others must
MISSED = {
    "binds/ghost-read": ("scaling", BIND),
    "binds/namesake-believed": ("stateful-set", BIND),
    "calls/terminating-is-ready": ("cloud-to-edge", "pod-deleted"),
    "gate/goes-on-under-way": ("leader-change", LEASE),
    "left-behind/not-restored-again": ("namespace-deleted", "patch-pods.reattach"),
    "moves/detach-unknown-is-refused": ("cloud-to-edge", "patch-pods.detach"),
    "moves/evicts-the-last": ("single-replica", "pods.MODIFIED"),
    "moves/replacement-that-cannot-come": ("cloud-to-edge", "world:"),
    "placement/lost-replacement-holds": ("cloud-to-edge", ANY),
    "plans/bind-of-deleted-waits": ("scaling", BIND),
    "plans/replacement-never-late": ("cloud-to-edge", "world:"),
    "plans/restored-pod-gone": ("cloud-to-edge", "pod-d"),
    "volumes/node-stays-selected": ("volumes", "patch-persistentvolumeclaims"),
    "world/namesake-kept": ("stateful-set", "pods.DELETED"),
    "world/older-state": ("scaling", BIND),
    "world/reserved-again": ("burst", BIND),
}
BUGS = NOTICED | MISSED
#: a workload's share of `kubedsm chaos --short`
INJECTIONS = 110
#: prints the first alarm, with the number of runs; the run without fault is the first
_PLAY = """
import re
import sys
from kubedsm_lab.chaos.sweep import choose_injections, judge, list_injections, list_next, replay
try:
    found = list_injections([sys.argv[1]], 0)
except RuntimeError as error:
    print(f"0 {error}")
    sys.exit()
for number, pattern in enumerate(sys.argv[3:]):
    if number:
        found = [pair for first in found for pair in list_next(replay(first), nearest=2)]
    found = [each for each in found if re.search(pattern, str(each.faults[-1]))]
chosen = choose_injections(found, int(sys.argv[2]), 0)
for number, injection in enumerate(sorted(chosen, key=lambda each: hash(str(each.faults[-1]))), 1):
    verdict = judge(injection)
    if verdict.violations:
        print(f"{number} {' '.join(map(str, injection.faults))}: {verdict.violations[0]}")
        break
"""


def list_arguments(bug: str) -> tuple[str, ...]:
    """Return the arguments of the Python that plays the runs which may notice a bug."""
    workload, *faults = BUGS[bug]
    return "-c", _PLAY, workload, str(INJECTIONS), *faults
