import itertools
import random

import numpy as np
import pytest

from kubedsm.optimizer.matching import node_walk
from kubedsm.optimizer.matching.match import UNREACHABLE, Bounds
from kubedsm.optimizer.matching.node_walk import Options, walk_nodes
from support import drawing

STATES = np.array(list(itertools.product(range(-2, 3), repeat=2)), dtype=np.int64)


def drawn(rng, nodes):
    found = []
    for _ in range(nodes):
        number = rng.randint(0, 5)
        vectors = [[rng.randint(-3, 3), rng.randint(-3, 3)] for _ in range(number)]
        costs = [rng.randint(-3, 9) for _ in range(number)]
        found.append(
            Options(
                np.array(vectors, dtype=np.int64).reshape(-1, 2), np.array(costs, dtype=np.int64)
            )
        )
    return found


def every_way(options, ceiling):
    """The least cost of every state, one way after the other."""
    listed = {tuple(state) for state in STATES.tolist()}
    reached = {(0, 0): 0}
    for option in options:
        following = dict(reached)
        for (x, y), cost in reached.items():
            pairs = zip(option.vectors.tolist(), option.costs.tolist(), strict=True)
            for (dx, dy), more in pairs:
                at, total = (x + dx, y + dy), cost + more
                if at in listed and total <= ceiling and total < following.get(at, UNREACHABLE):
                    following[at] = total
        reached = following
    return [reached.get(tuple(state), UNREACHABLE) for state in STATES.tolist()]


@pytest.mark.parametrize("table", [2**22, 0])
def test_finds_the_cheapest_way_to_every_state(table, monkeypatch):
    monkeypatch.setattr(node_walk, "_TABLE", table)
    for seed in drawing.drawn(range(60)):
        rng = random.Random(seed)
        options, ceiling = drawn(rng, rng.randint(0, 4)), rng.choice((5, 12))
        ceilings = np.full(len(STATES), ceiling)
        found = walk_nodes(STATES, ceilings, options, Bounds(steps=10**6))
        assert found.costs.tolist() == every_way(options, ceiling)
        for state, cost in enumerate(found.costs.tolist()):
            if cost < UNREACHABLE:
                check_choices(found, options, state, cost)


def check_choices(found, options, state, cost):
    total, spent = np.zeros(2, dtype=np.int64), 0
    for option, choice in zip(options, found.choices(state), strict=True):
        if choice is not None:
            total = total + choice
            spent += min(
                c for v, c in zip(option.vectors, option.costs, strict=True) if (v == choice).all()
            )
    assert (total == STATES[state]).all()
    assert spent == cost


def test_gives_up_beyond_the_steps():
    options = [Options(np.array([[1, 0]]), np.array([1]))] * 3
    ceilings = np.full(len(STATES), 99)
    assert walk_nodes(STATES, ceilings, options, Bounds(steps=2)) is None
    assert walk_nodes(STATES, ceilings, options, Bounds(steps=100)) is not None


def test_gives_up_when_vectors_have_no_code():
    states = np.array([[0] * 8, [2**9] * 8], dtype=np.int64)
    assert walk_nodes(states, np.full(2, 99), [], Bounds(steps=100)) is None
