"""Room that is kept for a pod before it is free."""

import pytest

from kubedsm.model.events import Freed, NodeApplied, PodApplied, PodDeleted
from kubedsm.model.mirror import ClusterMirror, ReservationError
from kubedsm.model.model import Tier
from support.placement_instances import node, pod, resources

EDGE = {"kubedsm.io/tier": "edge"}


def full_node():
    """A node of two cores that a pod fills, and one that waits for it."""
    mirror = ClusterMirror()
    mirror.apply(NodeApplied(node("e1", Tier.EDGE, 2, 8, labels=EDGE)))
    low, high = pod("low", "low", resources(2, 1), on="e1"), pod("high", "high", resources(1, 1))
    mirror.apply(PodApplied(low))
    mirror.apply(PodApplied(high))
    return mirror, low, high


def test_nominated_room_is_nobodys_and_the_pod_is_not_placed():
    mirror, low, high = full_node()
    mirror.nominate(high, "e1")
    mirror.check_invariants()
    snapshot = mirror.snapshot()
    assert (snapshot.free["e1"].cpu, snapshot.free["e1"].pods) == (-1000, 108)
    assert high.uid not in snapshot.placed
    assert not mirror.has_reservation(high.uid)
    mirror.apply(PodDeleted(low.uid, low.namespace, low.name))
    with pytest.raises(ReservationError):
        mirror.reserve("another", "e1", resources(1.5, 1))
    mirror.reserve("small", "e1", resources(1, 1))
    mirror.check_invariants()


def test_it_is_held_once_and_given_back():
    mirror, _, high = full_node()
    heard = []
    mirror._on_released = lambda change, _: heard.append(change)
    before = mirror.free["e1"]
    mirror.nominate(high, "e1")
    mirror.nominate(high, "e1")
    mirror.withdraw(high.uid, silently=True)
    assert mirror.free["e1"] == before
    assert heard == []
    mirror.nominate(high, "e1")
    mirror.withdraw(high.uid)
    mirror.withdraw(high.uid)
    assert mirror.free["e1"] == before
    assert [change.freed for change in heard] == [Freed("e1", high.requests)]
    mirror.check_invariants()


def test_the_pod_itself_may_still_reserve_room_elsewhere():
    mirror, _, high = full_node()
    mirror.apply(NodeApplied(node("e2", Tier.EDGE, 2, 8, labels=EDGE)))
    mirror.nominate(high, "e1")
    mirror.reserve(high.uid, "e2", high.requests)
    assert mirror.has_reservation(high.uid)
    assert mirror.snapshot().placed[high.uid] == "e2"
    mirror.check_invariants()
