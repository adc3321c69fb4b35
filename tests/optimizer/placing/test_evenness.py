"""Of placements that are worth the same, the one with the least spread of shares."""

import numpy as np
import pytest

from kubedsm.model.model import SchedulingRules, Taint, Tier, Toleration
from kubedsm.objective.objective import Objective, Prospect, QosTarget, scores_and_unevenness
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support.placement_instances import node, pod, resources, snapshot


def even_scores(objective, prospects):
    """Return the scores by number of edge pods, less their unevenness."""
    both = zip(*scores_and_unevenness(objective, prospects), strict=True)
    return [scores - uneven for scores, uneven in both]


SHARE = Objective()
ROUGH = Bounds(states=2)
ALL = QosTarget()


def pods_of(service, number, cpu=1.0, **more):
    return [pod(f"{service}-{i:03}", service, resources(cpu, 0.1), **more) for i in range(number)]


def on_edge(cores, pods, targets=(), *, nodes=2, objective=SHARE, bounds=None):
    """How many of each service go to that many edge nodes of so many cores; the cloud has room."""
    edge = [node(f"edge-{i}", Tier.EDGE, cores, 64, 1000) for i in range(nodes)]
    shot = snapshot([*edge, node("cloud", Tier.CLOUD, 640, 640, 1000)], pods)
    batch = [p for p in pods if p.node_name is None]
    qos_targets = dict(targets)
    decision = immediate_schedule(
        shot, batch, lambda w: qos_targets.get(w.name, ALL), objective, bounds=bounds
    )
    assert decision.proof.qos or bounds is not None
    found = {w.name: share.edge for w, share in decision.shares_after.items()}
    return [found[name] for name in sorted(found)]


@pytest.mark.parametrize(
    ("objective", "bounds"),
    [
        (SHARE, None),
        (SHARE, ROUGH),
        (Objective(evenness=0.65), None),
        (Objective(evenness=0.65), ROUGH),
        (Objective("ecmus"), None),
    ],
)
def test_twins_get_the_same(objective, bounds):
    twins = pods_of("x", 24, 0.25) + pods_of("y", 24, 0.25)
    assert on_edge(3, twins, objective=objective, bounds=bounds) == [12, 12]


@pytest.mark.parametrize("number", [3, 7, 9, 97])
def test_thirds_are_as_good_as_a_whole(number):
    """Rounded to thousand-millionths they are not: 3 * .333333333 < 1."""
    three = [p for service in "xyz" for p in pods_of(service, number)]
    found = on_edge(number, three, nodes=1)
    assert sum(found) == number
    assert max(found) - min(found) <= 1


def test_what_adds_no_qos_is_neither_sought_nor_shunned():
    prospect = Prospect(np.arange(5), 4, QosTarget(0.5))
    for objective, gains in ((Objective("latency"), 2), (Objective(beta=0), 2), (SHARE, 4)):
        [scores] = even_scores(objective, [prospect])
        assert (np.diff(scores)[:gains] > 0).all()
        assert (np.diff(scores)[gains:] == 0).all()


def test_shares_come_before_what_pods_like():
    # Pods of y do not mind the taint, and there alone all are as they like it.
    tolerant = SchedulingRules(tolerations=(Toleration("old", "Exists"),))
    pods = pods_of("x", 4) + pods_of("y", 4, rules=tolerant)
    edge = node("edge", Tier.EDGE, 4, 64, taints=[Taint("old", "", "PreferNoSchedule")])
    shot = snapshot([edge, node("cloud", Tier.CLOUD, 64, 64)], pods)
    decision = immediate_schedule(shot, pods, lambda _: ALL, SHARE)
    assert [share.edge for share in decision.shares_after.values()] == [2, 2]
    assert decision.proof.whole
    assert not decision.plain
