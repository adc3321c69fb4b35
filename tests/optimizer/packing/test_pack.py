"""What packing the whole cluster anew comes to, on clusters that can be seen through."""

import attrs

from kubedsm.model.model import SchedulingRules, Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.packing.pack import pack_cluster
from kubedsm.solvers.available import Highs
from support.placement_instances import node, pod, resources, snapshot
from support.suggest_instances import running

SSD = SchedulingRules(node_selector=(("disk", "ssd"),))


def nothing_promised(_):
    return QosTarget(weight=0)


def packed(of, **how):
    return pack_cluster(of, nothing_promised, Objective(), Bounds(), lambda _: None, **how)


def three_nodes(*tiers):
    """Of 4 GiB, of which only the first has the disk."""
    first = node("n0", tiers[0], 8, 4, labels={"disk": "ssd"})
    return [first, *(node(f"n{at}", tier, 8, 4) for at, tier in enumerate(tiers[1:], 1))]


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
