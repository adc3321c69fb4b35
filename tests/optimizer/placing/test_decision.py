import random
from collections import Counter

import attrs
import pytest

from kubedsm.model.model import Tier
from kubedsm.model.node_index import NodeRows
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import PlacementProblem, group_kinds
from kubedsm.optimizer.placing.cloud import CloudRoom
from kubedsm.optimizer.placing.decision import make_decision
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support import drawing
from support.placement_instances import drawn, node, pod, resources, snapshot
from support.placement_literal import fragmentation_after, literal_decision, worth

#: as the paper has it: promises kept come first
DEFAULT = Objective(gamma=10)
OBJECTIVES = [
    DEFAULT,
    Objective(alpha=1, beta=0, gamma=10),
    Objective(),
    Objective(beta=0),
    Objective("latency"),
    Objective("ecmus"),
    Objective(evenness=0.65),
]


def decided(case, objective=DEFAULT, measure=Measure.UNUSABLE, *, spread=False):
    return immediate_schedule(
        case.snapshot, case.batch, case.qos_targets, objective, measure, default_spread=spread
    )


def rank(case, decision, objective=DEFAULT, measure=Measure.UNUSABLE):
    reached = worth(decision.shares_after, case.qos_targets, objective)
    fragmentation = fragmentation_after(case.snapshot, decision, measure)
    return len(decision.bindings), *reached, -fragmentation


@pytest.mark.parametrize("measure", list(Measure))
def test_equals_the_literal_form(measure):
    seen = Counter()
    for seed in drawing.drawn(range(1000, 1500), one_in=6):
        case, objective = drawn(seed, most=8), OBJECTIVES[seed % 7]
        if seed % 3 == 0:
            case = case.served_slowly(random.Random(seed))
        decision = decided(case, objective, measure)
        reached = rank(case, decision, objective, measure)
        assert reached == literal_decision(case, objective, measure), seed
        assert decision.proof.whole
        tiers = Counter(binding.tier for binding in decision.bindings)
        seen["both tiers"] += len(tiers) == 2
        seen["unplaced"] += bool(decision.unplaced)
        seen["unplaced, cloud used"] += bool(decision.unplaced) and tiers[Tier.CLOUD] > 0
        seen["all on the edge"] += 0 < tiers[Tier.EDGE] == len(case.batch)
        in_cloud = {b.pod.workload for b in decision.bindings if b.tier is Tier.CLOUD}
        seen["slower on the edge"] += bool(in_cloud & case.snapshot.measured.slower)
    assert min(seen.values()) >= 7, seen


def pods_of(service, number, cpu=1.0, memory=1.0):
    return [pod(f"{service}-{i}", service, resources(cpu, memory)) for i in range(number)]


def test_one_tier_too_large_to_tabulate_leaves_the_other_exact():
    # The cloud, too small for 24 pods of 8 kinds, takes too many vectors of them; the edge few.
    pods = [p for i in range(8) for p in pods_of(f"s{i}", 3, 1 + i / 10)]
    nodes = [node("edge", Tier.EDGE, 2, 64), node("cloud", Tier.CLOUD, 30, 64)]
    shot = snapshot(nodes, pods)
    rows = NodeRows.of(nodes, shot.free)
    batch = group_kinds(pods, rows)
    measured = Fragmentation(Measure.UNUSABLE, request_mix(shot))
    edge = PlacementProblem.of(batch, attrs.evolve(rows, positions=rows.positions[:1]))
    cloud = PlacementProblem.of(batch, attrs.evolve(rows, positions=rows.positions[1:]))
    bounds = Bounds(loads=500)
    room = CloudRoom.of(cloud, bounds)
    choice = make_decision(
        edge, room, shot.census.shares, lambda _: QosTarget(), DEFAULT, measured, bounds
    )
    assert not choice.proven
    assert sum(name == "edge" for _, name in choice.targets) == 2
    assert len(choice.targets) >= 22
