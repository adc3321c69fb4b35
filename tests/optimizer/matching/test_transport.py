"""Places dealt out to groups: as far apart as any way of dealing would have them."""

import random
from itertools import permutations

import numpy as np
import pytest

from kubedsm.optimizer.placing.replica_spreading import Transport
from support import drawing


def drawn(seed, zones):
    rng = random.Random(seed)
    places = rng.randint(1, 4)
    slots = [rng.randint(1, 3) for _ in range(places)]
    while sum(slots) > 7:
        slots[slots.index(max(slots))] -= 1
    sizes = [0] * rng.randint(1, 3)
    for _ in range(sum(slots)):
        sizes[rng.randrange(len(sizes))] += 1
    crowds = [[rng.choice((0, 0, 1, 3)) for _ in range(places)] for _ in sizes]
    zone = [rng.randrange(zones) for _ in range(places)]
    indifferent = [rng.random() < 0.15 for _ in sizes]
    return sizes, slots, crowds, zone, indifferent


def literal_cost(shares, crowds, zone, indifferent):
    """Each that comes joins those there, and those in the zone."""
    total = 0
    for group, share in enumerate(shares):
        came = []
        if indifferent[group]:
            continue
        for place, number in enumerate(share):
            for _ in range(number):
                total += crowds[group][place] + came.count(place)
                total += sum(zone[place] == zone[other] for other in came)
                came.append(place)
    return total


def every_deal(sizes, slots):
    owners = [group for group, size in enumerate(sizes) for _ in range(size)]
    places = [place for place, number in enumerate(slots) for _ in range(number)]
    for order in set(permutations(owners)):
        shares = [[0] * len(slots) for _ in sizes]
        for group, place in zip(order, places, strict=True):
            shares[group][place] += 1
        yield shares


@pytest.mark.parametrize("zones", [1, 2])
def test_no_other_way_of_dealing_is_cheaper(zones):
    worse = 0
    for seed in drawing.drawn(range(150)):
        sizes, slots, crowds, zone, indifferent = drawn(seed, zones)
        transport = Transport(np.array(crowds), np.array(zone), np.array(indifferent))
        shares = transport.assign_places(np.array(sizes), np.array(slots))
        assert shares.sum(axis=0).tolist() == slots
        assert shares.sum(axis=1).tolist() == sizes
        cost = literal_cost(shares.tolist(), crowds, zone, indifferent)
        least = min(literal_cost(s, crowds, zone, indifferent) for s in every_deal(sizes, slots))
        assert cost == least or zones > 1, seed
        worse += cost > least
    assert worse <= 3
