from collections import Counter

import attrs
import numpy as np
import pytest

from kubedsm.model.model import Tier
from kubedsm.objective.fragmentation import Measure
from kubedsm.objective.objective import quality
from kubedsm.optimizer.moving.paper import (
    cloud_to_edge_candidates,
    free_edge_as_needed,
    make_decision,
    reorder_edge,
)
from kubedsm.optimizer.moving.suggest import suggest
from support import drawing
from support.literal_moves import LiteralMoves, no_gain, rank_of
from support.literal_paper import LiteralPaper
from support.suggest_instances import crowded_case, drawn_case, problem_of


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
        decision = make_decision(problem, counts, freeing)
        before = quality(case.snapshot.census.shares, case.qos_targets, case.objective)
        rank = before + decision.gain, -int(decision.chosen.sum()) - decision.freed
        assert rank == expected, seed

        changes = np.zeros_like(problem.present)
        index = {node.name: at for at, node in enumerate(problem.nodes)}
        for item, name in freeing.departures[: decision.freed]:
            changes[index[name], item] -= 1
        assert (item_counts(problem, freed) == -changes.sum(axis=0)).all(), seed
        free, present = problem.free - changes @ problem.requests, problem.present + changes
        reordered = reorder_edge(problem, free, present, reorders)
        room = free - reordered @ problem.requests
        cost = int(problem.costs(np.arange(len(problem.nodes)), room).sum())
        number = int(np.maximum(reordered, 0).sum())
        assert (cost, number) == literal.reorder(freed, reorders), seed
        assert not reordered.sum(axis=0).any()
        seen["chosen"] += bool(decision.chosen.any())
        seen["freed"] += decision.freed > 0
        seen["reordered"] += number > 0
        seen["several reordered"] += number > 1
    assert len(seen) == 4
    assert min(seen.values()) >= 1, seen
