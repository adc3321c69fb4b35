"""The best mean share beside plain enumeration."""

import itertools
import random

import pytest

from kubedsm.model.model import Resources, Tier
from kubedsm.optimizer.matching.match import Bounds
from kubedsm_lab.replay.optimum import Optimum
from support.drawing import drawn_cases
from support.policy_clusters import MI, node, pod


def enumerated(nodes, samples, counts):
    """Try every number of pods of each service on each node."""
    names = sorted(counts)

    def fits(load, room):
        used = Resources()
        for name, number in zip(names, load, strict=True):
            for _ in range(number):
                used += samples[name].requests
        return used.cpu <= room.cpu and used.memory <= room.memory

    reached = {(0,) * len(names)}
    limits = tuple(counts[name] for name in names)
    for one in nodes:
        loads = [
            load
            for load in itertools.product(*(range(limit + 1) for limit in limits))
            if fits(load, one.allocatable)
        ]
        sums = {
            tuple(map(sum, zip(before, load, strict=True))) for before in reached for load in loads
        }
        reached = {s for s in sums if all(n <= most for n, most in zip(s, limits, strict=True))}
    return max(
        sum(number / counts[name] for name, number in zip(names, vector, strict=True)) / len(names)
        for vector in reached
    )


def test_without_an_edge_there_is_nothing_to_reach():
    assert Optimum.of([], {"a": pod("a")}, {"a": 3}).share({"a": 3}) == 0.0


def test_beyond_the_bounds_there_is_no_answer():
    nodes = [node("e1", Tier.EDGE, 3, 8000 * MI)]
    assert Optimum.of(nodes, {"a": pod("a")}, {"a": 3}, Bounds(states=2)) is None


@pytest.mark.parametrize("seed", drawn_cases(range(40)))
def test_random_instances(seed):
    rng = random.Random(seed)
    nodes = [
        node(f"e{n}", Tier.EDGE, rng.randint(1, 4), rng.randint(500, 4000) * MI)
        for n in range(rng.randint(1, 3))
    ]
    kinds = [(rng.choice((1, 2)), rng.choice((500, 1000, 1500)) * MI) for _ in range(2)]
    samples = {
        name: pod(name, cores=cores, memory=memory, service=name)
        for name in "abc"[: rng.randint(1, 3)]
        for cores, memory in [rng.choice(kinds)]
    }
    most = {name: rng.randint(1, 4) for name in samples}
    optimum = Optimum.of(nodes, samples, most)
    for _ in range(3):
        counts = {name: rng.randint(1, limit) for name, limit in most.items()}
        assert optimum.share(counts) == pytest.approx(enumerated(nodes, samples, counts))
