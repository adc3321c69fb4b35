"""Of suggestions that are worth the same, the one by which replicas stand together least."""

import attrs
import pytest

from kubedsm.model.model import Preferences, SchedulingRules, SpreadConstraint, Tier
from kubedsm.objective.fragmentation import Fragmentation
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import UNREACHABLE
from kubedsm.optimizer.moving.best_changes import Digits
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from support.placement_instances import node, resources, snapshot
from support.suggest_instances import running, suggested

ZONE = "topology.kubernetes.io/zone"
LIMITS = SuggestLimits(spread=True)
CLOUD = node("c1", Tier.CLOUD, 64, 64)
#: it stays where it is, and three free cores of a node are of use to it
WIDE = attrs.evolve(running("z-1", "z", resources(3), "c1"), ready=False)


def edge(name, cpu=4, zone=None):
    return node(name, Tier.EDGE, cpu, 64, labels={ZONE: zone} if zone else {})


def targets(nodes, pods, limits=LIMITS):
    found = suggested([*nodes, CLOUD], pods, limits=limits, objective=Objective())
    return {move.pod.name: move.target for move in found.moves}


def test_a_pod_comes_to_the_node_that_has_none_of_its_like():
    """Though on the other one it leaves nothing to waste."""
    nodes = [edge("e1", 2), edge("e2", 3)]
    pods = [running("a-1", "a", resources(1), "e1"), running("a-2", "a", resources(1), "c1")]
    pods.append(WIDE)
    assert targets(nodes, pods) == {"a-2": "e2"}
    assert targets(nodes, pods, attrs.evolve(LIMITS, spread=False)) == {"a-2": "e1"}


def test_of_two_nodes_alike_it_comes_to_the_one_in_another_zone():
    nodes = [edge("e1", 4, "x"), edge("e2", 4, "x"), edge("e3", 4, "y")]
    pods = [running("a-1", "a", resources(1), "e1"), running("a-2", "a", resources(1), "c1")]
    assert targets(nodes, pods) == {"a-2": "e3"}
    assert targets([*nodes[:2], edge("e3", 4, "x")], pods) != {"a-2": "e1"}


def test_between_nodes_alike_it_is_not_always_the_first():
    nodes = [edge(f"e{n}") for n in range(3)]
    chosen = set()
    for number in range(3):
        pods = [attrs.evolve(WIDE, uid=f"uid-{n}", name=f"z-{n}") for n in range(number)]
        pods.append(running("a-1", "a", resources(1), "c1"))
        chosen.add(targets(nodes, pods)["a-1"])
    assert chosen == {"e0", "e1", "e2"}


@pytest.mark.parametrize(
    "rules",
    [
        SchedulingRules(preferences=Preferences(spread=(SpreadConstraint(ZONE, 5, (), "shop"),))),
        SchedulingRules(spread=(SpreadConstraint("kubernetes.io/hostname", 5, (), "shop"),)),
    ],
    ids=["soft", "hard"],
)
def test_pods_with_constraints_of_their_own_are_left_to_these(rules):
    nodes = [
        node(name, Tier.EDGE, cpu, 64, labels={"kubernetes.io/hostname": name})
        for name, cpu in (("e1", 2), ("e2", 3))
    ]
    pods = [
        running(f"a-{n}", "a", resources(1), on, rules=rules) for n, on in ((1, "e1"), (2, "c1"))
    ]
    assert targets(nodes, [*pods, WIDE]) == {"a-2": "e1"}


def problem(shot, limits=LIMITS):
    gains = Gains.of(shot, lambda _: QosTarget(), Objective())
    movable = lambda _: None  # noqa: E731
    return EdgeProblem.of(shot, movable, Fragmentation(), gains, limits, SUGGEST_BOUNDS)


@pytest.mark.parametrize("moves", [1, 6, 1000])
def test_the_numbers_stay_within_64_bits(moves):
    """However many replicas there are, and however much may be moved."""
    pods = [running(f"a-{n}", "a", resources(), "e0") for n in range(400)]
    nodes = [edge(f"e{n:03}", 4, "xy"[n % 2]) for n in range(300)] + [edge("e0", 4, "x")]
    shot = snapshot([*nodes, CLOUD], pods)
    asked = problem(shot, SuggestLimits(max_moves=moves, spread=True))
    digits = Digits.of(asked)
    assert digits.touch * 2 * moves <= UNREACHABLE // 2
    assert 2 * (asked.spread.most_added(2 * moves) // digits.pairs) * digits.spread < digits.touch
    assert (digits.pairs == 1) == (moves < 1000)
    for spread, fragmentation in ((0, 0), (3, -5), (-3, 2**33), (-1, -(2**33))):
        assert digits.parts(spread * digits.spread + fragmentation) == (spread, fragmentation)
