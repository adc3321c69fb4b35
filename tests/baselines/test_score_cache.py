"""The rotating score cache, by itself, and beside its algorithm written down as it is published."""

import random
from collections import Counter

import pytest

from kubedsm_lab.baselines.score_cache import ScoreCache, Why
from support.drawing import drawn

REFRESHES = ("0", ".2", ".5", ".9")


def served(cache, key, ranked):
    """One pod: its node, and what became of the look for it."""
    node, why = cache.take(key, frozenset(ranked))
    if node is None:
        cache.seed(key, ranked)
        node = ranked[0]
    return node, why


class Literal:
    """The algorithm as published, and the least recently used entry the first to go."""

    def __init__(self, tau, most):
        self.tau, self.most, self.entries = tau, most, {}

    def serve(self, key, scored):
        names = sorted(scored)
        e = self.entries.pop(key, None)
        if e and (e["F"] != names or e["popped"] / e["N"] > self.tau or not e["L"]):
            e = None
        anew = e is None
        if anew:
            ranked = sorted(scored, key=lambda name: (-scored[name], name))
            e = {"F": names, "L": ranked, "N": len(ranked), "popped": 0}
        e["popped"] += 1
        self.entries[key] = e
        if len(self.entries) > self.most:
            del self.entries[next(iter(self.entries))]
        return e["L"].pop(0), anew


@pytest.mark.parametrize("refresh", REFRESHES)
def test_any_history_goes_as_published(refresh):
    looks, full = Counter(), 0
    for seed in drawn(range(100)):
        rng = random.Random(seed)
        most = rng.randint(1, 4)
        cache, literal = ScoreCache(float(refresh), most), Literal(float(refresh), most)
        nodes = {f"n{at}" for at in range(rng.randint(2, 8))}
        for _ in range(60):
            if rng.random() < 0.1:
                nodes ^= {f"n{rng.randrange(9)}"}
            if len(nodes) < 2:
                continue
            key, scored = rng.randrange(5), {name: rng.randrange(3) for name in sorted(nodes)}
            ranked = sorted(scored, key=lambda name: (-scored[name], name))
            node, why = served(cache, key, ranked)
            assert (node, why is not Why.HIT) == literal.serve(key, scored), seed
            assert node in nodes
            assert len(cache) <= most
            looks[why] += 1
            full += len(cache) == most
    assert full > 300
    assert looks[Why.COLD] > 30
    assert looks[Why.CHANGED] > 30
