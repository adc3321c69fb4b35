from collections import Counter
from itertools import combinations

import attrs
import numpy as np
import pytest

from kubedsm.model.model import Resources, Share, Tier
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import quality
from kubedsm.optimizer.matching.best_fit import pod_size
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.moving.paper import (
    cloud_to_edge_candidates,
    free_edge_as_needed,
    make_decision,
    reorder_edge,
)
from kubedsm.optimizer.moving.suggest import suggest
from support import drawing
from support.literal_moves import LiteralMoves, no_gain, rank_of
from support.placement_literal import literal_fragmentation, literal_match
from support.suggest_instances import crowded_case, drawn_case, problem_of


class LiteralPaper:
    """Algorithms 2, 3, 5 and 6 of the paper in literal form.

    Subsets are enumerated, and candidates sorted again in each step. The cloud is unlimited, as in
    the paper.
    """

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


def item_counts(problem, pods):
    """Return the number of given pods in each item of the problem."""
    counts = np.zeros(len(problem.items), dtype=np.int64)
    for at, item in enumerate(problem.items):
        everybody = [*item.outside, *item.waiting, *(p for ps in item.here.values() for p in ps)]
        counts[at] = sum(pod in everybody for pod in pods)
    return counts


@pytest.mark.parametrize(
    ("draw", "seeds", "measure"),
    [
        (drawn_case, range(200), Measure.UNUSABLE),
        (drawn_case, range(200, 320), Measure.PRODUCT),
        (crowded_case, range(90), Measure.UNUSABLE),
        (crowded_case, range(90, 150), Measure.PRODUCT),
    ],
)
def test_exact_equals_trying_every_choice_of_moves(draw, seeds, measure, monkeypatch):
    # Without the migration that comes next to those that gain.
    monkeypatch.setattr("kubedsm.optimizer.moving.suggest.list_spreading", lambda *_: ())
    seen, unproven = Counter(), 0
    seeds = drawing.drawn_cases(seeds)
    for seed in seeds:
        case = draw(seed)
        case = attrs.evolve(case, limits=attrs.evolve(case.limits, spread=seed % 2 == 0))
        best = LiteralMoves(case, measure).best()
        found = suggest(
            case.snapshot, case.qos_targets, case.objective, case.limits, measure=measure
        )
        rank = rank_of(case, found)
        assert sum(rank[0]) == found.after.qos, seed
        if no_gain(case, best):
            assert not found.moves
        else:
            assert rank == best, seed
            seen["moved"] += 1
        # Only a cycle that cannot be broken, or at too many legs, makes it uncertain.
        assert -rank[1] <= case.limits.max_moves, seed
        unproven += not found.proven
        for move in found.moves:
            seen[move.kind.value] += 1
        seen["several"] += len(found.moves) > 1
        seen["needs"] += any(leg.needs for leg in found.legs)
        seen["awaited"] += bool(found.awaited)
        seen["stopovers"] += any(move.stopover for move in found.moves)
    assert unproven <= len(seeds) / 10
    assert seen["moved"] >= len(seeds) / 8, seen
    assert seen["cloud-to-edge"] >= 3, seen
    assert seen["edge-to-cloud"], seen
    if draw is crowded_case:
        assert seen["edge-to-edge"], seen
        assert seen["needs"] >= 3, seen


def test_exact_equals_it_with_room_kept_free():
    kept = 0
    for seed in drawing.drawn(range(60)):
        case = crowded_case(seed, roomy=True)
        limits = attrs.evolve(case.limits, headroom=0.25)
        held = attrs.evolve(case, limits=limits)
        best = LiteralMoves(held).best()
        found = suggest(case.snapshot, case.qos_targets, case.objective, limits)
        if no_gain(held, best):
            assert not found.moves, seed
        else:
            assert rank_of(held, found) == best, seed
        kept += best[0] < LiteralMoves(case).best()[0]
    assert kept


@pytest.mark.parametrize("measure", list(Measure))
def test_the_papers_form_equals_its_literal_form(measure):
    seen = Counter()
    for seed in drawing.drawn(range(160), one_in=6):
        case = crowded_case(seed + 1000 * (measure is Measure.PRODUCT), roomy=True)
        literal = LiteralPaper(case, measure)
        problem = problem_of(case, measure)
        most, reorders = case.limits.max_cloud_to_edge, case.limits.max_edge_reorder
        picked = item_counts(problem, literal.candidates(most))
        assert (cloud_to_edge_candidates(problem) == picked).all(), seed

        # More candidates than fit: Algorithm 2 would not pick them, but 3 and 5 must cope.
        candidates = literal.pods(Tier.CLOUD)[:5]
        expected, freed = literal.decide(candidates)
        freeing = free_edge_as_needed(problem)
        counts = item_counts(problem, candidates)
        chosen, departures = make_decision(problem, counts, freeing)
        before = quality(case.snapshot.census.shares, case.qos_targets, case.objective)
        workloads = [item.workload for item in problem.items]
        differences = (chosen - freeing.counts[departures])[None]
        gain = int(problem.gains.of_vectors(workloads, differences).sum())
        rank = before + gain, -int(chosen.sum()) - departures
        assert rank == expected, seed

        changes = np.zeros_like(problem.present)
        index = {node.name: at for at, node in enumerate(problem.nodes)}
        for item, name in freeing.departures[:departures]:
            changes[index[name], item] -= 1
        assert (item_counts(problem, freed) == -changes.sum(axis=0)).all(), seed
        free, present = problem.free - changes @ problem.requests, problem.present + changes
        reordered = reorder_edge(problem, free, present, reorders)
        room = free - reordered @ problem.requests
        cost = int(problem.costs(np.arange(len(problem.nodes)), room).sum())
        number = int(np.maximum(reordered, 0).sum())
        assert (cost, number) == literal.reorder(freed, reorders), seed
        assert not reordered.sum(axis=0).any()
        seen["chosen"] += bool(chosen.any())
        seen["freed"] += departures > 0
        seen["reordered"] += number > 0
        seen["several reordered"] += number > 1
    assert len(seen) == 4
    assert min(seen.values()) >= 1, seen
