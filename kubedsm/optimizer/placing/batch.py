"""Batch of pods to be placed: shared data, and single-pod placement.

A single pod goes to the edge if this gains QoS. At equal QoS it goes to the edge if it joins fewer
replicas there, or equally many with less fragmentation.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    PodClass,
    Share,
    Tier,
    Uid,
    Workload,
    levels_of,
    shares_after,
)
from kubedsm.model.node_index import Column, Mask, NodeRows
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Ints
from kubedsm.objective.objective import Objective, QosTargets
from kubedsm.objective.replica_spread import ReplicaSpread, has_default_spread
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import (
    NO_RANK,
    Kind,
    PlacementProblem,
    Rank,
    Turn,
    group_kinds,
    is_plain,
)
from kubedsm.optimizer.placing.batch_mip import (
    PLACED,
    QOS,
    Amounts,
    level_called,
    list_shortfalls,
    turn_called,
)
from kubedsm.optimizer.placing.cloud import (
    CloudRoom,
    SampledNodes,
    Sampling,
    scores_with,
)
from kubedsm.optimizer.placing.decision import Binding, Choice, Decision, make_decision
from kubedsm.optimizer.placing.replica_spreading import ReplicaLadders
from kubedsm.optimizer.programming.in_order import NO_PROOF, Certificate, Proof
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.plugin import Rejection
from kubedsm.plugins.plugins import fitting_nodes, rejection, rejections

Placed = tuple[Pod, NodeName]


def site_at(sites: Column | None, position: int | None) -> str:
    """Return the site of a node; empty for an unknown node, or without a site."""
    return "" if sites is None or position is None else sites.value_at(position) or ""


def rejection_elsewhere(snapshot: Snapshot, pod: Pod, node: Node) -> Rejection | None:
    """Return why another node would reject a pod leaving its current node; None if accepted."""
    if is_plain(snapshot, [pod]):
        return rejection(pod.pod_class, node, snapshot.free[node.name])
    return Feasibility.of(snapshot).without_pod(pod.uid).rejection(pod, node.name)


@attrs.frozen(eq=False)
class Batch:
    """Batch of pending pods with the snapshot, objective and limits of the placement decision."""

    snapshot: Snapshot
    #: in serving order
    pods: Sequence[Pod]
    shares: Mapping[Workload, Share]
    qos_targets: QosTargets
    objective: Objective
    fragmentation: Fragmentation
    bounds: Bounds
    #: empty without different ranks
    ranks: Mapping[Uid, Rank]
    #: replicas of the batch's workloads before the batch; None if spread does not count
    spread: ReplicaSpread | None
    #: None: the whole cloud
    sampling: Sampling | None
    edge: NodeRows
    cloud: NodeRows
    #: site of each edge node; None if no workload of the batch has demand by site
    sites: Column | None = None

    def alone(self, pod: Pod) -> Choice:
        """Choose the node of a single pending pod."""
        edge, looked_at, cloud = self.edge, None, self.cloud
        if self.sampling is not None:
            looked_at, cloud = self._sample_cloud(self.sampling)
        fits = fitting_nodes(pod.pod_class, edge.index, edge.room)
        gain = self.gain_at_edge(pod.workload, {})
        node = self.choose_node(pod, fits, edge, cloud, gain, self.spread)
        targets = () if node is None else ((pod, edge.index.names[node]),)
        return Choice(targets, Proof(), looked_at=looked_at)

    def choose_node(
        self,
        pod: Pod,
        open_to: Mask,
        edge: NodeRows,
        cloud: NodeRows,
        gain: int | Ints,
        spread: ReplicaSpread | None,
        penalties: Ints | None = None,
        *,
        measured: bool = True,
    ) -> int | None:
        """Return the position of the chosen node for a single pod; None if no node accepts it.

        open_to: mask of nodes accepting the pod. gain, penalties: QoS gained on the edge, and
        preference penalty, by position.
        measured: edge nodes compare by fragmentation; else by free share.
        """
        company = np.zeros(len(open_to), dtype=np.int64)
        penalties = company if penalties is None else penalties
        if spread is not None and pod.workload in spread.on_node and has_default_spread(pod):
            company = spread.by_node(pod.workload, edge.index)
        target, taking = None, cloud.only(open_to)
        if len(taking.positions):
            orders = -scores_with(pod.requests, taking), company[taking.positions]
            first = np.lexsort((*orders, penalties[taking.positions]))[0]
            target = int(taking.positions[first])
        on_edge = np.flatnonzero(open_to[edge.positions])
        gains = np.broadcast_to(gain, open_to.shape)[edge.positions[on_edge]]
        best_gain = int(gains.max(initial=-1))
        if not len(on_edge) or (target is not None and best_gain < 0):
            return target
        on_edge = on_edge[gains == gains.max()]
        for costs in (penalties, company):
            of_rows = costs[edge.positions[on_edge]]
            on_edge = on_edge[of_rows == of_rows.min()]
        some = attrs.evolve(edge, positions=edge.positions[on_edge])
        more = self.fragmentation.added(pod.requests, some) if measured else _room_left(some)
        best = int(more.argmin())
        node, least = int(some.positions[best]), int(more[best])
        if target is not None and best_gain == 0:
            at_edge = int(penalties[node]), int(company[node]), least
            if at_edge >= (int(penalties[target]), int(company[target]), 0):
                return target
        return node

    def plain_choice(self) -> Choice:
        """Choose nodes for pods without rules between pods (affinity, spread, ports), sampling the
        nodes of a large cloud.

        If the sampled cloud nodes cannot hold the whole batch, all cloud nodes are evaluated.
        """
        looked_at, some = None, self.cloud
        if self.sampling is not None:
            looked_at, some = self._sample_cloud(self.sampling)
        if looked_at is not None:
            of_batch = group_kinds(self.pods, self.edge + some, self.ranks)
            replicas, in_cloud = self._pack_cloud(of_batch, some)
            room = CloudRoom(in_cloud)
            if room.endless:
                return attrs.evolve(self._make_choice(room, replicas), looked_at=looked_at)
        return self.choice(group_kinds(self.pods, self.edge + self.cloud, self.ranks))

    def choice(self, batch_kinds: Sequence[Kind]) -> Choice:
        replicas, in_cloud = self._pack_cloud(batch_kinds, self.cloud)
        return self._make_choice(CloudRoom.of(in_cloud, self.bounds), replicas)

    def _sample_cloud(self, sampling: Sampling) -> tuple[SampledNodes | None, NodeRows]:
        """Return the window of cloud nodes for the batch, and its nodes; None for all nodes."""
        index, room = self.snapshot.index, self.snapshot.room
        classes = {pod.pod_class for pod in self.pods}
        masks = (fitting_nodes(pod_class, index, room) for pod_class in classes)
        looked_at = sampling.looked_at(index, masks)
        some = self.cloud if looked_at is None else self.cloud.only(looked_at.nodes(index))
        return looked_at, some

    def _pack_cloud(
        self, batch_kinds: Sequence[Kind], cloud: NodeRows
    ) -> tuple[ReplicaLadders | None, PlacementProblem]:
        """Return the replica ladders of both tiers, and the placement problem of the cloud."""
        if self.spread is None:
            return None, PlacementProblem.of(batch_kinds, cloud)
        replicas = ReplicaLadders.of(batch_kinds, self.edge + cloud, self.spread)
        return replicas, PlacementProblem.of(batch_kinds, cloud, ladders=replicas.on(cloud))

    def _make_choice(self, cloud: CloudRoom, replicas: ReplicaLadders | None) -> Choice:
        measured = [vector for vector, _ in self.fragmentation.mix]
        at_edge = None if replicas is None else replicas.on(self.edge)
        edge = PlacementProblem.of(cloud.problem.kinds, self.edge, measured, at_edge)
        return make_decision(
            edge,
            cloud,
            self.shares,
            self.qos_targets,
            self.objective,
            self.fragmentation,
            self.bounds,
            replicas,
            self.sites,
        )

    def bindings(self, choice: Choice) -> tuple[Binding, ...]:
        """Return the bindings (pod, node, tier) that a placement of the batch implies, in
        scheduling order.
        """
        placed = {pod.uid: node for pod, node in choice.targets}
        return self.bindings_at((p, placed[p.uid]) for p in self.pods if p.uid in placed)

    def gain_at_edge(self, workload: Workload, more: Mapping[str, int]) -> int | Ints:
        """Return the QoS gained by one more edge pod of the workload, in addition to other pods
        counted by edge site.

        With demand by site: for each node position, 0 in the cloud.
        """
        share, target = self.shares.get(workload, Share()), self.qos_targets(workload)
        if more:
            share = share.add_each(more)
        if self.sites is None or share.sites is None or target.demand is None:
            return self.objective.gain(share, target)
        names = [site or "" for site in self.sites.values]
        of_site = np.array(self.objective.gains_by_site(share, target, names), dtype=np.int64)
        gains = np.zeros(len(self.sites.codes), dtype=np.int64)
        gains[self.edge.positions] = of_site[self.sites.codes[self.edge.positions]]
        return gains

    def bindings_at(self, placed: Iterable[Placed]) -> tuple[Binding, ...]:
        """Return the bindings (pod, node, tier) of pods placed on the given nodes, in the given
        order.
        """
        nodes = self.snapshot.nodes
        tiers = [(pod, node, nodes[node].tier) for pod, node in placed]
        return tuple(Binding(pod, node, tier) for pod, node, tier in tiers if tier is not None)

    def shares_after(self, bindings: Iterable[Binding]) -> dict[Workload, Share]:
        edge = [binding for binding in bindings if binding.tier is Tier.EDGE]
        if self.sites is None:
            return shares_after(self.shares, Counter(binding.pod.workload for binding in edge))
        positions, more = self.snapshot.index.positions, dict[Workload, Counter[str]]()
        for binding in edge:
            site = site_at(self.sites, positions[binding.node])
            more.setdefault(binding.pod.workload, Counter())[site] += 1
        shares = ((w, self.shares[w].add_each(m)) for w, m in more.items() if w in self.shares)
        return {**self.shares, **dict(shares)}

    def standing(self, bindings: Sequence[Binding]) -> tuple[list[int], list[int]]:
        """Return the objective values of a placement before preference penalties: placed pods by
        scheduling order, then QoS gained by priority level.
        """
        amounts = self._amounts(bindings)
        placed, worth = (
            [amount for (goal, _), amount in amounts.items() if goal == name]
            for name in (PLACED, QOS)
        )
        return placed, worth

    def _amounts(self, bindings: Sequence[Binding]) -> Amounts:
        """Return the value of each goal: placed pods by position in the scheduling order (pod
        priority, precedence by age), and QoS gained by priority level.
        """
        after = self.shares_after(bindings)
        placed = Counter(self.turn(binding.pod) for binding in bindings)
        levels = levels_of((pod.workload, pod.pod_class.priority) for pod in self.pods) or {}
        gained: dict[int, int] = {}
        for workload in {pod.workload for pod in self.pods} & after.keys():
            target, level = self.qos_targets(workload), levels.get(workload, 0)
            before, then = (
                self.objective.worth_of(of[workload], target) for of in (self.shares, after)
            )
            gained[level] = gained.get(level, 0) + then - before
        turns = sorted(set(map(self.turn, self.pods)), reverse=True)
        return {
            **{(PLACED, turn_called(turn)): placed[turn] for turn in turns},
            **{(QOS, level_called(at)): gained[at] for at in sorted(gained, reverse=True)},
        }

    def certificates(
        self, bindings: Sequence[Binding], most: Choice, proof: Proof
    ) -> tuple[Certificate, ...]:
        """Return the optimality certificates of the placement goals that are not proven optimal.

        most: choice with an upper bound on the value of any placement.
        """
        known = {PLACED: proof.placed, QOS: proof.qos}
        reached, best = map(self._amounts, (bindings, self.bindings(most)))
        found = list_shortfalls(reached, best, most.certificates)
        return tuple(each for each in found if not known[each.goal])

    def turn(self, pod: Pod) -> Turn:
        """Return the pod's position in the scheduling order: its priority, then how long it is
        overdue.
        """
        return self.ranks.get(pod.uid, NO_RANK).turn

    def plain_proof(self, bindings: Sequence[Binding]) -> Proof:
        """Return the optimality proof of a placement without search: all pods are placed, or all
        are on the edge. With demand by site, pods on the edge may be at other sites than the best.
        """
        on_edge = sum(binding.tier is Tier.EDGE for binding in bindings)
        placed = len(bindings) == len(self.pods)
        qos = on_edge == len(self.pods) and self.sites is None
        return attrs.evolve(NO_PROOF, placed=placed, qos=qos)

    def decision(
        self,
        bindings: tuple[Binding, ...],
        unplaced: Mapping[Uid, Mapping[NodeName, Rejection]],
        proof: Proof,
    ) -> Decision:
        after = self.shares_after(bindings)
        present = {pod.workload for pod in self.pods} & after.keys()
        score_before, score_after = (
            sum(self.objective.worth_of(of[each], self.qos_targets(each)) for each in present)
            for of in (self.shares, after)
        )
        return Decision(
            bindings=bindings,
            unplaced=unplaced,
            score_before=score_before,
            score_after=score_after,
            proof=proof,
            shares_before=self.shares,
            shares_after=after,
        )

    def why_not(
        self, bindings: Sequence[Binding], unplaced: Sequence[Pod]
    ) -> dict[Uid, Mapping[NodeName, Rejection]]:
        """Return, for each unplaced pod, the rejection by each node, given the capacity left after
        the bindings.
        """
        index = self.snapshot.index
        room = self.snapshot.room.after((pod, node, 1) for pod, node, _ in bindings)
        known: dict[PodClass, Mapping[NodeName, Rejection]] = {}
        answers: dict[Uid, Mapping[NodeName, Rejection]] = {}
        for pod in unplaced:
            if pod.pod_class not in known:
                known[pod.pod_class] = rejections(pod.pod_class, index, room)
            answers[pod.uid] = known[pod.pod_class]
        return answers


def without_binding(pods: Iterable[Pod], bindings: Iterable[Binding]) -> list[Pod]:
    """Return the pods of the batch that have no binding."""
    placed = {binding.pod.uid for binding in bindings}
    return [pod for pod in pods if pod.uid not in placed]


def _room_left(edge: NodeRows) -> Ints:
    """Return the free share of each edge row: replaces fragmentation for large request mixes."""
    basic = ("cpu", "memory")
    shares = 1000 * edge.free(basic) // np.maximum(edge.allocatable(basic), 1)
    return np.asarray(shares.sum(axis=1))
