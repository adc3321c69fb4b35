"""What packing the whole cluster anew comes to, on clusters that can be seen through."""

import attrs
import pytest

from kubedsm.model.model import SchedulingRules, Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.packing.pack import pack_cluster
from kubedsm.solvers.available import Highs
from support.placement_instances import node, pod, resources, snapshot
from support.suggest_instances import running


def nothing_promised(_):
    return QosTarget(weight=0)


def packed(of, **how):
    return pack_cluster(of, nothing_promised, Objective(), Bounds(), lambda _: None, **how)


@pytest.mark.parametrize("tier", [Tier.EDGE, Tier.CLOUD])
def test_one_move_makes_room_for_a_pod_that_no_node_takes(tier):
    """The example of the specification: 4 GB on each node, pods of 2 GB on both, one of 3."""
    nodes = [node(f"{tier}-{i}", tier, 8, 4) for i in range(2)]
    pods = [
        running("a", "a", resources(1, 2), on=f"{tier}-0"),
        running("b", "b", resources(1, 2), on=f"{tier}-1"),
        pod("c", "c", resources(1, 3)),
    ]
    found = packed(snapshot(nodes, pods))
    assert len(found.moves) == len(found.legs) == 1
    assert [move.pod.name for move in found.awaited] == ["c"]
    assert found.after == {0: 3}
    assert found.proven


SSD = SchedulingRules(node_selector=(("disk", "ssd"),))


def three_nodes(*tiers):
    """Of 4 GiB, of which only the first has the disk."""
    first = node("n0", tiers[0], 8, 4, labels={"disk": "ssd"})
    return [first, *(node(f"n{at}", tier, 8, 4) for at, tier in enumerate(tiers[1:], 1))]


def test_a_move_waits_for_the_one_that_makes_its_room():
    pods = [
        running("x", "x", resources(1, 3), on="n0"),
        running("y", "y", resources(1, 2), on="n1"),
        running("z", "z", resources(1, 2), on="n2"),
        pod("w", "w", resources(1, 4), rules=SSD),
    ]
    found = packed(snapshot(three_nodes(Tier.CLOUD, Tier.CLOUD, Tier.CLOUD), pods))
    first, second = found.legs
    assert {first.move.pod.name, second.move.pod.name} & {"y", "z"} == {first.move.pod.name}
    assert (second.move.pod.name, second.target) == ("x", first.source)
    assert (first.needs, second.needs) == (frozenset(), {first.name})
    assert [(move.pod.name, move.target) for move in found.awaited] == [("w", "n0")]


def test_moves_that_need_each_others_room_are_let_out_by_one_that_stops_over():
    """The small one changes places with the large one, as both are promised the edge."""
    stays = attrs.evolve(running("s", "s", resources(1, 2), on="n2"), pinned="it says so")
    pods = [
        running("large", "large", resources(1, 3), on="n0"),
        running("small", "small", resources(1, 2), on="n1"),
        stays,
        pod("w", "w", resources(1, 2), rules=SSD),
    ]
    of = snapshot(three_nodes(Tier.EDGE, Tier.EDGE, Tier.CLOUD), pods)
    found = pack_cluster(
        of, lambda _: QosTarget(), Objective(), Bounds(solver=Highs()), lambda _: None
    )
    assert found.proven
    small = next(move for move in found.moves if move.pod.name == "small")
    assert (small.stopover, small.target) == ("n2", "n0")
    out, large, back = found.legs
    assert (out.source, out.target, back.source, back.target) == ("n1", "n2", "n2", "n0")
    assert large.needs == {out.name}
    assert {large.name, out.name} <= back.needs


def test_what_has_to_be_missing_for_a_while_is_left_where_it_is():
    """The same without room to stop over; with a gap it could be done."""
    pods = [
        running("large", "large", resources(1, 3), on="n0"),
        running("small", "small", resources(1, 2), on="n1"),
        pod("w", "w", resources(1, 2), rules=SSD),
    ]
    of = snapshot(three_nodes(Tier.EDGE, Tier.EDGE), pods)
    found = packed(of)
    assert not found.better
    assert not found.placed_proven
    assert packed(of, gaps=True).after == {0: 3}


def test_pods_of_lower_priority_go_only_where_that_is_allowed_and_never_those_that_must_stay():
    one = node("n0", Tier.EDGE, 8, 4)
    low = running("low", "low", resources(1, 4), on="n0")
    waits = pod("high", "high", resources(1, 4), priority=10)
    assert not packed(snapshot([one], [low, waits])).better
    found = packed(snapshot([one], [low, waits]), allow_evictions=True)
    assert [each.name for each in found.evicted] == ["low"]
    assert (found.before, found.after) == ({10: 0, 0: 1}, {10: 1, 0: 0})
    pinned = attrs.evolve(low, pinned="it says so")
    assert not packed(snapshot([one], [pinned, waits]), allow_evictions=True).better
    alike = pod("alike", "alike", resources(1, 4))
    assert not packed(snapshot([one], [low, alike]), allow_evictions=True).better
