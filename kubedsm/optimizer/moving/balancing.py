"""A move within a tier so that load is more even: at most one a suggestion, if there is no other.

It is that of the load-aware paper's descheduler: from the most uneven node that has any, the pod
that would score better elsewhere by most, counted once where it is. But what a pod finds is not all
that it changes: what it leaves may be less even without it, and pods could change places for ever.
So a move is made only if both nodes together score more then; and therefore it comes to an end.

It must gain enough in two samples that follow each other. A node that a pod has come to or left
since, or within the window of the last one, is let alone: a mean over the window has yet to tell
what it uses. So moves wait for what became of the one before.
"""

from collections.abc import Iterator
from typing import Self

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.measured import only_in
from kubedsm.model.model import NodeName, Pod, Tier
from kubedsm.model.node_index import Mask
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation
from kubedsm.objective.load import Floats, LoadGoal, Loads, evenness
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.moving.beside import WITHIN, Beside
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.suggestion import Move, MoveKind

#: points by which both nodes together score more: what is less may be due to rounding
_LEAST = 1e-3


def one_move(
    beside: Beside,
    goal: LoadGoal,
    movable: Movable,
    fragmentation: Fragmentation,
    deadline: Deadline = NO_DEADLINE,
) -> Move | None:
    """The move, or None if none is wanted, or worth it, or there is no more time.

    `beside` has no other moves. `movable` says why a pod must stay, or None.
    """
    samples = Samples.of(goal, beside.snapshot)
    if samples is None or not goal.move:
        return None
    balancing = _Balancing(beside, samples, fragmentation)
    homes: dict[NodeName, list[Pod]] = {}
    for uid, name in beside.snapshot.placed.items():
        homes.setdefault(name, []).append(beside.snapshot.pods[uid])
    for source in samples.uneven:
        node = beside.snapshot.index.nodes[source]
        if deadline.passed:
            return None
        if node.tier is not None and beside.one_more(node.tier):
            pods = [pod for pod in homes.get(node.name, ()) if not movable(pod)]
            move = next(balancing.moves(sorted(pods, key=leaving_turn), source, node.tier), None)
            if move is not None:
                return move
    return None


def still_pays(snapshot: Snapshot, goal: LoadGoal | None, move: Move) -> bool:
    """Whether a move that was found worth it is so by what is measured now."""
    samples = Samples.of(goal, snapshot) if goal is not None and goal.move else None
    source = snapshot.placed.get(move.pod.uid)
    if samples is None or source is None or move.target not in snapshot.index.positions:
        return False
    positions = snapshot.index.positions
    return bool(samples.gains(move.pod, positions[source])[positions[move.target]] > 0)


@attrs.frozen(eq=False)
class Samples:
    """Two that follow each other."""

    goal: LoadGoal
    now: Loads
    before: Loads
    #: the nodes of which they tell what is used now
    known: Mask

    @classmethod
    def of(cls, goal: LoadGoal, snapshot: Snapshot) -> Self | None:
        first = snapshot.measured.before
        now = Loads.of(goal, snapshot)
        before = Loads.of(goal, snapshot, first) if first is not None else None
        if now is None or first is None or before is None:
            return None
        sample, placed = snapshot.measured, snapshot.placed
        since = {
            name for _, name in (*only_in(sample.placed, placed), *only_in(placed, sample.placed))
        }
        within = {placed[uid] for uid in sample.came if uid in placed} | sample.left.keys()
        known = ~snapshot.index.named({*since, *within})
        return cls(goal, now, before, known)

    @property
    def uneven(self) -> Iterator[int]:
        """The positions of nodes from which a move could gain enough, the most uneven first."""
        for position in self.now.most_uneven_first:
            if 100.0 - self.now.own[position] < self.goal.min_gain:
                return
            if self.known[position]:
                yield position

    def gains(self, pod: Pod, source: int) -> Floats:
        """N, what the pod gains by going to each node, now; 0 where it is not to go."""
        name = self.now.nodes.names[source]
        if not all(loads.sample.placed.get(pod.uid) == name for loads in (self.now, self.before)):
            return np.zeros(len(self.known))
        gains = self.now.gains(pod, source)
        if gains.max() < self.goal.min_gain:
            return np.zeros(len(self.known))
        enough = np.minimum(gains, self.before.gains(pod, source)) >= self.goal.min_gain
        return np.where(enough & self.known & (self._together(pod, source) > _LEAST), gains, 0.0)

    def _together(self, pod: Pod, source: int) -> Floats:
        """N, by how much more each node and the source score without and with the pod."""
        now, own = self.now, self.now.own
        left = np.maximum(now.used[source] - now.expected(pod), 0.0) / now.sizes[source]
        lost = own[source] - evenness(left)
        return np.asarray(now.gains(pod, source) + own[source] - own - lost)


@attrs.frozen(eq=False)
class _Balancing:
    beside: Beside
    samples: Samples
    fragmentation: Fragmentation

    def moves(self, pods: list[Pod], source: int, tier: Tier) -> Iterator[Move]:
        """From a node, the one of greatest gain first; of equal ones in the order of the pods."""
        nodes = self.beside.snapshot.index
        inside = nodes.at(nodes.of_tier(tier))
        found = [
            (-gain, number, target)
            for number, pod in enumerate(pods)
            for target, gain in _positive(self.samples.gains(pod, source) * inside)
        ]
        here = float(self.samples.now.own[source])
        open_to: dict[int, set[NodeName]] = {}
        for loss, number, target in sorted(found):
            pod, name = pods[number], nodes.names[target]
            if number not in open_to:
                open_to[number] = {node.name for node in self.beside.open_to(pod)}
            scores = here, here - loss
            move = Move(pod, nodes.names[source], name, WITHIN[tier], load_scores=scores)
            if name in open_to[number] and self._harmless(move) and self.beside.kept(move):
                yield move

    def _harmless(self, move: Move) -> bool:
        """Whether it puts no replicas together, nor makes others move to tidy the edge up."""
        snapshot, source, target = self.beside.snapshot, move.source, move.target
        if source is None:
            return False
        workload, requests = move.pod.workload, move.pod.requests
        spread = ReplicaSpread.of(snapshot, {workload})
        spread.put(workload, source, -1)
        if spread.company(workload, target) > spread.company(workload, source):
            return False
        if not self.beside.limits.defragment or move.kind is not MoveKind.EDGE_TO_EDGE:
            return True
        nodes = [snapshot.nodes[name] for name in (source, target)]
        free = {node.name: snapshot.free[node.name] for node in nodes}
        before = self.fragmentation.of(nodes, free)
        free[source] += requests
        free[target] -= requests
        return self.fragmentation.of(nodes, free) <= before


def _positive(gains: Floats) -> Iterator[tuple[int, float]]:
    for position in gains.nonzero()[0].tolist():
        yield position, float(gains[position])
