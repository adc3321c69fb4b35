"""How many services one node's death would take whole, on timelines made by hand."""

import random

import pytest

from kubedsm.model.model import Tier
from kubedsm_lab.replay.measures import NodeRisk
from kubedsm_lab.replay.timeline import Life, Timeline
from support.placement_instances import node, pod, resources

E1, E2, C1 = (
    node(name, tier, 4, 8)
    for name, tier in (("e1", Tier.EDGE), ("e2", Tier.EDGE), ("c1", Tier.CLOUD))
)


def life(service, where, since=0.0, until=10.0, *, bound=None, gone=None):
    """Ready from one moment to the other, on its node from before until it is gone."""
    bound = since if bound is None else bound
    return Life(service, bound, bound, where.tier, ((since, until),), gone, where.name)


def found(*lives, nodes=(E1, E2, C1), cpu=1, end=10.0):
    services = sorted({one.service for one in lives})
    samples = {name: pod(f"{name}-0", name, resources(cpu)) for name in services}
    timeline = Timeline(end, tuple(lives), dict.fromkeys(services, ((0.0, 1),)))
    return NodeRisk.of(timeline, nodes, samples)


def test_it_is_avoidable_where_another_node_of_the_tier_takes_one():
    two = [life("a", E1), life("a", E1)]
    assert found(*two, nodes=(E1, C1)) == NodeRisk(1.0, 0.0)
    small = node("e2", Tier.EDGE, 0.5, 8)
    assert found(*two, nodes=(E1, small, C1)) == NodeRisk(1.0, 0.0)
    cordoned = node("e2", Tier.EDGE, 4, 8, unschedulable=True)
    assert found(*two, nodes=(E1, cordoned, C1)) == NodeRisk(1.0, 0.0)
    assert found(life("a", C1), life("a", C1)) == NodeRisk(1.0, 0.0)


def test_it_is_what_looking_at_each_second_comes_to():
    rng = random.Random(1)
    nodes = (node("e1", Tier.EDGE, 2), node("e2", Tier.EDGE, 3), node("c1", Tier.CLOUD, 4))
    for _ in range(100):
        lives = []
        for _ in range(rng.randint(0, 8)):
            bound, since, until, gone = sorted(rng.choices(range(-3, 12), k=4))
            lives.append(
                life(rng.choice("ab"), rng.choice(nodes), since, until, bound=bound, gone=gone)
            )
        at_risk = avoidable = 0
        for second in range(10):
            held = [one for one in lives if one.bound <= second < one.gone]
            for service in "ab":
                where = [
                    one.node
                    for one in lives
                    if one.service == service and one.served[0][0] <= second < one.served[0][1]
                ]
                if len(where) < 2 or len(set(where)) > 1:
                    continue
                at_risk += 1
                avoidable += any(
                    other.tier is next(n.tier for n in nodes if n.name == where[0])
                    and other.name != where[0]
                    and sum(one.node == other.name for one in held) * 1000 + 1000
                    <= other.allocatable.cpu
                    for other in nodes
                )
        expected = NodeRisk(pytest.approx(at_risk / 10), pytest.approx(avoidable / 10))
        assert found(*lives, nodes=nodes) == expected
