"""Evaluation of all nodes for one pod: Filter and Score verdicts, and the node that would be
chosen.

`feasible` is kube-scheduler's verdict. KubeDSM's own tier rule is reported separately: nodes
rejected only by the tier rule are feasible and never selected. Without any tier, kube-scheduler's
rules decide alone, and every node counts as a cloud node.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import msgspec
import numpy as np

from kubedsm.explain.facts import NodeVerdict, PodFacts
from kubedsm.explain.pod import facts_of_other_scheduler, pod_state
from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    Share,
    Tier,
    Uid,
)
from kubedsm.model.node_index import NodeRows
from kubedsm.model.quantities import format_amount
from kubedsm.model.sites import AWAY_TAINT
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import SCALE, Fragmentation, request_mix
from kubedsm.objective.load import Loads
from kubedsm.objective.objective import NANO
from kubedsm.objective.replica_spread import ReplicaSpread, has_default_spread
from kubedsm.optimizer.placing.cloud import SampledNodes, scores_with
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.plugins.feasibility import Feasibility, Rejection
from kubedsm.plugins.fit import NO_TIER, NODE_RESOURCES_FIT, TIER, too_little, why_unschedulable
from kubedsm.plugins.plugins import BY_NAME, rejections


def has_tiers(snapshot: Snapshot) -> bool:
    """Return True if any node has a tier; without tiers, only kube-scheduler's rules apply."""
    return any(node.tier is not None for node in snapshot.nodes.values())


def list_pending(snapshot: Snapshot) -> list[Pod]:
    """Return the snapshot's pods without a node, of all schedulers, oldest first."""
    waiting = [p for p in snapshot.pods.values() if p.node_name is None and not p.finished]
    return sorted(waiting, key=lambda pod: (pod.created, pod.namespace, pod.name))


class Explainer:
    """Evaluator of a snapshot's nodes for one pod, as if no other pod were pending."""

    def __init__(
        self, snapshot: Snapshot, policy: KubeDSM, looked_at: SampledNodes | None = None
    ) -> None:
        """Prepare the evaluation of a snapshot's nodes under a placement policy.

        looked_at: sampled cloud nodes of the decision; None for the complete cloud.
        """
        self._snapshot = snapshot
        self._looked_at = looked_at
        self._tiers = has_tiers(snapshot)
        self._policy = policy
        #: rejecting nodes by class of plain pods
        self._by_class: dict[PodClass, dict[NodeName, Rejection]] = {}

    def explain(self, pod: Pod, as_of: str | None = None) -> PodFacts:
        """Return the facts about a pod of the snapshot; `as_of`: see `PodFacts.nodes_as_of`."""
        case = self._without_pod(pod)
        if pod.scheduler_name != self._snapshot.scheduler_name:
            facts = self._of_another(pod, case)
            return msgspec.structs.replace(facts, nodes_as_of=as_of)
        node = self._snapshot.placed.get(pod.uid)
        chosen = pod.node_name or node or self._choose_node(case)
        target = self._snapshot.nodes.get(chosen or NodeName(""))
        return PodFacts(
            pod=str(pod),
            nodes=self._judge_nodes(case),
            chosen=chosen,
            bound=pod.node_name is not None,
            message=None
            if case.usable or pod.node_name
            else self._describe_unschedulable(
                case, case.feasibility.rejections(case.pod, tier=self._tiers)
            ),
            nodes_as_of=as_of,
            state=pod_state(pod, pod.node_name or node),
            terminating=pod.terminating,
            gates=pod.gates,
            tier=None if target is None else target.tier,
        )

    def _of_another(self, pod: Pod, case: "_Case") -> PodFacts:
        """Return the facts about a pod of another scheduler, with kube-scheduler's verdicts."""
        return msgspec.structs.replace(
            facts_of_other_scheduler(pod, self._snapshot.scheduler_name),
            nodes=tuple(
                self._make_verdict(case, node, tier=False) for node in case.feasibility.nodes
            ),
            message=None
            if pod.node_name or len(case.rejections) < len(self._snapshot.nodes)
            else self._describe_unschedulable(case, case.rejections),
        )

    def _describe_unschedulable(
        self, case: "_Case", rejections: Mapping[NodeName, Rejection]
    ) -> str:
        return why_unschedulable(case.pod.requests, rejections, self._snapshot.index)

    def nodes(self, uid: Uid) -> tuple[NodeVerdict, ...]:
        """Return every node's verdict on the snapshot's pod. Raise KeyError for an unknown pod."""
        return self._judge_nodes(self._without_pod(self._snapshot.pods[uid]))

    def rejections(self, uid: Uid, *, plain: bool) -> dict[NodeName, Rejection]:
        """Return the nodes rejecting the pod, with reasons. Raise KeyError for an unknown pod.

        `plain`: the pod has a node, and verdicts of other nodes depend only on the pod's class.
        """
        snapshot, pod = self._snapshot, self._snapshot.pods[uid]
        if not plain:
            return self._vacate_node(pod).rejections(pod, tier=self._tiers)
        alike = self._by_class.get(pod.pod_class)
        if alike is None:
            alike = self._by_class[pod.pod_class] = rejections(
                pod.pod_class, snapshot.index, snapshot.room
            )
        return {name: rejected for name, rejected in alike.items() if name != pod.node_name}

    @cached_property
    def _feasibility(self) -> Feasibility:
        return Feasibility.of(self._snapshot)

    def _without_pod(self, pod: Pod) -> "_Case":
        """Prepare evaluating a pod as pending, on the cluster without the pod."""
        feasibility = self._vacate_node(pod)
        snapshot = _with_pod_waiting(self._snapshot, pod)
        pod = snapshot.pods[pod.uid]
        rejections = feasibility.rejections(pod, tier=False)
        usable = tuple(
            node.name
            for node in feasibility.nodes
            if node.name not in rejections and (node.tier is not None or not self._tiers)
        )
        return _Case(pod, snapshot, feasibility, rejections, usable)

    def _vacate_node(self, pod: Pod) -> Feasibility:
        on_node = pod.node_name in self._snapshot.nodes and not pod.finished
        return self._feasibility.without_pod(pod.uid) if on_node else self._feasibility

    def _judge_nodes(self, case: "_Case") -> tuple[NodeVerdict, ...]:
        scores, unseen = self._score_nodes(case), self._unseen

        def judge_node(node: Node) -> NodeVerdict:
            verdict = self._make_verdict(case, node, tier=self._tiers)
            if node.name in unseen:
                return msgspec.structs.replace(verdict, looked_at=False)
            return msgspec.structs.replace(verdict, **scores.get(node.name, {}))

        return tuple(map(judge_node, case.feasibility.nodes))

    def _make_verdict(self, case: "_Case", node: Node, *, tier: bool) -> NodeVerdict:
        rejection = case.rejections.get(node.name)
        tierless = tier and node.tier is None
        return NodeVerdict(
            node.name,
            node.tier,
            rejection is None,
            rejection.rule if rejection else None,
            rejection.reasons if rejection else (),
            NO_TIER if tierless else None,
            _describe_change(
                case.pod, rejection, node, case.snapshot.free[node.name], tierless=tierless
            ),
        )

    @cached_property
    def _unseen(self) -> frozenset[NodeName]:
        if self._looked_at is None:
            return frozenset()
        index = self._snapshot.index
        others = np.flatnonzero(self._looked_at.others(index)).tolist()
        return frozenset(index.names[position] for position in others)

    def _score_nodes(self, case: "_Case") -> Mapping[NodeName, dict[str, Any]]:
        """Return the ranking fields of the verdict on each usable node."""
        pod, usable = case.pod, case.usable
        snapshot, targets = self._policy.resolve(case.snapshot)
        share = snapshot.census.shares.get(pod.workload, Share())
        sites = [self._policy.site_of(snapshot.nodes[name]) for name in usable]
        gains = self._policy.objective.gains_by_site(share, targets(pod.workload), sites)
        won = {name: gain / NANO for name, gain in zip(usable, gains, strict=True)}
        fragmentation = Fragmentation(self._policy.measure, request_mix(snapshot))
        nodes = [snapshot.nodes[name] for name in usable]
        edge, others = (
            NodeRows.of([n for n in nodes if (n.tier is Tier.EDGE) is at_edge], snapshot.free)
            for at_edge in (True, False)
        )
        penalties = dict(zip(usable, case.feasibility.penalties(pod, usable), strict=True))
        company, loads = self._count_company(case), self._load_scores(pod, usable)
        scores: dict[NodeName, dict[str, Any]] = {
            name: {
                "penalty": penalties[name],
                "company": company.get(name),
                "load": loads.get(name),
            }
            for name in usable
        }
        added = fragmentation.added(pod.requests, edge).tolist()
        for node, more in zip(edge.nodes, added, strict=True):
            scores[node.name] |= {"score": won[node.name], "fragmentation": more / SCALE}
        ranks = scores_with(pod.requests, others).tolist()
        for node, rank in zip(others.nodes, ranks, strict=True):
            scores[node.name] |= {"score": 0.0, "least_allocated": rank}
        return scores

    def load_score(self, uid: Uid) -> float | None:
        """Return the measured-load score of the node that the snapshot's pod is on, if known."""
        pod, node = self._snapshot.pods[uid], self._snapshot.placed.get(uid)
        return None if node is None else self._load_scores(pod, [node]).get(node)

    @cached_property
    def _loads(self) -> Loads | None:
        goal = self._policy.load
        if goal is None:
            return None
        return Loads.of(attrs.evolve(goal, normalise=False), self._snapshot)

    def _load_scores(self, pod: Pod, names: Sequence[NodeName]) -> dict[NodeName, float]:
        """Return the measured-load score of each node with enough measurements."""
        if self._loads is None:
            return {}
        positions = self._loads.nodes.positions
        at = np.array([positions[name] for name in names], dtype=np.intp)
        scores = zip(names, self._loads.scores(pod, at).tolist(), strict=True)
        return {name: score for name, score in scores if not math.isnan(score)}

    def _count_company(self, case: "_Case") -> dict[NodeName, int]:
        """Count on each node the other replicas of the pod's workload; empty if spreading is off.

        With a single zone, replicas of the zone are not counted.
        """
        workload = case.pod.workload
        if not (self._policy.default_spread and has_default_spread(case.pod)):
            return {}
        spread = ReplicaSpread.of(case.snapshot, {workload})
        zones = {spread.zones[name] for name in case.usable}
        there = spread.on_node.get(workload, Counter())
        if len(zones) == 1:
            return {name: there[name] for name in case.usable}
        return {name: spread.company(workload, name) for name in case.usable}

    def _choose_node(self, case: "_Case") -> NodeName | None:
        """Return the node that the policy would choose if no other pod were pending."""
        snapshot = case.snapshot
        nodes = snapshot.nodes
        if not self._tiers:
            nodes = {name: attrs.evolve(n, tier=Tier.CLOUD) for name, n in nodes.items()}
        allowed = set(case.usable)
        free = {n: room if n in allowed else Resources() for n, room in snapshot.free.items()}
        # The next sample of a large cloud is known only to the running scheduler.
        policy = attrs.evolve(self._policy, cloud_percentage=100)
        decision = policy.decide_batch(
            attrs.evolve(snapshot, nodes=nodes, free=free, counted=None), [case.pod]
        )
        return decision.bindings[0].node if decision.bindings else None


@attrs.frozen(slots=True)
class _Case:
    """Pod under evaluation, treated as pending, and the cluster without the pod."""

    pod: Pod
    snapshot: Snapshot
    feasibility: Feasibility
    #: rejections by kube-scheduler's rules alone
    rejections: Mapping[NodeName, Rejection]
    #: nodes that the scheduler may choose
    usable: tuple[NodeName, ...]


def _with_pod_waiting(snapshot: Snapshot, pod: Pod) -> Snapshot:
    """Return the snapshot with the pod pending, and assigned to this scheduler."""
    waiting = attrs.evolve(
        pod, node_name=None, phase="Pending", scheduler_name=snapshot.scheduler_name
    )
    pods = {**snapshot.pods, pod.uid: waiting}
    return attrs.evolve(snapshot.without([pod.uid]), pods=pods, counted=None)


def _describe_change(
    pod: Pod, rejection: Rejection | None, node: Node, free: Resources, *, tierless: bool
) -> str | None:
    """Describe the change that would make the rejecting node feasible for the pod."""
    if rejection is None:
        return TIER.advice if tierless else None
    if any(AWAY_TAINT in reason for reason in rejection.reasons):
        return "wait for the end of the site's stabilisation period (site.settle)"
    if rejection.rule == NODE_RESOURCES_FIT.name and (
        little := too_little(pod.requests, node.allocatable)
    ):
        return f"use a larger node, or request at most {' and '.join(little)}"
    lacking = [
        format_amount(name, amount - max(0, free.amount(name)))
        for name, amount in pod.requests.items()
        if amount > max(0, free.amount(name))
    ]
    return BY_NAME[rejection.rule].advice.format(lacking=", ".join(lacking))
