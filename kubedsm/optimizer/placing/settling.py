"""Sequential placement under constraints between pods, with repair of violated constraints.

kube-scheduler permits subsequent pods to violate spread constraints or affinity of preceding pods.
Here the constraints of all pods of a batch are satisfied in the final state.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import NodeName, Pod, SchedulingRules, Tier, Uid, Workload
from kubedsm.model.node_index import FreeCapacity, Ints, Mask, NodeIndex, Positions, Step
from kubedsm.model.residents import Selection, wishes_of
from kubedsm.model.surroundings import Surroundings
from kubedsm.objective.replica_spread import ReplicaSpread, has_default_spread
from kubedsm.optimizer.matching.problem import Turn
from kubedsm.optimizer.placing.batch import Batch, Placed, site_at
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility, Rejection
from kubedsm.plugins.fit import shortages
from kubedsm.plugins.plugin import ClassIndex
from kubedsm.plugins.spread import Skews

#: Host port, disk, claim, StorageClass or CSI driver, by kind and name.
_Contended = tuple[str, object]


class OpenNodes:
    """Nodes that scheduling rules permit for each equivalence class of pods, ignoring capacity and
    topology spread.

    Constraints of a class are reevaluated only after placements that concern the class.
    """

    def __init__(
        self, feasibility: Feasibility, surroundings: Surroundings, batch: Iterable[Pod]
    ) -> None:
        self._steps: list[Step] = []
        #: state after the first `_taken` steps
        self._known = feasibility
        self._before = feasibility
        self._taken = 0
        self._surroundings = surroundings
        self._alike: dict[EquivalenceClass, EquivalenceClass] = {}
        self._likes: dict[Uid, EquivalenceClass] = {}
        for pod in batch:
            like = feasibility.equivalence(pod)
            # Interned for faster lookup.
            self._likes[pod.uid] = self._alike.setdefault(like, like)
        #: a placed pod may open nodes to other pods of the batch, by affinity or spread
        self.may_grow = any(like.rules.affinity or like.rules.spread for like in self._alike)
        rules = [like.rules for like in self._alike]
        self._has_terms = any(of.affinity or of.anti_affinity for of in rules)
        self._wishes = {term for like in self._alike for _, term in wishes_of(like.rules)}
        #: mask, and number of steps it includes
        self._masks: dict[EquivalenceClass, tuple[Mask, int]] = {}
        self._indifferent: dict[EquivalenceClass, bool] = {}
        self._contended: dict[EquivalenceClass, frozenset[_Contended]] = {}
        #: number of steps up to the last one that changed what pods compete for
        self._changed: dict[_Contended, int] = {}

    def like(self, pod: Pod) -> EquivalenceClass:
        return self._likes[pod.uid]

    @property
    def feasibility(self) -> Feasibility:
        if steps := self._steps[self._taken :]:
            self._known = self._known.after(steps)
            self._taken = len(self._steps)
        return self._known

    def of(self, pod: Pod) -> Mask:
        """Return the nodes permitted for the pod, as a shared mask that must not be modified."""
        like = self._likes[pod.uid]
        mask, seen = self._masks.get(like, (None, 0))
        if mask is None:
            mask = self._before.verdict(pod).otherwise_open
        steps = self._steps[seen:] if self._has_terms else ()
        concerning = self._concerning[like] if steps else ()
        if any(self._changed.get(what, 0) > seen for what in self._list_contended(like)) or any(
            self._likes[p.uid] in concerning for p, _, _ in steps
        ):
            mask = self.feasibility.verdict(pod).otherwise_open
        self._masks[like] = mask, len(self._steps)
        return mask

    def penalties(self, pod: Pod, nodes: Positions) -> Ints | None:
        """Return the preference penalty of each node position; None if permanently identical."""
        like = self._likes[pod.uid]
        if like not in self._indifferent:
            self._indifferent[like] = self._known.indifferent(pod, self._wishes)
        if self._indifferent[like]:
            return None
        penalties = np.zeros(len(self._known.index), dtype=np.int64)
        penalties[nodes] = self.feasibility.penalties_at(pod, nodes)
        return penalties

    def add_step(self, step: Step) -> None:
        """Count the arrival or departure of a pod of the batch at a node."""
        self._steps.append(step)
        for what in self._list_contended(self._likes[step[0].uid]):
            self._changed[what] = len(self._steps)

    @cached_property
    def _concerning(self) -> Mapping[EquivalenceClass, set[EquivalenceClass]]:
        """Classes whose pods, by affinity terms, may open or close nodes to each class."""
        index = ClassIndex(self._alike, self._surroundings)
        found: dict[EquivalenceClass, set[EquivalenceClass]] = {like: set() for like in self._alike}
        for like in self._alike:
            for term in like.rules.affinity:
                found[like].update(index.covered(Selection.of(term)))
            for term in like.rules.anti_affinity:
                for other in index.covered(Selection.of(term)):
                    found[like].add(other)
                    found[other].add(like)
        return found

    def _list_contended(self, like: EquivalenceClass) -> frozenset[_Contended]:
        """Return what pods of the class compete for: host ports, disks, claims and storage."""
        found = self._contended.get(like)
        if found is None:
            rules, storage = like.rules, self._before.scene.storage
            found = self._contended[like] = frozenset(
                (
                    *(("port", port.port) for port in rules.ports),
                    *(("disk", disk.identity) for disk in rules.disks),
                    *storage.list_contended(rules.claim_keys),
                )
            )
        return found


#: steps of work to place a pod, more for each node, and to check a placed pod
_POD_STEPS, _NODE_STEPS, _LOOK_STEPS = 8_000, 10, 1_000
#: domains to try for a pod that breaks constraints of others
_TRIES = 8
#: in words of ours: kube-scheduler would let the pods of the batch go against each other
_SPREAD = "PodTopologySpread"
UPSETS = "node(s) would violate the scheduling rules of another pod of the batch"


@attrs.define
class Settling:
    """Pods of a batch placed so far, with the cluster state including them, for placing further
    pods under rules between pods.
    """

    batch: Batch
    nodes: NodeIndex
    #: available capacity with the placed pods
    room: FreeCapacity
    #: constraints with the placed pods, spread aside
    open: OpenNodes
    skews: Skews
    surroundings: Surroundings
    deadline: Deadline
    #: replicas with the placed pods; None if spread does not count
    spread: ReplicaSpread | None
    #: subsequent pods may break constraints of preceding ones, as in kube-scheduler
    forgetful: bool
    #: in an order that the constraints allow, unless `disordered`
    placed: dict[Uid, Placed] = attrs.field(factory=dict)
    #: placed pods by turn
    turns: Counter[Turn] = attrs.field(factory=Counter)
    #: plugin for whose sake a pod was removed or kept out
    upset: dict[Uid, str] = attrs.field(factory=dict)
    #: classes without a node, until a relevant pod comes
    nowhere: set[EquivalenceClass] = attrs.field(factory=set)
    #: a pod came or went since all were found to keep their constraints
    doubtful: bool = False
    #: a pod went since all were put in order
    disordered: bool = False
    #: where pods cannot be for the sake of others
    avoided: dict[Uid, list[Mask]] = attrs.field(factory=dict)
    #: where pods had better be
    drawn: dict[Uid, Mask] = attrs.field(factory=dict)
    #: pods of the batch on the edge, by site
    edge: defaultdict[Workload, Counter[str]] = attrs.field(
        factory=lambda: defaultdict(Counter[str])
    )

    @classmethod
    def of(
        cls,
        batch: Batch,
        feasibility: Feasibility,
        deadline: Deadline = NO_DEADLINE,
        *,
        forgetful: bool = False,
    ) -> Self:
        """Begin a placement of the batch, without any pod placed."""
        surroundings = batch.snapshot.surroundings
        return cls(
            batch,
            feasibility.index,
            feasibility.room,
            OpenNodes(feasibility, surroundings, batch.pods),
            feasibility.skews(batch.pods),
            surroundings,
            deadline,
            None if batch.spread is None else batch.spread.copy(),
            forgetful,
        )

    @cached_property
    def on_edge(self) -> Mask:
        return self.nodes.at(self.nodes.of_tier(Tier.EDGE))

    @property
    def _steps(self) -> int:
        """Estimated steps of work to place a pod."""
        return _POD_STEPS + _NODE_STEPS * len(self.nodes)

    def gain(self, pod: Pod) -> int | Ints:
        """Return the QoS gained by the pod at the edge, given the pods placed so far."""
        return self.batch.gain_at_edge(pod.workload, self.edge[pod.workload])

    @property
    def homes(self) -> dict[Uid, NodeName]:
        return {uid: node for uid, (_, node) in self.placed.items()}

    def settle(self, planned: Iterable[Placed]) -> None:
        """Place pods on their planned nodes where permitted, and on alternative nodes otherwise.

        Pods whose constraints later pods might violate are placed last.
        """
        waiting = sorted(planned, key=lambda e: bool(_topology_keys(e[0].pod_class.rules)))
        if not self.open.may_grow:
            for pod, _ in self._as_planned(waiting):
                best = self._best_node(pod)
                if best is not None:
                    self.put(pod, best)
            return
        while waiting := self._as_planned(waiting):
            for index, (pod, _) in enumerate(waiting):
                best = self._best_node(pod)
                if best is not None:
                    self.put(pod, best)
                    del waiting[index]
                    break
            else:
                return

    def _as_planned(self, planned: Sequence[Placed]) -> list[Placed]:
        """Place the pods on their planned nodes where rules between pods permit; return the pods
        not placed.
        """
        waiting, progress = list(planned), True
        while progress:
            progress = False
            left = []
            for pod, node in waiting:
                self.deadline.check(self._steps)
                if self._is_allowed(pod, node):
                    self.put(pod, node)
                    progress = self.open.may_grow
                else:
                    left.append((pod, node))
            waiting = left
        return waiting

    def _is_allowed(self, pod: Pod, node: NodeName) -> bool:
        """Return True if rules between pods and capacity permit the pod on the node.

        Constraints of previously placed pods are included if required.
        """
        at = self.nodes.positions[node]
        return bool(
            self.skews.open(self.open.like(pod))[at]
            and self.open.of(pod)[at]
            and not shortages(pod.requests, self.room.of(at))
            and not (self._keeps_away(pod) and self.skews.upset(self.open.like(pod))[at])
        )

    def _keeps_away(self, pod: Pod) -> bool:
        """Determine whether the pod remains unplaced to protect the constraints of other pods."""
        return not self.forgetful and not (self.turns and min(self.turns) < self.batch.turn(pod))

    def retry(self, pods: Iterable[Pod]) -> None:
        """Place the unplaced pods on any permitted node; repeat while a placement makes further
        nodes feasible (affinity).
        """
        waiting, progress = list(pods), True
        while progress and waiting:
            progress = False
            for pod in tuple(waiting):
                node = self._best_node(pod)
                if node is not None:
                    self.put(pod, node)
                    waiting.remove(pod)
                    progress = True

    def promote(self) -> None:
        """Move cloud pods of the batch to free edge capacity for QoS, unless rules between pods
        depend on them.
        """
        looks = {
            look for pod, _ in self.placed.values() for look in _selections_of(pod.pod_class.rules)
        }
        for pod, node in tuple(self.placed.values()):
            gain = self.gain(pod)
            if self.on_edge[self.nodes.positions[node]] or np.max(gain) <= 0:
                continue
            if self._is_selected(pod, looks):
                continue
            self._take_out(pod)
            best = self._best_node(pod)
            better = best is not None and self.on_edge[self.nodes.positions[best]]
            self.put(pod, best if best is not None and better else node)

    def place_in_turn(self, pods: Iterable[Pod], wanted: Mapping[Uid, NodeName]) -> None:
        """Place each pod once, on its planned node or else the best node; for expired deadlines."""
        wanted = {**wanted, **self.homes}
        if self.disordered:
            for pod, _ in tuple(self.placed.values()):
                self._take_out(pod)
        self.deadline = NO_DEADLINE
        for pod in pods:
            if pod.uid not in self.placed:
                self._place_pod(pod, wanted)

    def place_in_line(self, pods: Iterable[Pod], wanted: Mapping[Uid, NodeName]) -> None:
        """Place the pods of a batch one after another, retrying unschedulable pods after each
        placement.
        """
        waiting: list[Pod] = []
        for pod in pods:
            self._place_pod(pod, wanted)
            waiting = [p for p in (*waiting, pod) if p.uid not in self.placed]
            self.retry(waiting)

    def _place_pod(self, pod: Pod, wanted: Mapping[Uid, NodeName]) -> None:
        node = wanted.get(pod.uid)
        if node is None or not self._is_allowed(pod, node):
            node = self._best_node(pod)
        if node is not None:
            self.put(pod, node)

    def rejections(self, pod: Pod) -> dict[NodeName, Rejection]:
        """Return the rejection of the unschedulable pod by each node, given the pods placed."""
        found = self.open.feasibility.rejections(pod)
        rule = self.upset.get(pod.uid)
        if rule is not None:
            upsets = Rejection(rule, (UPSETS,))
            found = {name: found.get(name, upsets) for name in self.nodes.names}
        return found

    def make_sound(self) -> bool:
        """Move or remove placed pods until all rules between pods are satisfied; return True if any
        was removed.

        Pods of a lesser turn yield to pods whose constraints they violated. If none can yield, the
        pod with the violated constraint is removed.
        """
        if not self.doubtful:
            return False
        moved = took = False
        while broken := self._find_broken():
            moved = True
            culprit = self._find_culprit(broken)
            pod = culprit or broken
            if culprit:
                spread = broken.pod_class.rules.spread
                self.upset[pod.uid] = _SPREAD if spread else "InterPodAffinity"
            self._avoid_domain(pod, broken)
            self._take_out(pod)
            node = self._best_node(pod)
            if node is None:
                took = True
            else:
                self.put(pod, node)
        self.doubtful = False
        return self._put_in_order() or took if moved else took

    @property
    def sound(self) -> bool:
        """True if the pods placed so far violate no affinity or spread rule of a placed pod."""
        return self._find_broken() is None

    def _avoid_domain(self, pod: Pod, broken: Pod) -> None:
        """Exclude the pod from the topology domain of its node, in favour of the other pod."""
        at = self.nodes.positions[self.placed[pod.uid][1]]
        near = self.nodes.every()
        for key in _topology_keys(broken.pod_class.rules):
            codes = self.nodes.label(key).codes
            near &= codes == codes[at]
        avoided = self.avoided.setdefault(pod.uid, [])
        avoided.append(near)
        if len(avoided) > _TRIES:
            avoided.append(self.nodes.every())

    def _find_broken(self) -> Pod | None:
        """Return the first placed pod whose affinity or spread rules are violated; None if all
        hold.
        """
        sound: set[tuple[EquivalenceClass, tuple[str | None, ...]]] = set()
        even = self.skews.all_kept
        for pod, node in self.placed.values():
            self.deadline.check(_LOOK_STEPS)
            like, at = self.open.like(pod), self.nodes.positions[node]
            if not even and self.skews.broken(like, at):
                return pod
            if not like.rules.affinity:
                continue
            keys = sorted({term.topology_key for term in like.rules.affinity})
            labels = self.nodes.nodes[at].labels
            domains = like, tuple(labels.get(key) for key in keys)
            if domains not in sound:
                if self.open.feasibility.is_affinity_violated(pod):
                    return pod
                sound.add(domains)
        return None

    def _find_culprit(self, broken: Pod) -> Pod | None:
        """Return the last pod of a lesser turn affected by the given pod's constraints."""
        looks = tuple(_selections_of(broken.pod_class.rules))
        for pod, _ in reversed(self.placed.values()):
            if self.batch.turn(pod) < self.batch.turn(broken) and self._is_selected(pod, looks):
                return pod
        return None

    def _put_in_order(self) -> bool:
        """Place all pods again in a permitted order; return True if any pod remains unplaced."""
        waiting = list(self.placed.values())
        for pod, _ in waiting:
            self._take_out(pod)
        left = self._as_planned(waiting)
        self.disordered = False
        return bool(left)

    def put(self, pod: Pod, node: NodeName) -> None:
        self._count_pod(pod, node, 1)
        self.placed[pod.uid] = pod, node
        self.doubtful = True
        for like in tuple(self.nowhere):
            if self._is_selected(pod, _selections_of(like.rules)):
                self.nowhere.discard(like)

    def _is_selected(self, pod: Pod, selections: Iterable[Selection]) -> bool:
        """Return True if any of the selections covers the pod."""
        return any(s.covers(pod.namespace, pod.labels, self.surroundings) for s in selections)

    def _take_out(self, pod: Pod) -> None:
        _, node = self.placed.pop(pod.uid)
        self._count_pod(pod, node, -1)
        self.doubtful = self.disordered = True
        self.nowhere.clear()

    def _count_pod(self, pod: Pod, node: NodeName, by: int) -> None:
        at, turn = self.nodes.positions[node], self.batch.turn(pod)
        self.room = self.room.after(((pod, node, by),))
        self.open.add_step((pod, node, by))
        self.skews.change(self.open.like(pod), at, by)
        if self.on_edge[at]:
            self.edge[pod.workload][site_at(self.batch.sites, at)] += by
        self.turns[turn] += by
        if not self.turns[turn]:
            del self.turns[turn]
        if self.spread is not None:
            self.spread.put(pod.workload, node, by)

    def _best_node(self, pod: Pod) -> NodeName | None:
        """Return the best node that capacity and rules between pods permit for the pod; None
        without any.

        Nodes compare by QoS gain of the tier, preference penalty, replicas, then the tightest edge
        node or the cloud node with most available capacity.
        """
        self.deadline.check(self._steps)
        like = self.open.like(pod)
        taking = self.open_to(pod)
        if taking is None:
            return None
        if self._keeps_away(pod) and (upset := self.skews.upset(like)).any():
            self.upset[pod.uid] = _SPREAD
            taking &= ~upset
        for near in self.avoided.get(pod.uid, ()):
            taking &= ~near
        best = np.flatnonzero(taking)
        return self._first_of(pod, best) if len(best) else None

    def open_to(self, pod: Pod) -> Mask | None:
        """Return the nodes that accept the pod, given the pods of the batch placed so far; None if
        there are none.
        """
        like = self.open.like(pod)
        if like in self.nowhere:
            return None
        taking = self.skews.open(like) & self.open.of(pod) & ~self.room.short(pod.requests)
        if not taking.any():
            self.nowhere.add(like)
            return None
        return taking

    def _first_of(self, pod: Pod, nodes: Positions) -> NodeName:
        penalties = self.open.penalties(pod, nodes)
        if pod.uid in self.drawn:
            nodes = _keep_cheapest(nodes, ~self.drawn[pod.uid][nodes])
        gain = self.gain(pod)
        nodes = _keep_cheapest(nodes, -(gain * self.on_edge)[nodes])
        if penalties is not None:
            nodes = _keep_cheapest(nodes, penalties[nodes])
        if self.spread is not None and has_default_spread(pod):
            nodes = _keep_cheapest(nodes, self.spread.by_node(pod.workload, self.nodes)[nodes])
        nodes = _keep_cheapest(nodes, self.on_edge[nodes])
        sign = 1 if self.on_edge[nodes[0]] else -1
        for resource in ("cpu", "memory"):
            nodes = _keep_cheapest(nodes, sign * self.room.column(resource)[nodes])
        return self.nodes.names[int(nodes[0])]


def _keep_cheapest(nodes: Positions, costs: NDArray[Any]) -> Positions:
    """Return the node positions of least cost among the given positions."""
    least: Positions = nodes[costs == costs.min()]
    return least


def _selections_of(rules: SchedulingRules) -> Iterator[Selection]:
    """Enumerate the pod selectors of a pod's affinity and topology spread rules."""
    for term in rules.affinity:
        yield Selection.of(term)
    for constraint in rules.spread:
        yield Selection.of_spread(constraint)


def _topology_keys(rules: SchedulingRules) -> list[str]:
    """Return topology keys (node labels) whose constraints arriving pods may violate."""
    keys = {term.topology_key for term in rules.affinity}
    keys.update(constraint.topology_key for constraint in rules.spread)
    return sorted(keys)


#: steps of work to place a pod alone, and more for each node of the cluster
_ALONE_STEPS, _ALONE_NODE_STEPS = 400_000, 200
#: Overhead in nodes, and threshold, of pods times request vectors times edge nodes.
_OVERHEAD, _MOST_MEASURED = 100, 10_000_000


def place_one_at_a_time(batch: Batch, feasibility: Feasibility) -> Settling:
    """Schedule the pods of a batch one at a time, as kube-scheduler does.

    This is the lower bound for every decision: a subsequent pod may violate constraints of a
    preceding pod. The running time is linear in the number of pods, so only a strict deadline
    applies. Unschedulable pods are retried at the end, because other pods may have opened nodes to
    them. Raises OutOfTimeError.
    """
    deadline = batch.bounds.deadline if batch.bounds.deadline.strict else NO_DEADLINE
    settling = Settling.of(batch, feasibility, deadline, forgetful=True)
    nodes = len(batch.edge.positions) + _OVERHEAD
    measured = len(batch.pods) * len(batch.fragmentation.mix) * nodes <= _MOST_MEASURED
    for pod in batch.pods:
        deadline.check(_ALONE_STEPS + _ALONE_NODE_STEPS * len(settling.nodes))
        open_to = settling.open_to(pod)
        if open_to is None:
            continue
        edge, cloud = (
            batch.snapshot.in_turn(tier, settling.room, len(settling.placed), [pod])
            for tier in (Tier.EDGE, Tier.CLOUD)
        )
        node = batch.choose_node(
            pod,
            open_to,
            edge,
            cloud,
            settling.gain(pod),
            settling.spread,
            settling.open.penalties(pod, open_to.nonzero()[0]),
            measured=measured,
        )
        if node is not None:
            settling.put(pod, edge.index.names[node])
    settling.retry(pod for pod in batch.pods if pod.uid not in settling.placed)
    return settling
