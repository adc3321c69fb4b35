"""What is promised to each workload at a moment, and which response times made it."""

import msgspec

from kubedsm.model.model import Tier
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.policies.kubedsm import KubeDSM


class TierTimes(msgspec.Struct, frozen=True):
    """Seconds; None where nothing is known, or nothing asks for it."""

    edge: float | None = None
    cloud: float | None = None


class Promised(msgspec.Struct, frozen=True, rename="camel"):
    workload: str
    #: the edge share, and what that weighs
    qos: float
    weight: float
    #: what it answers in, as measured
    measured: TierTimes = TierTimes()
    #: seconds; and the response times by which its promise is made of it
    latency_target: float | None = None
    taken: TierTimes = TierTimes()


def promised(snapshot: Snapshot, policy: KubeDSM) -> list[Promised]:
    """Of each workload that is ours."""
    promises, measured, goal = policy.qos_targets_in(snapshot), snapshot.measured, policy.latency
    found = []
    for workload in snapshot.shares():
        promise = promises(workload)
        answers = measured.answers.get(workload, {})
        seconds = (answers[tier].seconds if tier in answers else None for tier in Tier)
        target, taken = None if goal is None else goal.targets(workload), TierTimes()
        if goal is not None and target is not None:
            times = goal.times(workload, measured)
            taken = TierTimes(times.edge, times.cloud)
        found.append(
            Promised(str(workload), promise.qos, promise.weight, TierTimes(*seconds), target, taken)
        )
    return found
