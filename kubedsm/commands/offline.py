"""Decisions about a dump: what the scheduler would do, without a cluster."""

import time
from typing import Any

import attrs

from kubedsm.commands.console import remark
from kubedsm.config.mismatches import mismatches
from kubedsm.config.settings import Configuration
from kubedsm.kube.wire.dump import Dump, Malformed
from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.placing.decision import Decision


@attrs.frozen(slots=True)
class OfflinePlacement:
    snapshot: Snapshot
    decision: Decision
    #: pods that wait for us and could not be read
    unreadable: tuple[Malformed, ...]
    #: pods that wait for another scheduler
    foreign: int

    def as_json(self) -> dict[str, Any]:
        decision = self.decision
        unplaced = [
            {
                "pod": str(self.snapshot.pods[uid]),
                "reasons": {node: list(why.reasons) for node, why in rejections.items()},
            }
            for uid, rejections in decision.unplaced.items()
        ]
        unplaced += [
            {
                "pod": pod.name,
                "reasons": {node: [pod.reason] for node in sorted(self.snapshot.nodes)},
            }
            for pod in self.unreadable
        ]
        return {
            "bindings": [
                {"pod": str(pod), "node": node, "tier": tier.value}
                for pod, node, tier in decision.bindings
            ],
            "unplaced": unplaced,
            "score": {
                "before": decision.score_before / NANO,
                "after": decision.score_after / NANO,
                "fragmentation": decision.fragmentation,
            },
            "proven": decision.proven,
            "provenOf": decision.proof.as_json(),
            "certificates": [each.as_json() for each in decision.certificates],
            "cloudNodes": decision.looked_at and decision.looked_at.as_json(),
        }


def within(seconds: float) -> Deadline:
    """Until when to think about what is begun now."""
    started, seconds = time.monotonic(), max(seconds, 0.001)
    return Deadline(lambda: (time.monotonic() - started) / seconds, seconds)


def batch_deadline(configuration: Configuration) -> Deadline:
    """As the scheduler has it for a batch that it thinks about."""
    return within(max(configuration.batch.budget, configuration.solver.budget))


def mirror_of(dump: Dump, configuration: Configuration) -> ClusterMirror:
    mirror = ClusterMirror(configuration.scheduler_name, configuration.tiers)
    for event in dump.events:
        mirror.apply(event)
    return mirror


def snapshot_of(dump: Dump, configuration: Configuration) -> Snapshot:
    """The cluster of the dump; what the configuration speaks of and it has not is said."""
    snapshot = mirror_of(dump, configuration).snapshot()
    for line in mismatches(snapshot, configuration):
        remark(line)
    return snapshot


def place(
    dump: Dump, configuration: Configuration, deadline: Deadline = NO_DEADLINE
) -> OfflinePlacement:
    """Decide for the pods of a dump that wait for us, as one batch."""
    ours = configuration.scheduler_name
    snapshot = snapshot_of(dump, configuration)
    waiting_for_us = snapshot.schedulable(snapshot.pods.values())
    decision = configuration.policy.decide(snapshot, waiting_for_us, deadline)
    waiting = [pod for pod in snapshot.pods.values() if pod.waits_for_node]
    return OfflinePlacement(
        snapshot,
        decision,
        tuple(
            m
            for m in dump.malformed
            if m.kind == "Pod" and m.scheduler_name == ours and not m.bound
        ),
        sum(pod.scheduler_name != ours for pod in waiting),
    )
