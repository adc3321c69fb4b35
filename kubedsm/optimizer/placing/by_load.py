"""Load-aware post-processing: decided pods are reassigned to balance measured load within tiers.

Each pod in turn may change to another node of its tier that accepts the pod next to all others,
without joining more replicas. The node with the greatest load score less preference penalty is
chosen, considering the expected usage of preceding pods. A pod remains if no node is better, or
if the usage of its node is unknown.
"""

from collections.abc import Collection, Mapping

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import NodeName, Pod, Share, Tier, Workload
from kubedsm.model.node_index import Column, Mask
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.load import LoadGoal, Loads
from kubedsm.objective.replica_spread import ReplicaSpread, has_default_spread
from kubedsm.optimizer.placing.decision import Binding, Decision
from kubedsm.plugins.feasibility import Feasibility, is_worse

#: Steps of work to reassign a pod, and more for each node.
_POD_STEPS, _NODE_STEPS = 100_000, 100


def balance_by_load(
    decision: Decision,
    snapshot: Snapshot,
    goal: LoadGoal,
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
    come = Feasibility.of(snapshot)
    every = come.after([(binding.pod, binding.node, 1) for binding in decision.bindings])
    apart = None
    if spread:
        apart = ReplicaSpread.of(snapshot, {binding.pod.workload for binding in decision.bindings})
    for binding in decision.bindings:
        if apart is not None:
            apart.put(binding.pod.workload, binding.node)
    index = snapshot.index
    unseen = index.match_names(closed)
    if decision.looked_at is not None:
        unseen |= decision.looked_at.others(index)
    tiers = {tier: index.at(index.of_tier(tier)) & ~unseen for tier in Tier}
    balancing = _Balancing(loads, apart, tiers, snapshot.census.shares, sites, come, every)
    bindings = []
    for binding in decision.bindings:
        late = deadline.spend(_POD_STEPS + _NODE_STEPS * len(snapshot.nodes))
        node = None if late else balancing.place(binding)
        if node is None:
            return decision
        bindings.append(binding._replace(node=node))
    if tuple(bindings) == decision.bindings:
        return decision
    left_over = [snapshot.pods[uid] for uid in decision.unplaced]
    unplaced = {
        pod.uid: decision.unplaced[pod.uid]
        if pod.requests.beyond_any_node
        else balancing.all.rejections(pod)
        for pod in left_over
    }
    if any(len(found) < len(snapshot.nodes) for found in unplaced.values()):
        return decision
    return attrs.evolve(
        decision,
        bindings=tuple(bindings),
        unplaced=unplaced,
        proof=attrs.evolve(
            decision.proof,
            preferences=decision.proof.preferences and decision.plain,
            fragmentation=False,
        ),
    )


@attrs.define(eq=False)
class _Balancing:
    """Pods of a decision that are reassigned one after another."""

    loads: Loads
    #: replicas with the whole batch; None if spread does not count
    spread: ReplicaSpread | None
    #: open nodes
    tiers: Mapping[Tier, Mask]
    shares: Mapping[Workload, Share]
    sites: Column | None
    #: constraints with the pods before, and with all pods
    come: Feasibility
    all: Feasibility

    def place(self, binding: Binding) -> NodeName | None:
        """Choose the least loaded node for the pod, without breaking rules of other pods; None if
        its node no longer accepts it.
        """
        pod, index = binding.pod, self.loads.nodes
        if self.come.rejection(pod, binding.node):
            return None
        here, others = index.positions[binding.node], self.all.without_pod(pod.uid)
        open_to = others.taking(pod) & self.come.taking(pod) & self.tiers[binding.tier]
        open_to &= self._no_less_apart(pod, here)
        share = self.shares.get(pod.workload)
        if self.sites is not None and share is not None and share.sites is not None:
            open_to &= self.sites.codes == self.sites.codes[here]
        open_to[here] = False
        at = np.concatenate(([here], open_to.nonzero()[0]))
        worth = self.loads.goal.weight * self.loads.scores(pod, at) - others.penalties_at(pod, at)
        # Without a score of its node the pod stays.
        worth = np.zeros(1) if np.isnan(worth[0]) else np.where(np.isnan(worth), -np.inf, worth)
        before = self.all.broken_rules([pod])
        # The first is the node of the pod itself.
        while best := int(worth.argmax()):
            moved = others.with_pod(pod, index.names[int(at[best])])
            if not is_worse(before, moved.broken_rules([pod])):
                self.all = moved
                break
            worth[best] = -np.inf
        node = index.names[int(at[best])]
        self.come = self.come.with_pod(pod, node)
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
