"""Offline placement of the pending pods in a cluster dump, as JSON and as tables."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from kubedsm.cli.inputs import snapshot_of
from kubedsm.cli.tables import list_unproven, refer_to_packing, shares_table
from kubedsm.config.settings import Configuration
from kubedsm.kube.wire.dump import Dump, Malformed
from kubedsm.model.deadline import NO_DEADLINE, OUT_OF_TIME, Deadline
from kubedsm.model.model import NodeName, Tier
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.planner.plurals import counted, named
from kubedsm.plugins.fit import why_unschedulable
from kubedsm.plugins.plugin import Rejection
from kubedsm.terminal.fitted_table import table

#: columns
_INDENT = 2


@attrs.frozen(slots=True)
class OfflinePlacement:
    """Placement decision for the pending pods of a dump that name this scheduler."""

    snapshot: Snapshot
    decision: Decision
    #: unreadable pending pods of this scheduler
    unreadable: tuple[Malformed, ...]
    #: number of pending pods of other schedulers
    foreign: int
    #: of fragmentation
    measure: Measure
    #: pods that are unplaced because an older pod precedes them
    lost_to_age: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the document of `kubedsm place -o json`."""
        decision = self.decision
        unplaced = [
            {
                "pod": str(self.snapshot.pods[uid]),
                "reasons": {node: list(why.reasons) for node, why in rejections.items()},
            }
            for uid, rejections in decision.unplaced.items()
        ]
        fragmentation = Fragmentation(self.measure, request_mix(self.snapshot))
        after = self.snapshot.with_placed({pod.uid: node for pod, node, _ in decision.bindings})
        nodes = sorted(self.snapshot.nodes)
        unplaced += [
            {"pod": pod.name, "reasons": {node: [pod.reason] for node in nodes}}
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
                "fragmentation": fragmentation.of(after.in_turn(Tier.EDGE)),
            },
            "proven": decision.proof.whole,
            "provenOf": decision.proof.as_json(),
            "certificates": [each.as_json() for each in decision.certificates],
            "lostToAge": self.lost_to_age,
            "outOfTime": decision.out_of_time,
            "cloudNodes": decision.looked_at and decision.looked_at.as_json(),
        }


def place_pods(
    dump: Dump, configuration: Configuration, deadline: Deadline = NO_DEADLINE
) -> OfflinePlacement:
    """Place all pending pods of a dump that name this scheduler, in a single batch."""
    ours = configuration.scheduler_name
    snapshot = snapshot_of(dump, configuration)
    batch = snapshot.schedulable(snapshot.pods.values())
    decision = configuration.policy.decide_batch(snapshot, batch, deadline)
    unreadable = tuple(
        each
        for each in dump.malformed
        if each.kind == "Pod" and each.scheduler_name == ours and not each.bound
    )
    waiting = [pod for pod in snapshot.pods.values() if pod.waits_for_node]
    foreign = sum(pod.scheduler_name != ours for pod in waiting)
    lost = 0
    if decision.unplaced:
        regardless = attrs.evolve(configuration.policy, patience=math.inf)
        most = regardless.decide_batch(snapshot, batch, deadline)
        lost = max(0, len(most.bindings) - len(decision.bindings))
    measure = configuration.policy.measure
    return OfflinePlacement(snapshot, decision, unreadable, foreign, measure, lost)


def placement_tables(placement: OfflinePlacement, milliseconds: float) -> RenderableType:
    """Return tables of bindings, unplaced pods and edge shares, and the QoS score."""
    decision = placement.decision
    bindings = [(str(pod), node, tier.value) for pod, node, tier in decision.bindings]
    unplaced = list(explain_unplaced(placement))
    shares = shares_table(decision.shares_before, decision.shares_after)
    cloud_nodes = f"{decision.looked_at}, " if decision.looked_at else ""
    return Group(
        table(("pod", "node", "tier"), bindings, title="bindings")
        if bindings
        else Text("Nothing to bind."),
        *([Text("unplaced", style="italic"), *unplaced] if unplaced else ()),
        *([shares] if shares.rows else ()),
        Text(
            f"QoS {decision.score_before / NANO:.3f} -> {decision.score_after / NANO:.3f}, "
            f"{decision.proof.words}, {cloud_nodes}"
            f"decided in {milliseconds:.1f} ms"
        ),
        *_explain_age(placement.lost_to_age),
        *list_unproven(decision.certificates),
        *([Text(f"Cut short: {OUT_OF_TIME}.")] if decision.out_of_time else ()),
        *refer_to_packing(len(decision.unplaced)),
    )


def _explain_age(lost: int) -> Iterator[Text]:
    """Yield a line if the precedence of the oldest pods costs places."""
    if lost:
        yield Text(
            f"{counted(lost, 'more pod')} would be placed without batch.patience: the oldest pod of"
            " a priority goes first."
        )


def explain_unplaced(placement: OfflinePlacement) -> Iterator[RenderableType]:
    """Return a paragraph per group of equal unplaced pods: kube-scheduler's message, then the
    rejecting nodes.
    """
    snapshot = placement.snapshot
    pods = defaultdict[tuple[str, ...], list[str]](list)
    for uid, rejections in placement.decision.unplaced.items():
        pod = snapshot.pods[uid]
        message = why_unschedulable(pod.requests, rejections, snapshot.index)
        pods[message, *_explain_nodes(rejections)].append(str(pod))
    for (message, *nodes), names in pods.items():
        yield Text(f"{named(names)}: {message}")
        yield from (Padding(Text(line), (0, 0, 0, _INDENT)) for line in nodes)
    yield from (Text(each.reason) for each in placement.unreadable)


def _explain_nodes(rejections: Mapping[NodeName, Rejection]) -> Iterator[str]:
    """Yield a line per group of nodes with the same rejection, the largest group first."""
    groups = defaultdict[tuple[str, tuple[str, ...]], list[NodeName]](list)
    for name, rejection in rejections.items():
        groups[rejection.rule, rejection.reasons].append(name)
    for (rule, reasons), names in sorted(groups.items(), key=lambda of: (-len(of[1]), of[0])):
        yield f"{rule}: {', '.join(reasons)}: {named(sorted(names))}"
