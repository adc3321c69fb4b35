"""A pod goes to a node that its node affinity prefers, if that exceeds the price of a migration."""

import random
from collections import Counter

import pytest

from kubedsm.model.model import Preferences, SchedulingRules, Tier
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.site_demand import SiteDemand, count_sites
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.optimizer.moving.within_tier import still_rebalances
from support import drawing
from support.literal_moves import carried_out
from support.placement_instances import node, resources, snapshot
from support.suggest_instances import running, suggested

ZONE = "topology.kubernetes.io/zone"
LIMITS = SuggestLimits(spread=True)
ALL = QosTarget()


def preferring(**weights):
    """Return rules that prefer zones by weight."""
    terms = tuple(
        (weight, NodeSelectorTerm((Requirement(ZONE, "In", (zone,)),)))
        for zone, weight in weights.items()
    )
    return SchedulingRules(preferences=Preferences(node_affinity=terms))


def zoned(name, zone, cpu=4, tier=Tier.EDGE):
    return node(name, tier, cpu, 64, labels={ZONE: zone})


NODES = (zoned("a", "x"), zoned("b", "y"), zoned("c", "z", 64, Tier.CLOUD))


def preferred(pods, nodes=NODES, limits=LIMITS, target=ALL, **more):
    how = {"objective": Objective(beta=0.0), "usual": target, **more}
    return suggested(nodes, pods, limits=limits, **how)


def web(on, number=1, cpu=1, **weights):
    rules = preferring(**weights or {"x": 1})
    return running(f"web-{number}", "web", resources(cpu), on, rules=rules)


def test_a_pod_that_started_elsewhere_goes_to_the_zone_that_it_prefers():
    [move] = preferred([web("b")]).moves
    assert (move.source, move.target, move.preferred) == ("b", "a", True)
    assert move.purpose == "to a, which the pod's node affinity prefers"


@pytest.mark.parametrize(
    ("seconds", "weights", "moves"),
    [
        (60.0, {"x": 1}, 1),
        (29.0, {"x": 1}, 0),
        (60.0, {"x": 60, "y": 40}, 0),
        (200.0, {"x": 60, "y": 40}, 1),
    ],
)
def test_the_benefit_is_the_weight_gained_while_the_workload_lasts(seconds, weights, moves):
    limits = SuggestLimits(price=30.0)
    found = preferred([web("b", **weights)], limits=limits, lasting=lambda _: seconds)
    assert len(found.moves) == moves
    assert found.may_pay_later == (not moves)


def test_preferences_are_no_reason_to_leave_the_edge_nor_to_come():
    assert not preferred([web("b", z=1)], target=QosTarget(0.0)).moves
    assert not preferred([web("c")], target=QosTarget(0.0)).moves


def test_replicas_do_not_spread_away_from_the_node_that_they_prefer():
    assert not preferred([web("a", number) for number in range(3)]).moves


def test_pods_near_their_users_stay_at_their_site():
    demand = SiteDemand((("y", 1.0),), 0.5)
    shot = count_sites(snapshot(NODES, [web("b")]), (ZONE,), [web("b").workload])
    target = QosTarget(demand=demand)
    assert not suggest(shot, lambda _: target, Objective(), LIMITS, site_labels=(ZONE,)).moves


def test_it_is_dropped_when_the_zone_is_gone():
    [move] = preferred([web("b")]).moves
    shot = snapshot(NODES, [web("b")])
    assert still_rebalances(shot, move)
    assert not still_rebalances(snapshot([zoned("a", "w"), *NODES[1:]], [web("b")]), move)
    assert not still_rebalances(snapshot(NODES[1:], [web("b")]), move)


def drawn_pods(rng):
    """Draw a cluster of three zones with two nodes each, and pods that prefer some of them."""
    nodes = [zoned(f"{z}{n}", z, rng.choice((1, 2, 3))) for z in "xyz" for n in range(2)]
    nodes.append(zoned("c", "w", 64, Tier.CLOUD))
    rules = {s: preferring(**{z: rng.randint(1, 9) for z in rng.sample("xyz", 2)}) for s in "abc"}
    free, pods = {each.name: each.allocatable.cpu for each in nodes}, []
    for number in range(rng.randint(4, 9)):
        service = rng.choice("abc")
        on = rng.choice([name for name, cpu in free.items() if cpu >= 1000])
        free[on] -= 1000
        pods.append(running(f"{service}-{number}", service, resources(1), on, rules=rules[service]))
    return nodes, pods


def weight_of(pod, at):
    terms = pod.pod_class.rules.preferences.node_affinity
    return sum(weight for weight, term in terms if at.labels[ZONE] in term.expressions[0].values)


@pytest.mark.parametrize("defragment", [False, True])
def test_suggesting_ends_where_no_pod_could_go_to_a_better_node(defragment):
    seen = Counter()
    limits = SuggestLimits(spread=True, defragment=defragment)
    for seed in drawing.drawn(range(30)):
        nodes, pods = drawn_pods(random.Random(seed))
        shot = snapshot(nodes, pods)
        for _ in range(30):
            found = suggest(shot, lambda _: QosTarget(), Objective(), limits)
            if not found.moves:
                break
            for move in found.moves:
                seen["preferred"] += move.preferred
                if move.preferred:
                    ends = (shot.nodes[name] for name in (move.source, move.target))
                    here, there = (weight_of(move.pod, end) for end in ends)
                    assert there > here, seed
            shot = carried_out(shot, found)
        else:
            raise AssertionError(f"no end for seed {seed}")
        left = [
            pod
            for pod in shot.pods.values()
            for at in nodes
            if at.tier is shot.nodes[shot.placed[pod.uid]].tier
            and shot.free[at.name].cpu >= 1000
            and weight_of(pod, at) > weight_of(pod, shot.nodes[shot.placed[pod.uid]])
        ]
        assert not left or defragment, seed
        seen["ended"] += 1
    assert seen["preferred"] > 15, seen
