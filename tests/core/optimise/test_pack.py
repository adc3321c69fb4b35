"""What packing the whole cluster anew comes to, on clusters that can be seen through."""

import pytest

from kubedsm.core.goals.objective import Objective, Promise
from kubedsm.core.optimise.pack import pack
from kubedsm.core.packing.match import Bounds
from kubedsm.core.world.model import Tier
from support.placement_instances import node, pod, resources, snapshot
from support.suggest_instances import running


def nothing_promised(_):
    return Promise(weight=0)


def packed(of, **how):
    return pack(of, nothing_promised, Objective(), Bounds(), lambda _: None, **how)


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
