"""The load score by hand, on three nodes of four resources."""

from statistics import pstdev

import attrs
import numpy as np
import pytest

from kubedsm.model.measured import Measured, Usage
from kubedsm.model.model import Tier, Workload
from kubedsm.objective.load import Capacity, LoadGoal, Loads, evenness
from support.placement_instances import node, pod, resources, snapshot

GIB = 2**30
ALL = np.arange(3)
WEB, DB = (Workload("shop", "Deployment", name) for name in ("web", "db"))
GOAL = LoadGoal(
    high_usage=0.9,
    capacity=(Capacity({"disk": "ssd"}, disk=400.0), Capacity(net=100.0, disk=200.0)),
)
#: of 2 cores and 8 GiB, 100 bytes/s of network, 200 of disk, or 400 on n2
NODES = [node(f"n{i}", Tier.EDGE, 2, 8, labels={"disk": "ssd"} if i == 2 else {}) for i in range(3)]
SAMPLE = Measured(
    60.0,
    {
        "n0": Usage(1000.0, 4.0 * GIB, 50.0, 100.0),
        "n1": Usage(200.0, 4.0 * GIB, 30.0, 60.0),
        "n2": Usage(400.0, 0.8 * GIB, 10.0, 240.0),
    },
    {WEB: Usage(400.0, 0.8 * GIB, 10.0, 0.0)},
)
NEW = pod("web-new", "web", resources(1, 1))


def shot(*pods, sample=SAMPLE):
    """Those that are on a node came after the sample."""
    return attrs.evolve(snapshot(NODES, pods), measured=sample)


def test_the_score_of_three_nodes_by_hand():
    loads = Loads.of(GOAL, shot())
    # (400 + 1000) / 2000, (.8 + 4) / 8, (10 + 50) / 100, (0 + 100) / 200; and so on
    assert loads.ratios(NEW, ALL) == pytest.approx(
        np.array([[0.7, 0.6, 0.6, 0.5], [0.3, 0.6, 0.4, 0.3], [0.4, 0.2, 0.2, 0.6]])
    )
    # The means are .6, .4 and .35; the variances .02 / 4, .06 / 4 and .11 / 4.
    assert loads.scores(NEW, ALL) == pytest.approx(
        [100 - 7.071068, 100 - 12.247449, 100 - 16.583124], abs=1e-6
    )


def imbalance(loads):
    """The standard deviation of the used parts of each node."""
    return 1.0 - loads.own / 100.0


def test_the_most_uneven_of_those_that_are_known_comes_first():
    assert Loads.of(GOAL, shot()).most_uneven_first == [2, 1, 0]
    level = attrs.evolve(SAMPLE, nodes={f"n{i}": SAMPLE.nodes["n1"] for i in (1, 2)})
    assert Loads.of(attrs.evolve(GOAL, capacity=()), shot(sample=level)).most_uneven_first == [1, 2]


def test_what_a_pod_gains_is_told_of_where_it_is_counted_once():
    on = attrs.evolve(NEW, node_name="n2")
    sample = attrs.evolve(SAMPLE, placed={on.uid: "n2"})
    loads = Loads.of(attrs.evolve(GOAL, high_usage=0.69), shot(on, sample=sample))
    # On n2, .2 .1 .1 .6; on n0 it would be too much.
    here = 100 * (1 - 0.0425**0.5)
    assert loads.gains(on, 2) == pytest.approx([-np.inf, 100 - 12.247449 - here, 0.0], abs=1e-6)


def test_of_those_that_came_within_the_window_the_part_is_added_that_the_mean_lacks():
    """100 of 300 seconds ago: a third of .2 .1 .1 0 is in it."""
    young = attrs.evolve(pod("web-0", "web", resources(1, 1)), node_name="n1")
    at = {"placed": {young.uid: "n1"}, "came": {young.uid: SAMPLE.at - 100.0}}
    loads = Loads.of(GOAL, shot(young, sample=attrs.evolve(SAMPLE, **at)))
    parts = [0.1 + 0.4 / 3, 0.5 + 0.2 / 3, 0.3 + 0.2 / 3, 0.3]
    assert imbalance(loads)[1] == pytest.approx(pstdev(parts), abs=1e-6)
    assert loads.ratios(young, ALL)[1] == pytest.approx(parts)


def test_what_is_not_known_of_a_node_is_left_out():
    sizeless = attrs.evolve(GOAL, capacity=())
    # .7 .6; .3 .6; .4 .2
    assert Loads.of(sizeless, shot()).scores(NEW, ALL) == pytest.approx([95.0, 85.0, 90.0])
    blind = attrs.evolve(
        SAMPLE, nodes={"n0": Usage(cpu=1000.0, net=50.0), "n1": Usage(cpu=200.0), "gone": Usage()}
    )
    scores = Loads.of(GOAL, shot(sample=blind)).scores(NEW, ALL)
    assert scores[0] == pytest.approx(95.0)
    assert np.isnan(scores[1:]).all()


def test_without_a_sample_there_is_nothing_to_go_by():
    assert Loads.of(GOAL, shot(sample=Measured())) is None


@pytest.mark.parametrize(("most", "expected"), [(0.7, 92.928932), (0.69, -1.0), (0.6, -10.0)])
def test_a_node_that_would_be_used_too_much_scores_below_nothing(most, expected):
    """.7 of its cpu: the less too much, the better, where all of them are used too much."""
    loads = Loads.of(attrs.evolve(GOAL, high_usage=most), shot())
    assert loads.scores(NEW, ALL)[0] == pytest.approx(expected)


def test_scores_can_be_stretched_over_those_there_are():
    loads = Loads.of(attrs.evolve(GOAL, normalise=True), shot())
    given = loads.scores(NEW, ALL)
    assert given == pytest.approx(
        [100.0, (16.583124 - 12.247449) / (16.583124 - 7.071068) * 100, 0.0], abs=1e-5
    )
    assert loads.scores(NEW, ALL[:1]).tolist() == [100.0]
    assert loads.scores(NEW, ALL[:0]).tolist() == []


def test_no_score_is_below_nothing():
    assert evenness(np.array([0.0, 9.0])) == 0.0
