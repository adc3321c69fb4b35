"""Algorithms 2, 3, 5 and 6 of the paper in literal form: oracle of `core.moving.paper`.

Subsets are enumerated, and candidates sorted again in each step. The cloud is unlimited, as in the
paper.
"""

from itertools import combinations

from kubedsm.model.model import Resources, Share, Tier
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.objective import quality
from kubedsm.optimizer.matching.best_fit import pod_size
from kubedsm.optimizer.moving.movable import default_movable
from support.literal_match import literal_fragmentation, literal_match


class LiteralPaper:
    def __init__(self, case, measure):
        self.case, self.shot = case, case.snapshot
        self.fragmentation = Fragmentation(measure, request_mix(self.shot))
        self.edge = self.shot.of_tier(Tier.EDGE)
        self.shares, self.room = self.shot.census.shares, Resources()
        for node in self.edge:
            free = self.shot.free[node.name].items()
            self.room += Resources.of({name: max(0, amount) for name, amount in free})
        self.largest = Resources(
            cpu=max(node.allocatable.cpu for node in self.edge),
            memory=max(node.allocatable.memory for node in self.edge),
        )

    def pods(self, tier):
        """Return the movable pods of a tier."""
        names, movable = {n.name for n in self.shot.of_tier(tier)}, default_movable(self.shot)
        there = (p for p in self.shot.pods.values() if p.node_name in names and not movable(p))
        return sorted(there, key=_canonical_turn)

    def qos(self, shares):
        return quality(shares, self.case.qos_targets, self.case.objective)

    def best(self, pods, shares, change):
        """Return the pod with the greatest gain of QoS per size, and the gain, if its workload's
        edge pods change by `change`.
        """

        def gain(pod):
            gained = self.qos(_changed(shares, pod, change)) - self.qos(shares)
            return gained / pod_size(pod.requests, self.largest)

        best = min(pods, key=lambda pod: (-gain(pod), _canonical_turn(pod)))
        return best, gain(best)

    def candidates(self, most):
        """Algorithm 2: return cloud pods that fit into the edge's total free capacity."""
        shares, room, left, found = self.shares, self.room, self.pods(Tier.CLOUD), []
        while left and len(found) < most:
            pod, gain = self.best(left, shares, 1)
            left.remove(pod)
            if gain <= 0:
                break
            if _covers(room, pod.requests):
                found.append(pod)
                room -= pod.requests
                shares = _changed(shares, pod, 1)
        return found

    def free_edge(self, need):
        """Algorithm 5 (freeEdgeAsNeeded): return edge pods to evict for `need`, or None."""
        shares, room, left, freed = self.shares, self.room, self.pods(Tier.EDGE), []
        while not _covers(room, need):
            if not left:
                return None
            pod, _ = self.best(left, shares, -1)
            left.remove(pod)
            freed.append(pod)
            room += pod.requests
            shares = _changed(shares, pod, -1)
        return freed

    def reorder(self, freed, most):
        """Algorithm 6 (reorderEdge): move up to `most` edge pods that are not freed to reduce
        fragmentation; return the fragmentation of all edge nodes, and the number of moves.
        """
        free = self._without(freed, self.shot.free)
        costs = (literal_fragmentation(self.fragmentation, n, free[n.name]) for n in self.edge)
        best = sum(costs), 0
        staying = [pod for pod in self.pods(Tier.EDGE) if pod not in freed]
        for number in range(1, most + 1):
            for taken in combinations(staying, number):
                room = self._without(taken, free)
                found = literal_match(taken, self.edge, room, self.fragmentation).costs[-1]
                if found is not None and found < best[0]:
                    best = found, number
        return best

    def _without(self, pods, free):
        left = dict(free)
        for pod in pods:
            left[pod.node_name] += pod.requests
        return left

    def decide(self, candidates):
        """Algorithm 3 with migration: return the best decision over all subsets of the
        candidates: (QoS, less number of migrations), and the freed pods.
        """
        found = []
        for mask in range(1 << len(candidates)):
            chosen = [pod for at, pod in enumerate(candidates) if mask >> at & 1]
            freed = self.free_edge(sum((pod.requests for pod in chosen), Resources()))
            if freed is not None:
                after = self.shares
                for pod, change in (*((p, 1) for p in chosen), *((p, -1) for p in freed)):
                    after = _changed(after, pod, change)
                found.append(((self.qos(after), -len(chosen) - len(freed)), freed))
        return max(found, key=lambda each: each[0])


def _canonical_turn(pod):
    turn = pod.workload, pod.requests, pod.node_name or "", -pod.created
    return *turn, pod.namespace, pod.name


def _changed(shares, pod, change):
    share = shares[pod.workload]
    return {**shares, pod.workload: Share(share.edge + change, share.total)}


def _covers(room, need):
    return all(amount <= room.amount(name) for name, amount in need.items() if amount)
