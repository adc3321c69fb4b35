"""Colours of workloads and policies stand out from what they are on, and from each other."""

import re
from itertools import combinations
from math import dist

import pytest

from kubedsm.dashboard.server.app import read_static_files
from kubedsm_lab.replay.plots import COLOURS

#: what eyes see that lack red, green or blue, in linear light (Machado and others, 2009)
EYES = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "no green": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "no blue": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}
#: least distance in Oklab; about three times what is seen side by side
APART = 0.06


def linear(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def contrast(one, other):
    low, high = sorted(times([(0.2126, 0.7152, 0.0722)], linear(each))[0] for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def oklab(light):
    cones = times(
        ((0.4122, 0.5363, 0.0514), (0.2119, 0.6807, 0.1074), (0.0883, 0.2817, 0.6300)), light
    )
    return times(
        ((0.2105, 0.7936, -0.0041), (1.9780, -2.4286, 0.4506), (0.0259, 0.7828, -0.8087)),
        [cone ** (1 / 3) for cone in cones],
    )


@pytest.mark.parametrize("dark", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_what_they_are_on(dark):
    css = read_static_files()["page.css"].decode()
    for name in ("ground", "raised"):
        below = re.findall(rf"--{name}: (#\w+);", css)[dark]
        assert [each[dark] for each in COLOURS if contrast(each[dark], below) < 3] == []


@pytest.mark.parametrize("dark", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("eyes", EYES)
def test_colours_are_told_apart_by_all_eyes(eyes, dark):
    seen = {
        each[dark]: oklab([min(1, max(0, p)) for p in times(EYES[eyes], linear(each[dark]))])
        for each in COLOURS
    }
    alike = [pair for pair in combinations(seen, 2) if dist(*(seen[each] for each in pair)) < APART]
    assert alike == []
