"""Preemption: evict pods of lower priority from one node, for an unschedulable pod.

As in kube-scheduler's DefaultPreemption, all potential victims of a node are removed, then as many
as possible are restored: first those protected by a PodDisruptionBudget, then the most important.
Nodes compare by budget violations, greatest victim priority, sum of priorities, number of victims,
start time of the most important victims, and name. One criterion follows the budgets: the edge
is preferred if the pod's workload gains QoS there, and the site where the workload gains most. With
demand by site, the QoS that the victims' workloads lose precedes start times: among equal
priorities, the pods near the most users are restored first. Capacity that becomes available anyway
makes preemption unnecessary.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import attrs

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import Node, NodeName, Pod, Share, Tier, Uid
from kubedsm.model.node_index import site_of
from kubedsm.model.selecting import Budget
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import Objective, QosTargets
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.fit import shortages
from kubedsm.plugins.plugins import open_nodes

#: kube-scheduler's minCandidateNodesPercentage and minCandidateNodesAbsolute: threshold of
#: compared candidates, the first by tier and name
CANDIDATES_SHARE = 0.1
CANDIDATES = 100
#: makes priorities positive, so additional victims increase the sum
_LEAST_PRIORITY = 2**31
#: Steps of work to look at a node, and to search the victims on a node.
_LOOK_STEPS, _NODE_STEPS = 10_000, 100_000


@attrs.frozen(slots=True)
class Preemption:
    """Preemption on one node: the pods to evict (victims) for an unschedulable pod."""

    node: NodeName
    #: the least important first
    victims: tuple[Pod, ...]
    #: victims beyond their budgets
    violations: int


@attrs.frozen(slots=True, eq=False)
class PreemptionSearch:
    """Search for a node where evictions make a pending pod schedulable.

    Terminating and `leaving` pods count as deleted. `spared` pods are never victims.
    """

    snapshot: Snapshot
    pod: Pod
    #: None: the edge is no better a place
    qos_targets: QosTargets | None
    objective: Objective
    leaving: Collection[Uid] = ()
    spared: Container[Uid] = ()
    budgets: Sequence[Budget] = ()
    #: ends the search over nodes
    deadline: Deadline = NO_DEADLINE
    #: labels of edge nodes that name their site; empty: no workload has demand by site
    site_labels: tuple[str, ...] = ()

    @cached_property
    def _on(self) -> dict[NodeName, list[Pod]]:
        on: dict[NodeName, list[Pod]] = {}
        for uid, name in self.snapshot.placed.items():
            pod = self.snapshot.pods.get(uid)
            if pod is not None and not pod.finished and name in self.snapshot.nodes:
                on.setdefault(name, []).append(pod)
        return on

    @cached_property
    def _feasibility(self) -> Feasibility | None:
        """Feasibility over the whole cluster; None if pods of other nodes do not matter."""
        classes = {pod.pod_class for pods in self._on.values() for pod in pods}
        concerned = any(each.rules.anti_affinity for each in classes)
        concerned = concerned or self.pod.pod_class.rules.speaks_of_others
        return Feasibility.of(self.snapshot) if concerned else None

    @cached_property
    def _gains(self) -> Mapping[str, int]:
        """QoS gained by the pod at each edge site; without demand by site, the same at all."""
        nodes = self.snapshot.nodes.values()
        sites = list(dict.fromkeys(site_of(node, self.site_labels) for node in nodes))
        if self.qos_targets is None:
            return dict.fromkeys(sites, 0)
        share = self.snapshot.census.shares.get(self.pod.workload, Share())
        target = self.qos_targets(self.pod.workload)
        gains = self.objective.gains_by_site(share, target, sites)
        return {site: max(gain, 0) for site, gain in zip(sites, gains, strict=True)}

    def _loss(self, victim: Pod) -> int:
        """Return the QoS that the victim's workload loses; 0 without demand by site."""
        node = self.snapshot.nodes[self.snapshot.placed[victim.uid]]
        share = self.snapshot.census.shares.get(victim.workload)
        if self.qos_targets is None or share is None or node.tier is not Tier.EDGE:
            return 0
        site, target = site_of(node, self.site_labels), self.qos_targets(victim.workload)
        return -self.objective.gain(share, target, -1, site)

    def _importance_key(self, pod: Pod) -> tuple[int, int, float, str, str]:
        """Sort key of victims: the most important pod first, by priority, QoS loss and age."""
        loss = self._loss(pod) if self.site_labels else 0
        return -pod.pod_class.priority, -loss, pod.created, pod.namespace, pod.name

    @cached_property
    def room_to_come(self) -> NodeName | None:
        """Node accepting the pod without evictions, after terminating pods are deleted."""
        for node in self._possible_nodes():
            if not self._has_room(node, ()):
                continue
            later = self._feasibility_without(node.name, self._leaving_pods(node.name))
            if later.rejection(self.pod, node.name) is None:
                return node.name
        return None

    def helps(self) -> bool:
        """Return True if evictions would make the pod schedulable on any node."""
        return self.pod.pod_class.preempts and any(
            self.on(node.name) is not None for node in self._possible_nodes()
        )

    def best(self, shunned: Collection[NodeName] = ()) -> Preemption | None:
        """Return the best preemption over all nodes; None if impossible or unnecessary."""
        if not self.pod.pod_class.preempts or self.room_to_come is not None:
            return None
        most = max(CANDIDATES, int(CANDIDATES_SHARE * len(self.snapshot.nodes)))
        candidates: list[Preemption] = []
        for node in self._possible_nodes():
            found = None if node.name in shunned else self.on(node.name)
            if found is not None:
                candidates.append(found)
            if len(candidates) == most:
                break
        return min(candidates, key=self._cost_key, default=None)

    def on(self, name: NodeName) -> Preemption | None:
        """Return the preemption on the given node, possibly without victims; None if impossible."""
        node = self.snapshot.nodes.get(name)
        if node is None or not self._is_open(node):
            return None
        potential = sorted(self._potential_victims(name), key=self._importance_key)
        if not self._has_room(node, potential):
            return None
        feasibility = self._feasibility_without(name, (*self._leaving_pods(name), *potential))
        if feasibility.rejection(self.pod, name) is not None:
            return None
        protected = self._protected_uids(potential)
        victims = []
        for pod in sorted(
            potential, key=lambda pod: (pod.uid not in protected, *self._importance_key(pod))
        ):
            back = feasibility.with_pod(pod, name)
            if back.rejection(self.pod, name) is None:
                feasibility = back
            else:
                victims.append(pod)
        victims.sort(key=self._importance_key, reverse=True)
        return Preemption(name, tuple(victims), sum(pod.uid in protected for pod in victims))

    def _possible_nodes(self) -> Iterator[Node]:
        """Enumerate candidate nodes that would accept the pod if empty, most preferred first."""
        nodes = self.snapshot.nodes.values()
        ordered = sorted(nodes, key=lambda node: (-self._gain_on(node), node.name))
        for number, node in enumerate(ordered):
            if number and self.deadline.spend(_LOOK_STEPS):
                return
            if self._is_open(node):
                yield node

    def _is_open(self, node: Node) -> bool:
        """Return True if the node accepts the pod, ignoring capacity and other pods."""
        index = self.snapshot.index
        return bool(open_nodes(self.pod.pod_class, index)[index.positions[node.name]])

    def _gain_on(self, node: Node) -> int:
        return self._gains[site_of(node, self.site_labels)] if node.tier is Tier.EDGE else 0

    def _leaving_pods(self, name: NodeName) -> list[Pod]:
        return [p for p in self._on.get(name, ()) if p.terminating or p.uid in self.leaving]

    def _potential_victims(self, name: NodeName) -> Iterator[Pod]:
        priority = self.pod.pod_class.priority
        for pod in self._on.get(name, ()):
            stays = pod.terminating or pod.detached or pod.untouchable or pod.node_name is None
            if stays or pod.uid in self.leaving or pod.uid in self.spared:
                continue
            if pod.pod_class.priority < priority:
                yield pod

    def _has_room(self, node: Node, potential: Iterable[Pod]) -> bool:
        """Quick test: return True if evictions on the node could release sufficient capacity."""
        free = self.snapshot.free[node.name]
        for pod in (*self._leaving_pods(node.name), *potential):
            free += pod.requests
        return not shortages(self.pod.requests, free)

    def _feasibility_without(self, name: NodeName, gone: Iterable[Pod]) -> Feasibility:
        """Return the constraints without the given pods, restricted to the node if sufficient."""
        self.deadline.spend(_NODE_STEPS)
        feasibility = self._feasibility or Feasibility.of(self._narrow_snapshot(name))
        return feasibility.after([(pod, name, -1) for pod in gone])

    def _narrow_snapshot(self, name: NodeName) -> Snapshot:
        snapshot = self.snapshot
        here = {pod.uid: pod for pod in self._on.get(name, ())}
        return attrs.evolve(
            snapshot,
            nodes={name: snapshot.nodes[name]},
            pods=here,
            free={name: snapshot.free[name]},
            placed=dict.fromkeys(here, name),
            counted=None,
        )

    def _protected_uids(self, pods: Iterable[Pod]) -> set[Uid]:
        """Return the pods whose eviction exceeds a disruption budget, most important pods first."""
        left = [budget.allowed for budget in self.budgets]
        protected = set()
        for pod in pods:
            for number, budget in enumerate(self.budgets):
                if budget.covers(pod):
                    left[number] -= 1
                    if left[number] < 0:
                        protected.add(pod.uid)
        return protected

    def _cost_key(self, found: Preemption) -> tuple[int, int, int, int, int, int, float, str]:
        priorities = [pod.pod_class.priority for pod in found.victims]
        worst = max(priorities)
        started = min(p.created for p in found.victims if p.pod_class.priority == worst)
        return (
            found.violations,
            -self._gain_on(self.snapshot.nodes[found.node]),
            worst,
            sum(priority + _LEAST_PRIORITY for priority in priorities),
            len(priorities),
            sum(map(self._loss, found.victims)) if self.site_labels else 0,
            -started,
            found.node,
        )


def makes_room(
    snapshot: Snapshot, pod: Pod, found: Preemption, leaving: Collection[Uid] = ()
) -> bool:
    """Determine whether the preemption still releases sufficient capacity, ignoring constraints."""
    gone = {victim.uid for victim in found.victims}
    here = {uid for uid, node in snapshot.placed.items() if node == found.node}
    if found.node not in snapshot.nodes or not gone <= here:
        return False
    free = snapshot.free[found.node]
    for uid in here:
        there = snapshot.pods[uid]
        leaves = there.terminating or uid in leaving or uid in gone
        if leaves and not there.finished:
            free += there.requests
    return not shortages(pod.requests, free)
