"""Lookup of recorded placement and migration decisions, combined with the current state of the
pods.

Nodes are judged by the input of the decision, with the other pods of the decision where it placed
them: capacity that the rest of a batch took is a reason, too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs
import msgspec

from kubedsm.config.current import CurrentConfiguration
from kubedsm.explain.decision_record import Basis, Chosen, DecisionRecord, Entry, is_named
from kubedsm.explain.explainer import Explainer, list_pending
from kubedsm.explain.explanation import Words, link, percent
from kubedsm.explain.facts import NodeVerdict, PodFacts
from kubedsm.explain.migration import with_mobility
from kubedsm.explain.migration_outcome import MoveOutcome
from kubedsm.explain.pod import facts_of_other_scheduler, pod_state
from kubedsm.explain.verdicts import is_feasible
from kubedsm.model.deadline import OUT_OF_TIME
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, Share, Tier, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.model.surroundings import StorageClass
from kubedsm.objective.objective import count_target_pods
from kubedsm.optimizer.moving.suggestion import Cause
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.programming.in_order import describe_unproven
from kubedsm.planner.plurals import counted
from kubedsm.planner.requests import PlanningContext
from kubedsm.planner.what_if import describe_purpose
from kubedsm.plugins.fit import count_reasons
from kubedsm.plugins.plugin import Rejection
from kubedsm.plugins.volume_binding import list_waiting
from kubedsm.process.clock import rfc3339

#: migrations of each pod, with decision times
Moves: TypeAlias = Mapping[str, Sequence[tuple[float, MoveOutcome]]]


@attrs.frozen(slots=True)
class Recalled:
    """Recorded decision on one pod, with its current state, as an immutable value for any
    thread.
    """

    #: without the Filter and Score verdicts of nodes
    facts: PodFacts
    #: None if the pod no longer exists
    pod: Pod | None
    #: node that the pod is on, or that is reserved for it
    node: NodeName | None
    chosen: Chosen
    #: input of the decision, if it is still kept
    basis: Basis | None


@attrs.define
class Decisions:
    """Lookup of recorded decisions by pod, combined with the current cluster mirror."""

    record: DecisionRecord
    mirror: ClusterMirror
    configuration: CurrentConfiguration
    #: explainer of the last decision requested: pods of one batch are requested in a row
    _explainer: tuple[int, Explainer] | None = attrs.field(default=None, init=False)

    @property
    def policy(self) -> KubeDSM:
        return self.configuration.current.policy

    def find_pods(self, name: str) -> dict[Uid, str]:
        """Return the existing or recorded pods with the name, or namespace/name.

        If pods had the same name one after the other, the existing or the newest one counts.
        """
        found: dict[str, Uid] = {}
        for pod in self.mirror.snapshot().pods.values():
            if is_named(str(pod), name):
                found[str(pod)] = pod.uid
        for entry in self.record.newest_first():
            for uid, full_name in entry.about():
                if is_named(full_name, name):
                    found.setdefault(full_name, uid)
        return {uid: full_name for full_name, uid in sorted(found.items())}

    def find_choice(self, uid: Uid) -> Chosen | None:
        """Return the node last chosen for the pod; None if not recorded."""
        return self.record.find_choice(uid, self.mirror.claimed.get(uid))

    def recall(self, uid: Uid, name: str, moves: Moves | None = None) -> Recalled | None:
        """Return the recorded placement decision on a pod with the pod's current state; None if not
        recorded. `moves`: the recorded migrations, if at hand.
        """
        chosen = self.find_choice(uid)
        if chosen is None:
            return None
        moves = self.record.moves() if moves is None else moves
        pod, node = self.mirror.pod(uid), self.mirror.snapshot().placed.get(uid)
        entry, basis = chosen.entry, self.record.basis(chosen.entry)
        nodes = {} if basis is None else basis.snapshot.nodes
        here = nodes.get(chosen.node or NodeName(""))
        waits = pod is not None and pod.waits_for_node
        facts = PodFacts(
            pod=name,
            nodes=(),
            chosen=chosen.node,
            bound=pod is not None and pod.node_name is not None,
            gone=pod is None,
            message=chosen.message or None,
            decided_at=rfc3339(entry.at),
            moves=tuple(move.facts(at) for at, move in moves.get(uid, ())),
            summary=None if pod is None else self.summary(pod) or None,
            packing=self.record.packing_for(uid) if waits else None,
            state="" if pod is None else pod_state(pod, node),
            terminating=pod is not None and pod.terminating,
            gates=() if pod is None else pod.gates,
            tier=None if here is None else here.tier,
            decision=entry.number,
            others=len(entry.pods) + len(entry.moves) - 1,
            recorded=True,
        )
        return Recalled(facts, pod, node, chosen, basis)

    def facts_of_pod(self, uid: Uid, name: str) -> Callable[[], PodFacts]:
        """Return a function computing the facts about an existing or recorded pod, in any thread.

        The function is callable by every thread. Without a recorded decision
        about the current node, verdicts are about the present state of nodes.
        """
        snapshot, policy, recorded = self.mirror.snapshot(), self.policy, self.record.moves()
        recalled = self.recall(uid, name, recorded)
        moves = tuple(each.facts(at) for at, each in recorded.get(uid, ()))
        pod = snapshot.pods.get(uid)
        node = snapshot.placed.get(uid)
        awaits = self.record.reason_to_wait(uid) or None
        configuration = self.configuration.current

        def work_out() -> PodFacts:
            return with_mobility(recall(), pod, snapshot, configuration)

        def recall() -> PodFacts:
            if recalled is not None and (pod is None or recalled.chosen.node == node is not None):
                facts = self.explain(recalled)
                if pod is not None and facts.state == "binding":
                    return msgspec.structs.replace(facts, message=_describe_awaited(pod, snapshot))
                return facts
            if pod is None:
                return PodFacts(name, (), gone=True, moves=moves, recorded=True)
            now = Explainer(snapshot, policy).explain(pod, "now")
            if pod.scheduler_name != snapshot.scheduler_name:
                return now
            now = msgspec.structs.replace(now, moves=moves, recorded=True, awaits=awaits)
            if recalled is None or node is not None:
                return now
            header = recalled.facts
            return msgspec.structs.replace(
                now,
                message=now.message or header.message,
                decided_at=header.decided_at,
                decision=header.decision,
                summary=header.summary,
                packing=header.packing,
            )

        return work_out

    def pending(self) -> "PendingPods":
        """Return the request to the planner process that explains why each pod is pending: pods of
        this scheduler first, then by age.
        """
        snapshot = self.mirror.snapshot()
        ours = snapshot.scheduler_name
        waiting = [pod for pod in list_pending(snapshot) if not pod.terminating]
        waiting.sort(key=lambda pod: pod.scheduler_name != ours)
        moves = self.record.moves()

        def find_recorded(pod: Pod) -> PodFacts:
            if pod.scheduler_name != ours:
                return facts_of_other_scheduler(pod, ours)
            recalled = self.recall(pod.uid, str(pod), moves)
            if recalled is not None:
                facts = recalled.facts
            else:
                state = pod_state(pod, None)
                facts = PodFacts(str(pod), (), state=state, gates=pod.gates, recorded=True)
            return msgspec.structs.replace(
                facts,
                awaits=self.record.reason_to_wait(pod.uid) or None,
                # A failed bind's node is not what would be chosen now.
                chosen=facts.chosen if facts.state == "binding" else None,
            )

        return PendingPods(tuple((pod.uid, find_recorded(pod)) for pod in waiting))

    def summary(self, pod: Pod) -> str:
        """Explain on one line why the pod is on its node; empty if the decision is not recorded."""
        chosen = self.find_choice(pod.uid)
        basis = self.record.basis(chosen.entry) if chosen is not None else None
        if chosen is None or basis is None:
            return ""
        parts = self._summarize(pod, chosen, basis)
        if gap := describe_unproven(chosen.entry.certificates):
            parts.append(f"not proven, {gap}")
        if chosen.entry.out_of_time:
            parts.append(OUT_OF_TIME)
        if pod.workload in self.mirror.measured.slower:
            parts.append(Cause.EDGE_SLOWER)
        return "; ".join(parts)

    def _summarize(self, pod: Pod, chosen: Chosen, basis: Basis) -> list[str]:
        if chosen.move is not None:
            move = chosen.move
            return [f"in place of {move.pod} on {move.source}: {move.kind}, {move.purpose}"]
        node = basis.snapshot.nodes.get(chosen.node or NodeName(""))
        if node is None:
            return []
        parts = [f"{node.tier} node"]
        workload = pod.workload
        if workload in basis.shares_before and workload in basis.shares_after:
            before, after = basis.shares_before[workload], basis.shares_after[workload]
            policy = chosen.entry.configuration.policy
            qos_target = policy.qos_targets_in(basis.snapshot)(workload)
            parts.append(
                f"edge share of {workload} {before.edge}/{before.total} ->"
                f" {after.edge}/{after.total}, target {percent(qos_target.qos)}"
            )
        explainer = self._explainer_of(chosen.entry, basis)
        if (score := explainer.load_score(chosen.uid)) is not None:
            parts.append(f"load score {score:.0f}")
        rejections = explainer.rejections(chosen.uid, plain=basis.plain)
        count = len(basis.snapshot.nodes)
        fitted = f"{count - len(rejections)} of {count} nodes feasible"
        parts.append(f"{fitted}, {count_reasons(rejections)}" if rejections else fitted)
        if chosen.entry.looked_at is not None:
            parts.append(str(chosen.entry.looked_at))
        return parts

    def _explainer_of(self, entry: Entry, basis: Basis) -> Explainer:
        if self._explainer is None or self._explainer[0] != entry.number:
            self._explainer = (entry.number, build_explainer(basis, entry))
        return self._explainer[1]

    def explain(self, recalled: Recalled) -> PodFacts:
        """Return the facts about a pod whose decision was found in the record; safe in any
        thread.
        """
        facts, basis, entry = recalled.facts, recalled.basis, recalled.chosen.entry
        if basis is None:
            return facts
        nodes = build_explainer(basis, entry).nodes(recalled.chosen.uid)
        placed = recalled.node is not None and recalled.node == recalled.chosen.node
        reason = _reason(recalled, basis, nodes) if placed else ()
        return msgspec.structs.replace(facts, nodes=nodes, nodes_as_of="decision", reason=reason)


def _reason(recalled: Recalled, basis: Basis, nodes: Sequence[NodeVerdict]) -> Words:
    """Explain in short clauses why the decision selected the pod's node."""
    chosen, pod = recalled.chosen, recalled.pod
    qos_targets = chosen.entry.configuration.policy.qos_targets_in(basis.snapshot)
    if chosen.move is not None:
        move = chosen.move
        moves = [outcome.move for outcome in chosen.entry.moves]
        source = (" on ", link("node", move.source)) if move.source else ()
        purpose = describe_purpose(move, moves, basis.shares_before, qos_targets)
        return (f"it replaces {move.pod}", *source, f", {purpose}")
    if pod is None or pod.workload not in basis.shares_after:
        return ()
    share = basis.shares_before.get(pod.workload, Share())
    total = basis.shares_after[pod.workload].total
    target = qos_targets(pod.workload).qos
    wanted = count_target_pods(target, total)
    pods = f"{wanted} of its {counted(total, 'pod')} at the edge ({percent(target)})"
    workload = link("workload", pod.workload)
    node = basis.snapshot.nodes.get(chosen.node or NodeName(""))
    if node is not None and node.tier is Tier.EDGE:
        if share.edge < wanted:
            return (workload, f" targets {pods} and had {share.edge}")
        return ("the edge had free capacity, though ", workload, f" targets no more than {pods}")
    edge = [verdict for verdict in nodes if verdict.tier is Tier.EDGE]
    feasible = [verdict for verdict in edge if is_feasible(verdict)]
    if edge and not feasible:
        rejections = {n.node: Rejection(n.rule, n.reasons) for n in edge if n.rule}
        return (f"no edge node was feasible ({count_reasons(rejections)})",)
    if share.edge >= wanted and edge:
        return (workload, f" targets {pods} and had {share.edge}")
    if feasible:
        single = f"{counted(len(feasible), 'edge node')} would have accepted it alone; "
        return (single, workload, f" targets {pods} and had {share.edge}")
    return ()


def build_explainer(basis: Basis, entry: Entry) -> Explainer:
    """Return an explainer of the decision's input snapshot, by the configuration of that time, with
    every pod placed or migrated as decided.
    """
    targets = {each.uid: each.node for each in entry.pods if each.node is not None}
    targets |= {choice.move.pod.uid: choice.move.target for choice in entry.moves}
    snapshot = basis.snapshot.with_placed(targets)
    return Explainer(snapshot, entry.configuration.policy, entry.looked_at)


@attrs.frozen(slots=True)
class PendingPods:
    """Planner request for facts about pending pods; `recorded`: facts known from decisions."""

    name = "explanation"
    urgent = False
    #: time limit for verdicts of nodes, in seconds
    budget = 5.0
    recorded: tuple[tuple[Uid, PodFacts], ...]

    def solve(self, known: PlanningContext) -> bytes:
        """Return the facts about the pending pods as JSON, possibly megabytes."""
        return msgspec.json.encode({"pending": list(self._facts(known))})

    def _facts(self, known: PlanningContext) -> Iterator[PodFacts]:
        snapshot, deadline = known.mirror.snapshot(), known.deadline(self)
        explainer = Explainer(snapshot, known.configuration().policy)
        for uid, recorded in self.recorded:
            pod = snapshot.pods.get(uid)
            if pod is None:
                continue
            if deadline.passed:
                yield recorded
            elif recorded.decided_at is None:
                now = explainer.explain(pod, "now")
                yield msgspec.structs.replace(now, awaits=recorded.awaits)
            else:
                nodes = explainer.nodes(uid)
                yield msgspec.structs.replace(recorded, nodes=nodes, nodes_as_of="now")


def _describe_awaited(pod: Pod, snapshot: Snapshot) -> str | None:
    """Return the volumes that a pod with a reserved node waits for; None for none."""
    surroundings = snapshot.surroundings
    waiting = list_waiting(surroundings, pod.pod_class.rules.claim_keys)
    if not waiting:
        return None
    provisioners = {
        surroundings.of(StorageClass)[claim.storage_class,].provisioner
        for claim in waiting
        if claim.selected_node
    }
    makers = f", provisioned by {' and '.join(sorted(provisioners))}" if provisioners else ""
    return f"It waits until claims are bound: {', '.join(map(str, waiting))}{makers}."
