import random

import pytest

from kubedsm.model.model import Resources, Tier
from kubedsm.objective.fragmentation import (
    SCALE,
    Fragmentation,
    Measure,
    axes_of,
    request_mix,
    rows,
)
from support import drawing
from support.literal_match import literal_fragmentation
from support.placement_instances import GPU, drawn, node, pod, resources, snapshot

ONE_GIB_A_CORE = ((resources(1, 1), 1),)


def cost(measure, mix, at, free):
    return Fragmentation(measure, mix).of([at], {at.name: free})


def test_unusable_is_what_no_more_pod_fits_into():
    at = node("n", Tier.EDGE, cpu=4, memory=8)
    # Four pods fit; half the memory is left, and no cpu: (0 + 4/8) / 2.
    assert cost(Measure.UNUSABLE, ONE_GIB_A_CORE, at, at.allocatable) == SCALE // 4
    # 1.5 cores and 8 GiB: one fits; (0.5/4 + 7/8) / 2.
    assert cost(Measure.UNUSABLE, ONE_GIB_A_CORE, at, resources(1.5, 8, 9)) == SCALE // 2


def test_no_workload_and_no_node():
    at = node("n", Tier.EDGE)
    assert cost(Measure.UNUSABLE, (), at, at.allocatable) == 0
    assert Fragmentation(Measure.UNUSABLE, ONE_GIB_A_CORE).of([], {}) == 0


def test_product():
    at = node("n", Tier.EDGE, cpu=4, memory=8)
    assert cost(Measure.PRODUCT, (), at, at.allocatable) == round(SCALE * 0.9)
    assert cost(Measure.PRODUCT, (), at, resources(2, 4, 9)) == 3 * SCALE // 4
    assert cost(Measure.PRODUCT, (), at, resources(0, 0)) == 0
    assert cost(Measure.PRODUCT, (), at, resources(4, 0)) == SCALE
    assert cost(Measure.PRODUCT, (), at, resources(-4, 4, 9)) == SCALE // 2


@pytest.mark.parametrize("measure", list(Measure))
def test_many_nodes_at_once_cost_what_each_costs_literally(measure):
    rng = random.Random(5)
    for seed in drawing.drawn(range(60)):
        instance = drawn(seed)
        nodes = list(instance.snapshot.nodes.values())
        if not nodes:
            continue
        fragmentation = Fragmentation(measure, request_mix(instance.snapshot))
        axes = axes_of(vector for vector, _ in fragmentation.mix)
        chosen = [rng.choice(nodes) for _ in range(20)]
        free = [
            Resources.of(
                {n: rng.randint(-a // 8, a) if a else 0 for n, a in at.allocatable.items()}
            )
            for at in chosen
        ]
        costs = fragmentation.costs(
            axes,
            rows([at.allocatable for at in chosen], axes),
            rows(free, axes),
        )
        wanted = [
            literal_fragmentation(fragmentation, at, amounts)
            for at, amounts in zip(chosen, free, strict=True)
        ]
        assert costs.tolist() == wanted


def test_the_mix_counts_opted_in_pods_by_what_they_request():
    small, large = resources(1, 1), resources(2, 1, gpu=1)
    pods = [
        pod("a-1", "a", large, on="n"),
        pod("a-2", "a", small),
        pod("b-1", "b", small),
    ]
    shot = snapshot([node("n", Tier.EDGE, gpu=1)], pods)
    assert request_mix(shot) == ((small, 2), (large, 1))
    assert axes_of(vector for vector, _ in request_mix(shot))[3:] == (GPU,)
