"""Pods of a batch being put on nodes one by one, as the rules about other pods allow.

A pod that comes can upset those that are there: it may unbalance a spread constraint, or give a pod
that was the first of its group a pod to be near to. kube-scheduler would not look back. Here
both were decided at once, so all of them are to keep their rules with the others in place.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs

from kubedsm.core.goals.replica_spread import ReplicaSpread, spreads
from kubedsm.core.packing.problem import Turn
from kubedsm.core.rules.feasibility import EquivalenceClass, Feasibility, Rejection
from kubedsm.core.rules.fit import shortages
from kubedsm.core.rules.residents import Selection
from kubedsm.core.rules.skews import Skews
from kubedsm.core.world.deadline import NO_DEADLINE, Deadline
from kubedsm.core.world.model import (
    Node,
    NodeName,
    Pod,
    Resources,
    SchedulingRules,
    Tier,
    Uid,
    Workload,
)
from kubedsm.core.world.node_index import Mask
from kubedsm.core.world.surroundings import Surroundings

#: Whether a pod of that workload on the edge adds QoS when so many more are there already.
WouldGain = Callable[[Workload, int], bool]
#: The turn of a pod: those with a greater one do not stay out for it.
TurnOf = Callable[[Pod], Turn]
Placed = tuple[Pod, NodeName]
#: domains that a pod is tried in, where it breaks another's rules, until it stays out
_TRIES = 8
#: in words of ours: kube-scheduler would let the pods of the batch go against each other
_SPREAD = "PodTopologySpread"
UPSETS = "node(s) would leave a pod of the same batch against its rules"


@attrs.define
class Settling:
    """The cluster with the pods of the batch placed so far; its owner is `keep_rules`."""

    feasibility: Feasibility
    free: dict[NodeName, Resources]
    surroundings: Surroundings
    would_gain: WouldGain
    turn: TurnOf
    skews: Skews
    deadline: Deadline
    #: None if it does not matter
    spread: ReplicaSpread | None = None
    #: as kube-scheduler does, let pods that come later break the rules of those before
    forgetful: bool = False
    #: in an order that the rules allow, unless `disordered`
    placed: dict[Uid, Placed] = attrs.field(factory=dict)
    #: pods that had to go, or stay away, for a rule of another: its name
    upset: dict[Uid, str] = attrs.field(factory=dict)
    likes: dict[Uid, EquivalenceClass] = attrs.field(factory=dict)
    known: dict[EquivalenceClass, EquivalenceClass] = attrs.field(factory=dict)
    #: nodes known to reject such pods, as long as no pod comes that these look at
    closed: dict[EquivalenceClass, set[NodeName]] = attrs.field(factory=dict)
    #: pods for which that is so of every node
    nowhere: set[EquivalenceClass] = attrs.field(factory=set)
    #: a pod came or went since all were found to keep their rules
    doubtful: bool = False
    #: a pod went since all were put in order
    disordered: bool = False
    #: where pods cannot be for the sake of others
    avoided: dict[Uid, list[frozenset[NodeName]]] = attrs.field(factory=dict)
    #: where pods had better be
    drawn: dict[Uid, frozenset[NodeName]] = attrs.field(factory=dict)
    #: pods of the batch on the edge
    edge: Counter[Workload] = attrs.field(factory=Counter)
    nodes: dict[NodeName, Node] = attrs.field(init=False)
    positions: dict[NodeName, int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.nodes = {node.name: node for node in self.feasibility.nodes}
        self.positions = {name: at for at, name in enumerate(self.nodes)}

    @property
    def homes(self) -> dict[Uid, NodeName]:
        return {uid: node for uid, (_, node) in self.placed.items()}

    def settle(self, planned: Iterable[Placed]) -> None:
        """Place these, as planned where that is allowed, and on other nodes where it is not.

        Those whose rules later ones could break come last.
        """
        waiting = sorted(planned, key=lambda e: bool(_topology_keys(e[0].pod_class.rules)))
        while waiting := self._as_planned(waiting):
            for index, (pod, _) in enumerate(waiting):
                node = self._best_node(pod, waiting[:index] + waiting[index + 1 :])
                if node is not None:
                    self._put(pod, node)
                    del waiting[index]
                    break
            else:
                return

    def _as_planned(self, planned: Sequence[Placed]) -> list[Placed]:
        """Place those of these that may be where they are meant to be; the others are left."""
        waiting, progress = list(planned), True
        while progress:
            progress = False
            left = []
            for pod, node in waiting:
                self.deadline.check()
                if self._rejects(node, pod) or self._upsets(pod)[self.positions[node]]:
                    left.append((pod, node))
                else:
                    self._put(pod, node)
                    progress = True
            waiting = left
        return waiting

    def _rejects(self, node: NodeName, pod: Pod) -> bool:
        like = self.like(pod)
        closed = self.closed.setdefault(like, set())
        if node not in closed and (
            not self.skews.open(like)[self.positions[node]]
            or self.feasibility.rejection(pod, node) is not None
        ):
            closed.add(node)
        return node in closed

    def _upsets(self, pod: Pod) -> Mask:
        """The nodes where it would break the constraints of others.

        None are, as long as there is a pod of a lesser turn that could go instead.
        """
        upset = self.skews.upset(self.like(pod))
        if self.forgetful:
            upset[:] = False
        if upset.any() and any(
            self.turn(other) < self.turn(pod) for other, _ in self.placed.values()
        ):
            upset[:] = False
        return upset

    def like(self, pod: Pod) -> EquivalenceClass:
        if pod.uid not in self.likes:
            like = self.feasibility.equivalence(pod)
            # One value for all that are equal: found faster.
            self.likes[pod.uid] = self.known.setdefault(like, like)
        return self.likes[pod.uid]

    def retry(self, pods: Iterable[Pod]) -> None:
        """Place these wherever they may be, again and again while that opens nodes to others."""
        waiting, progress = list(pods), True
        while progress and waiting:
            progress = False
            for pod in tuple(waiting):
                node = self._best_node(pod, ())
                if node is not None:
                    self._put(pod, node)
                    waiting.remove(pod)
                    progress = True

    def promote(self) -> None:
        """Bring pods to the edge where the changes left room there, and QoS is won.

        Only those that no affinity and no spread constraint of the batch looks at, so that nothing
        depends on where they are.
        """
        looks = {look for pod, _ in self.placed.values() for look in _looks(pod.pod_class.rules)}
        for pod, node in tuple(self.placed.values()):
            if self.nodes[node].tier is Tier.EDGE or not self.would_gain(
                pod.workload, self.edge[pod.workload]
            ):
                continue
            if any(s.covers(pod.namespace, pod.labels, self.surroundings) for s in looks):
                continue
            self._take(pod)
            best = self._best_node(pod, ())
            better = best is not None and self.nodes[best].tier is Tier.EDGE
            self._put(pod, best if best is not None and better else node)

    def place_in_turn(self, pods: Iterable[Pod], wanted: Mapping[Uid, NodeName]) -> list[Pod]:
        """Time is up: put each where it may be as it comes, and look back no more.

        Each goes where it is wanted, if it may. Returns those that there was no time for either;
        the first of each namespace is never one of them.
        """
        wanted = {**wanted, **self.homes}
        if self.disordered:
            for pod, _ in tuple(self.placed.values()):
                self._take(pod)
        deadline, self.deadline = self.deadline, NO_DEADLINE
        served: set[str] = set()
        late = []
        for pod in pods:
            if pod.uid in self.placed:
                continue
            if pod.namespace in served and deadline.long_passed:
                late.append(pod)
                continue
            served.add(pod.namespace)
            self._place(pod, wanted)
        return late

    def place_in_line(self, pods: Iterable[Pod], wanted: Mapping[Uid, NodeName]) -> None:
        """Place each where it is wanted, or else where it may be, as it comes.

        Whenever one came those before it that found no node are tried again.
        """
        waiting: list[Pod] = []
        for pod in pods:
            self._place(pod, wanted)
            waiting = [p for p in (*waiting, pod) if p.uid not in self.placed]
            self.retry(waiting)

    def _place(self, pod: Pod, wanted: Mapping[Uid, NodeName]) -> None:
        node = wanted.get(pod.uid)
        if node is None or self._rejects(node, pod) or self._upsets(pod)[self.positions[node]]:
            node = self._best_node(pod, ())
        if node is not None:
            self._put(pod, node)

    def rejections(self, pod: Pod) -> dict[NodeName, Rejection]:
        """Why each node does not take a pod that was not placed."""
        found = self.feasibility.rejections(pod)
        rule = self.upset.get(pod.uid)
        if rule is not None:
            upsets = Rejection(rule, (UPSETS,))
            found = {name: found.get(name, upsets) for name in self.nodes}
        return found

    def make_sound(self) -> bool:
        """Move or take out pods until all keep their rules; whether it took any out.

        Where later ones broke the rules of a pod, those of a lesser turn have to go, or else it.
        """
        if not self.doubtful:
            return False
        moved = took = False
        while broken := self._broken():
            moved = True
            culprit = self._culprit(broken)
            pod = culprit or broken
            if culprit:
                spread = broken.pod_class.rules.spread
                self.upset[pod.uid] = _SPREAD if spread else "InterPodAffinity"
            self._avoid(pod, broken)
            self._take(pod)
            node = self._best_node(pod, ())
            if node is None:
                took = True
            else:
                self._put(pod, node)
        self.doubtful = False
        return self._put_in_order() or took if moved else took

    def _avoid(self, pod: Pod, broken: Pod) -> None:
        """Note that the pod can be nowhere near where it is, as far as that other pod goes."""
        keys = _topology_keys(broken.pod_class.rules)
        labels = self.nodes[self.placed[pod.uid][1]].labels
        avoided = self.avoided.setdefault(pod.uid, [])
        avoided.append(
            frozenset(
                name
                for name, node in self.nodes.items()
                if all(node.labels.get(key) == labels.get(key) for key in keys)
            )
        )
        if len(avoided) > _TRIES:
            avoided.append(frozenset(self.nodes))

    def _broken(self) -> Pod | None:
        """The first pod whose rules others have broken since."""
        sound: set[tuple[EquivalenceClass, tuple[str | None, ...]]] = set()
        uneven = self.skews.broken()
        for pod, node in self.placed.values():
            self.deadline.check()
            like = self.like(pod)
            if uneven[self.skews.rows_of(like), self.positions[node]].any():
                return pod
            keys = sorted({term.topology_key for term in like.rules.affinity})
            labels = self.nodes[node].labels
            domains = like, tuple(labels.get(key) for key in keys)
            if keys and domains not in sound:
                if self.feasibility.deserted(pod):
                    return pod
                sound.add(domains)
        return None

    def _culprit(self, broken: Pod) -> Pod | None:
        """The last one of a lesser turn that the rules of that pod look at."""
        looks = tuple(_looks(broken.pod_class.rules))
        for pod, _ in reversed(self.placed.values()):
            if self.turn(pod) < self.turn(broken) and any(
                s.covers(pod.namespace, pod.labels, self.surroundings) for s in looks
            ):
                return pod
        return None

    def _put_in_order(self) -> bool:
        """Place all once more, in an order that the rules allow; whether any had to be left out."""
        waiting = list(self.placed.values())
        for pod, _ in waiting:
            self._take(pod)
        left = self._as_planned(waiting)
        self.disordered = False
        return bool(left)

    def _put(self, pod: Pod, node: NodeName) -> None:
        self.feasibility = self.feasibility.with_pod(pod, node)
        self.free[node] -= pod.requests
        self.placed[pod.uid] = pod, node
        self.skews.change(self.like(pod), self.positions[node], 1)
        self.doubtful = True
        for like in (*self.closed, *self.nowhere):
            if any(
                s.covers(pod.namespace, pod.labels, self.surroundings) for s in _looks(like.rules)
            ):
                self.closed.pop(like, None)
                self.nowhere.discard(like)
        self.edge[pod.workload] += self.nodes[node].tier is Tier.EDGE
        if self.spread is not None:
            self.spread.put(pod.workload, node)

    def _take(self, pod: Pod) -> None:
        _, node = self.placed.pop(pod.uid)
        self.skews.change(self.like(pod), self.positions[node], -1)
        self.doubtful = self.disordered = True
        self.closed.clear()
        self.nowhere.clear()
        self.feasibility = self.feasibility.without_pod(pod.uid)
        self.free[node] += pod.requests
        self.edge[pod.workload] -= self.nodes[node].tier is Tier.EDGE
        if self.spread is not None:
            self.spread.put(pod.workload, node, -1)

    def _best_node(self, pod: Pod, planned: Iterable[Placed]) -> NodeName | None:
        """Of the nodes that take the pod, the best: without taking the room of a planned one.

        Then one on the edge, if that gains QoS; then the one it likes best; then the one where it
        joins the fewest replicas; then, on the edge, the one with the least room to spare, or the
        roomiest other.
        """
        self.deadline.check()
        like = self.like(pod)
        if like in self.nowhere:
            return None
        # Asked first, since it is answered much faster than all the rules.
        feasible = self.feasibility.feasible(pod) if self.skews.open(like).any() else []
        if not feasible:
            self.nowhere.add(like)
            return None
        avoided = frozenset[NodeName]().union(*self.avoided.get(pod.uid, ()))
        upset = self._upsets(pod)
        if upset.any():
            self.upset[pod.uid] = _SPREAD
        nodes = [n for n in feasible if n not in avoided and not upset[self.positions[n]]]
        if not nodes:
            return None
        gains = self.would_gain(pod.workload, self.edge[pod.workload])
        spare = dict(self.free)
        for other, node in planned:
            spare[node] -= other.requests
        penalties = dict(zip(nodes, self.feasibility.penalties(pod, nodes), strict=True))

        spread = self.spread if spreads(pod) else None
        drawn = self.drawn.get(pod.uid, nodes)

        def rank(
            name: NodeName,
        ) -> tuple[bool, bool, bool, int, int, bool, int, int, NodeName]:
            cloud = self.nodes[name].tier is not Tier.EDGE
            room, sign = self.free[name], -1 if cloud else 1
            return (
                name not in drawn,
                bool(shortages(pod.requests, spare[name])),
                cloud and gains,
                penalties[name],
                spread.company(pod.workload, name) if spread is not None else 0,
                not cloud,
                sign * room.cpu,
                sign * room.memory,
                name,
            )

        return min(nodes, key=rank)


def _looks(rules: SchedulingRules) -> Iterator[Selection]:
    """The pods that affinity and spread constraints look at."""
    for term in rules.affinity:
        yield Selection.of(term)
    for constraint in rules.spread:
        yield Selection(constraint.selector, (constraint.namespace,))


def _topology_keys(rules: SchedulingRules) -> list[str]:
    """The labels of nodes that decide whether others may break these rules by coming."""
    keys = {term.topology_key for term in rules.affinity}
    keys.update(constraint.topology_key for constraint in rules.spread)
    return sorted(keys)
