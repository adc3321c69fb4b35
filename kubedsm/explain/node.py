"""Explanation of a node: capacity, pods with QoS targets, and recently rejected pods."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Literal

import attrs

from kubedsm.config.settings import Configuration
from kubedsm.explain.decision_record import Basis, DecisionRecord, Entry
from kubedsm.explain.decisions import build_explainer
from kubedsm.explain.explanation import (
    Explanation,
    Link,
    Section,
    Words,
    amount,
    decision_link,
    link,
    moment,
    percent,
    table,
)
from kubedsm.explain.facts import NodeFacts, WorkloadPods
from kubedsm.explain.migration_outcome import MoveOutcome
from kubedsm.model.measured import Usage
from kubedsm.model.model import Node, Pod, Resources, Tier, Uid, Workload
from kubedsm.model.node_index import site_of
from kubedsm.model.sites import NOTHING_AWAY, Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import count_target_pods
from kubedsm.planner.plurals import counted

#: worst reason for accepting no pods; empty without reason. Cut off: the site is partitioned, and
#: pods are ignored; stabilising: the site is in the stabilisation period
NodeState = Literal["", "cordoned", "stabilising", "not ready", "unreachable", "partitioned"]

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
#: decisions searched for rejections, pods checked of each, and rows shown
_SEARCHED, _CHECKED, _SHOWN = 16, 20, 10
_USUAL = {"cpu", "memory", "pods"}
_TIERS = {
    None: "neither an edge nor a cloud node, so KubeDSM schedules nothing there",
    Tier.EDGE: "an edge node",
    Tier.CLOUD: "a cloud node",
}


def node_state(node: Node, away: Away) -> NodeState:
    if any(node.name in nodes for nodes in away.partitioned.values()):
        return "partitioned"
    taints = {taint.key for taint in node.taints}
    if _UNREACHABLE in taints:
        return "unreachable"
    if _NOT_READY in taints:
        return "not ready"
    if any(node.name in nodes for nodes in away.stabilising.values()):
        return "stabilising"
    return "cordoned" if node.unschedulable else ""


@attrs.frozen(slots=False)
class NodeExplainer:
    """Explainer of one node, with all available information as immutable values for any thread."""

    node: Node
    snapshot: Snapshot
    configuration: Configuration
    away: Away = NOTHING_AWAY
    #: recent decisions with their input; None if no decisions are recorded
    decided: Sequence[tuple[Entry, Basis]] | None = None
    #: recent migrations from and to the node: decision time, outcome and state
    moves: Sequence[tuple[float, MoveOutcome, str]] = ()

    def explain(self) -> Explanation[NodeFacts]:
        lines, sections = tuple(self._describe_node()), tuple(self._list_sections())
        return Explanation(f"State of node {self.node.name}", lines, sections, self._facts())

    def _facts(self) -> NodeFacts:
        node = self.node
        return NodeFacts(
            node=node.name,
            tier=node.tier,
            site=site_of(node, self.configuration.site.label),
            state=node_state(node, self.away),
            allocatable=dict(node.allocatable.items()),
            free={name: max(0, self._free.amount(name)) for name, _ in node.allocatable.items()},
            workloads=tuple(WorkloadPods(str(w), len(pods)) for w, pods in self._pods.items()),
            moves=tuple(outcome.facts(at) for at, outcome, _ in self.moves),
        )

    @cached_property
    def _free(self) -> Resources:
        return self.snapshot.free.get(self.node.name, Resources())

    @cached_property
    def _pods(self) -> dict[Workload, list[Pod]]:
        """Pods on the node, including pods with reserved capacity that are not bound yet."""
        found = defaultdict[Workload, list[Pod]](list)
        for uid, name in self.snapshot.placed.items():
            pod = self.snapshot.pods.get(uid)
            if name == self.node.name and pod is not None and not pod.finished:
                found[pod.workload].append(pod)
        return dict(sorted(found.items()))

    def _describe_node(self) -> Iterator[Words]:
        node = self.node
        site = site_of(node, self.configuration.site.label)
        kind = f"{_TIERS[node.tier]}{f' of site {site}' if site else ''}"
        count = counted(sum(map(len, self._pods.values())), "pod")
        free = self._describe_free("cpu", "memory")
        yield (f"{node.name} is {kind}; it holds {count}, and {free}.",)
        if state := node_state(node, self.away):
            yield (f"It accepts no pods now: it is {state}.",)
        others = [name for name, size in node.allocatable.items() if size and name not in _USUAL]
        yield (f"Also, {self._describe_free('pods', *others)}.",)
        used = self.snapshot.measured.nodes.get(node.name, Usage())
        measured = [
            f"{amount(name, round(number))} ({percent(number / size)})"
            for name, number, size in (
                ("cpu", used.cpu, node.allocatable.cpu),
                ("memory", used.memory, node.allocatable.memory),
            )
            if number is not None and size
        ]
        if measured:
            yield (f"Measured use: {' and '.join(measured)}.",)

    def _describe_free(self, *names: str) -> str:
        """Describe the node's free capacity, not requested by any pod."""
        size = self.node.allocatable
        parts = [amount(name, max(0, self._free.amount(name)), size.amount(name)) for name in names]
        return f"{' and '.join(parts)} are free for requests"

    def _list_sections(self) -> Iterator[Section]:
        held = (
            (
                link("workload", w),
                str(len(pods)),
                _sum_requests(pods),
                self._describe_target(w, pods),
            )
            for w, pods in self._pods.items()
        )
        headings = ("workload", "pods", "requests", "QoS target")
        yield Section("Pods on it", table=table(headings, held))
        if self.decided is not None:
            rejected = list(islice(self._list_rejected(), _SHOWN))
            yield Section(
                "Recently rejected",
                () if rejected else (("No pod of the last decisions.",),),
                table(("pod", "when", "rule", "decision"), rejected),
            )
        if self.moves:
            rows = (
                (Link("move", o.key, str(o.move.pod)), moment(at), self._describe_route(o), state)
                for at, o, state in self.moves
            )
            headings = ("pod", "decided", "route", "state")
            yield Section("Migrations from and to it", table=table(headings, rows))

    def _describe_route(self, outcome: MoveOutcome) -> Words:
        move = outcome.move
        if move.target == self.node.name:
            return ("here from ", link("node", move.source)) if move.source else ("here",)
        return ("to ", link("node", move.target))

    def _describe_target(self, workload: Workload, pods: Sequence[Pod]) -> str:
        share = self.snapshot.census.shares.get(workload)
        if share is None and pods[0].scheduler_name == self.snapshot.scheduler_name:
            return "none: its pods are being removed"
        if share is None:
            return f"none: its scheduler is {pods[0].scheduler_name}"
        qos = self.configuration.policy.qos_targets_in(self.snapshot)(workload).qos
        wanted = count_target_pods(qos, share.total)
        met = "met" if share.edge >= wanted else f"{wanted - share.edge} missing"
        return f"{wanted} of {share.total} at the edge ({percent(qos)}): {met}"

    def _list_rejected(self) -> Iterator[tuple[Words, ...]]:
        """Yield pods that the node rejected recently, one per workload and Filter plugin."""
        seen = set[tuple[Workload, str]]()
        for entry, basis in self.decided or ():
            if self.node.name not in basis.snapshot.nodes:
                continue
            explainer = build_explainer(basis, entry)
            for choice in entry.pods[:_CHECKED]:
                pod = basis.snapshot.pods.get(choice.uid)
                if pod is None or choice.node == self.node.name:
                    continue
                plain = basis.plain and choice.node is not None
                rejection = explainer.rejections(pod.uid, plain=plain).get(self.node.name)
                if rejection is None or (pod.workload, rejection.rule) in seen:
                    continue
                seen.add((pod.workload, rejection.rule))
                why = f"{rejection.rule}: {', '.join(rejection.reasons)}"
                number = decision_link(entry.number)
                yield (link("pod", choice.pod),), (moment(entry.at),), (why,), (number,)


def recent_decisions(record: DecisionRecord) -> list[tuple[Entry, Basis]]:
    """Return recent decisions with their input snapshots, to find pods that a node rejected."""
    based = ((entry, record.basis(entry)) for entry in record.newest_first())
    return list(islice(((e, b) for e, b in based if b is not None), _SEARCHED))


def recent_migrations(record: DecisionRecord, node: str) -> list[tuple[float, MoveOutcome, str]]:
    """Return the last migration of each pod from or to the node, with decision time and state."""
    found = dict[Uid, tuple[float, MoveOutcome, str]]()
    for entry in record.newest_first():
        for outcome in entry.moves:
            move = outcome.move
            if node in (move.source, move.target) and move.pod.uid not in found:
                found[move.pod.uid] = entry.at, outcome, record.state_of(outcome)
    return list(islice(found.values(), _SHOWN))


def _sum_requests(pods: Sequence[Pod]) -> str:
    cpu, memory = sum(p.requests.cpu for p in pods), sum(p.requests.memory for p in pods)
    return f"{amount('cpu', cpu)}, {amount('memory', memory)}"
