"""A pod alone goes where the tables would have it, and that is worth as much."""

import itertools
from collections import Counter

import attrs
import pytest

from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.matching.problem import group_kinds, is_plain
from kubedsm.optimizer.placing.batch import rejection_elsewhere
from kubedsm.plugins.feasibility import Feasibility
from support import drawing
from support.placement_instances import batch_of, drawn
from support.rule_instances import drawn as drawn_with_rules

#: with a promise of nothing no pod gains by the edge: fragmentation decides
INDIFFERENT = Objective(beta=0.0)
OBJECTIVES = [
    (Objective(), None),
    (Objective("ecmus"), None),
    (Objective(evenness=0.65), None),
    (INDIFFERENT, QosTarget(qos=0.0)),
]


#: each on instances of its own
WAYS = list(enumerate(itertools.product(OBJECTIVES, Measure, [True, False])))


@pytest.mark.parametrize(("number", "way"), WAYS)
def test_a_pod_alone_goes_where_the_tables_would_have_it(number, way):
    (objective, qos_target), measure, spreading = way
    ends = Counter()
    for seed in drawing.drawn(range(100 * number, 100 * (number + 1)), one_in=6):
        case = drawn(seed)
        shot, qos_targets = (
            case.snapshot,
            (lambda _: qos_target) if qos_target else case.qos_targets,
        )
        for pod in case.batch:
            batch = attrs.evolve(
                batch_of(shot, [pod], qos_targets),
                objective=objective,
                fragmentation=Fragmentation(measure, request_mix(shot)),
                spread=ReplicaSpread.of(shot) if spreading else None,
            )
            tabulated = batch.choice(group_kinds([pod], batch.edge + batch.cloud))
            alone = batch.alone(pod)
            for side in ("targets", "proof"):
                assert getattr(alone, side) == getattr(tabulated, side), (seed, pod.name, side)
            tiers = [binding.tier for binding in batch.bindings(alone)]
            ends[tiers[0].value if tiers else "nowhere"] += 1
    assert all(ends[end] for end in ("edge", "cloud", "nowhere"))


def test_what_another_node_says_of_a_pod_is_what_all_the_rules_say():
    at_once = 0
    for seed in drawing.drawn(range(300)):
        for shot in (drawn(seed).snapshot, drawn_with_rules(seed)[0]):
            everything = Feasibility.of(shot)
            for pod in shot.pods.values():
                source = shot.placed.get(pod.uid)
                if source not in shot.nodes or pod.finished or pod.gated:
                    continue
                without = everything.without_pod(pod.uid)
                at_once += is_plain(shot, [pod])
                for name, node in shot.nodes.items():
                    if name != source:
                        found = rejection_elsewhere(shot, pod, node)
                        assert found == without.rejection(pod, name), (seed, pod.name, name)
    assert at_once > 100
