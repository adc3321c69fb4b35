import random

import pytest

from kubedsm.model.model import Resources, Tier
from kubedsm.objective.fragmentation import Fragmentation, Measure, axes_of, request_mix, rows
from support import drawing
from support.placement_instances import GPU, drawn, node, pod, resources, snapshot
from support.placement_literal import literal_fragmentation


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
