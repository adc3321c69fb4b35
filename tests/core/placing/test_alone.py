"""A pod alone goes where the tables would have it, and that is worth as much."""

from collections import Counter

import pytest

from kubedsm.core.goals.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.core.goals.objective import Objective, Promise
from kubedsm.core.packing.match import Bounds
from kubedsm.core.packing.problem import Packing, kinds
from kubedsm.core.placing.alone import place_alone
from kubedsm.core.placing.decision import make_decision
from kubedsm.core.world.model import Share, Tier
from support.placement_instances import drawn

#: with a promise of nothing no pod gains by the edge: fragmentation decides
INDIFFERENT = Objective(beta=0.0)
OBJECTIVES = [(Objective(), None), (Objective(kind="ecmus"), None), (INDIFFERENT, Promise(qos=0.0))]


@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize(("objective", "promise"), OBJECTIVES)
def test_a_pod_alone_goes_where_the_tables_would_have_it(objective, promise, measure):
    ends = Counter()
    for seed in range(400):
        case = drawn(seed)
        shot, promises = case.snapshot, (lambda _: promise) if promise else case.promises
        edge, cloud = shot.of_tier(Tier.EDGE), shot.of_tier(Tier.CLOUD)
        fragmentation = Fragmentation(measure, request_mix(shot))
        measured = [vector for vector, _ in fragmentation.mix]
        for pod in case.batch:
            [kind] = kinds([pod], [*edge, *cloud], shot.free)
            tabulated = make_decision(
                Packing.of([kind], edge, shot.free, measured),
                Packing.of([kind], cloud, shot.free),
                shot.shares(),
                promises,
                objective,
                fragmentation,
                Bounds(),
            )
            share = shot.shares().get(pod.workload, Share())
            gain = objective.gain(share, promises(pod.workload))
            alone = place_alone(pod, edge, cloud, shot.free, gain, fragmentation)
            for side in ("edge", "cloud", "fragmentation", "proven"):
                assert getattr(alone, side) == getattr(tabulated, side), (seed, pod.name, side)
            ends["edge" if alone.edge else "cloud" if alone.cloud else "nowhere"] += 1
    assert min(ends[end] for end in ("edge", "cloud", "nowhere")) > 20
