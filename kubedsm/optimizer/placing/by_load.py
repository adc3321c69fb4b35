"""Load-aware post-processing: decided pods are reassigned to balance measured load within tiers.

Each pod in turn may change to another node of its tier that accepts the pod next to all others,
without joining more replicas. The node with the greatest load score less preference penalty is
chosen, considering the expected usage of preceding pods. A pod remains if no node is better, or
if the usage of its node is unknown.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Self

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import NodeName, Pod, Share, Tier, Workload
from kubedsm.model.node_index import Column, Mask
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.load import LoadGoal, Loads
from kubedsm.objective.replica_spread import ReplicaSpread, has_default_spread
from kubedsm.optimizer.placing.decision import Binding, Decision, room_after
from kubedsm.plugins.feasibility import Feasibility, is_worse

#: Steps of work to reassign a pod, and more for each node.
_POD_STEPS, _NODE_STEPS = 100_000, 100


@attrs.define(eq=False)
class _Rules:
    """Constraints between pods during load balancing, at arrival and in the final state."""

    #: with pods before, with all pods, and with all but the current one
    come: Feasibility
    all: Feasibility
    others: Feasibility

    @classmethod
    def of(cls, snapshot: Snapshot, bindings: Iterable[Binding]) -> Self:
        come = every = Feasibility.of(snapshot)
        for binding in bindings:
            every = every.with_pod(binding.pod, binding.node)
        return cls(come, every, every)

    def open_to(self, binding: Binding) -> Mask | None:
        """Return the nodes accepting the pod; None if the pod's own node no longer accepts it."""
        pod = binding.pod
        if self.come.rejection(pod, binding.node):
            return None
        self.others = self.all.without_pod(pod.uid)
        return self.others.taking(pod) & self.come.taking(pod)

    def put(self, binding: Binding, node: NodeName) -> bool:
        """Place the pod on the node; return False, without changes, if rules of others break."""
        pod = binding.pod
        if node != binding.node:
            moved = self.others.with_pod(pod, node)
            if is_worse(self.all.broken_rules([pod]), moved.broken_rules([pod])):
                return False
            self.all = moved
        self.come = self.come.with_pod(pod, node)
        return True


def balance_by_load(
    decision: Decision,
    snapshot: Snapshot,
    goal: LoadGoal,
    measure: Measure,
    deadline: Deadline = NO_DEADLINE,
    *,
    spread: bool = True,
    closed: Collection[NodeName] = (),
    sites: Column | None = None,
) -> Decision:
    """Return the placement decision with its pods reassigned to other nodes of the same tier, to
    balance measured load.

    The decision is unchanged without measurements, after the deadline, or if the reassignment would
    make an unschedulable pod schedulable. spread: whether replicas are kept apart.
    closed: nodes that receive no additional pods.
    sites: site of each edge node. Pods of workloads counted by site keep their site.
    """
    loads = Loads.of(goal, snapshot) if goal.weight else None
    if loads is None or not decision.bindings:
        return decision
    rules = _Rules.of(snapshot, decision.bindings)
    unseen = snapshot.index.match_names(closed)
    if decision.looked_at is not None:
        unseen |= decision.looked_at.others(snapshot.index)
    dealing = _Dealing.of(decision.bindings, loads, rules, snapshot, unseen, sites, spread=spread)
    bindings = []
    for binding in decision.bindings:
        late = deadline.spend(_POD_STEPS + _NODE_STEPS * len(snapshot.nodes))
        node = None if late else dealing.place(binding)
        if node is None:
            return decision
        bindings.append(binding._replace(node=node))
    if tuple(bindings) == decision.bindings:
        return decision
    left_over = [snapshot.pods[uid] for uid in decision.unplaced]
    unplaced = {
        pod.uid: decision.unplaced[pod.uid]
        if pod.requests.beyond_any_node
        else rules.all.rejections(pod)
        for pod in left_over
    }
    if any(len(found) < len(snapshot.nodes) for found in unplaced.values()):
        return decision
    changed = {b.node for b in {*bindings} ^ {*decision.bindings} if b.tier is Tier.EDGE}
    nodes = [snapshot.nodes[name] for name in changed]
    fragmentation = Fragmentation(measure, request_mix(snapshot))
    before, after = (
        fragmentation.of(nodes, room_after(snapshot.free, of))
        for of in (decision.bindings, bindings)
    )
    return attrs.evolve(
        decision,
        bindings=tuple(bindings),
        unplaced=unplaced,
        fragmentation=decision.fragmentation + after - before,
        proof=attrs.evolve(
            decision.proof,
            preferences=decision.proof.preferences and decision.plain,
            fragmentation=False,
        ),
    )


@attrs.frozen(eq=False)
class _Dealing:
    loads: Loads
    rules: _Rules
    #: replicas with the whole batch; None if spread does not count
    spread: ReplicaSpread | None
    #: open nodes
    tiers: Mapping[Tier, Mask]
    shares: Mapping[Workload, Share]
    sites: Column | None

    @classmethod
    def of(
        cls,
        bindings: Iterable[Binding],
        loads: Loads,
        rules: _Rules,
        snapshot: Snapshot,
        closed: Mask,
        sites: Column | None,
        *,
        spread: bool,
    ) -> Self:
        index, apart = snapshot.index, None
        if spread:
            apart = ReplicaSpread.of(snapshot, {binding.pod.workload for binding in bindings})
            for binding in bindings:
                apart.put(binding.pod.workload, binding.node)
        tiers = {tier: index.at(index.of_tier(tier)) & ~closed for tier in Tier}
        return cls(loads, rules, apart, tiers, snapshot.census.shares, sites)

    def place(self, binding: Binding) -> NodeName | None:
        """Choose the least loaded node for the pod; None if its node no longer accepts it."""
        pod, names = binding.pod, self.loads.nodes.names
        open_to = self.rules.open_to(binding)
        if open_to is None:
            return None
        here = self.loads.nodes.positions[binding.node]
        others = open_to & self.tiers[binding.tier] & self._no_less_apart(pod, here)
        share = self.shares.get(pod.workload)
        if self.sites is not None and share is not None and share.sites is not None:
            others &= self.sites.codes == self.sites.codes[here]
        others[here] = False
        at = np.concatenate(([here], others.nonzero()[0]))
        worth = self.loads.goal.weight * self.loads.scores(
            pod, at
        ) - self.rules.others.penalties_at(pod, at)
        # Without a score of its node the pod stays.
        worth = np.zeros(1) if np.isnan(worth[0]) else np.where(np.isnan(worth), -np.inf, worth)
        node = names[int(at[worth.argmax()])]
        while not self.rules.put(binding, node):
            worth[worth.argmax()] = -np.inf
            node = names[int(at[worth.argmax()])]
        if self.spread is not None:
            self.spread.put(pod.workload, binding.node, -1)
            self.spread.put(pod.workload, node)
        self.loads.put(pod, node)
        return node

    def _no_less_apart(self, pod: Pod, here: int) -> Mask:
        """Return the nodes where the pod joins no more replicas than on its current node."""
        index = self.loads.nodes
        if self.spread is None or not has_default_spread(pod):
            return index.every()
        zones = index.zone.codes
        company = self.spread.by_node(pod.workload, index) - (zones == zones[here])
        company[here] -= 1  # the pod itself does not count
        return np.asarray(company <= company[here])
