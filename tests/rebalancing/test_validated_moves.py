"""Requested migrations as the scheduler executes them, or why it does not."""

from types import SimpleNamespace

import msgspec
import pytest

from kubedsm.config.settings import Configuration
from kubedsm.kube.wire.annotations import RequestedMove
from kubedsm.model.model import Tier
from kubedsm.model.sites import NOTHING_AWAY, Away
from kubedsm.rebalancing.migration_requests import list_requested_moves, validate_moves
from kubedsm.rebalancing.suggester import order_of
from support.placement_instances import node, resources, snapshot
from support.suggest_instances import running

POD = running("web-1", "web", resources(1), "c1")
OTHER = running("log-1", "log", resources(2), "e1")
CLUSTER = snapshot(
    [node("e1", Tier.EDGE, 2, 9), node("c1", Tier.CLOUD, 9, 9), node("c2", Tier.CLOUD, 9, 9)],
    [POD, OTHER],
)
MOVE = RequestedMove(str(POD), POD.uid, "c1", "c2", group=7, gain=0.5)
AWAY = RequestedMove(str(OTHER), OTHER.uid, "e1", "c1", group=7)


def validated(*moves, away=NOTHING_AWAY):
    return validate_moves(moves, CLUSTER, Configuration(), away)


def test_a_valid_move_is_executed_as_it_was_requested():
    [leg] = validated(MOVE).legs
    assert (leg.source, leg.target, leg.needs) == ("c1", "c2", frozenset())
    assert (leg.move.pod, leg.move.group, leg.move.gain) == (POD, 7, 0.5)
    assert leg.move.stopover is None
    told = {"rebalances": True, "preferred": True, "load_scores": (9.0, 4.0)}
    [leg] = validated(msgspec.structs.replace(MOVE, **told)).legs
    assert {name: getattr(leg.move, name) for name in told} == told


def test_a_detour_has_two_legs():
    first, second = validated(msgspec.structs.replace(MOVE, stopover="c2", target="e1")).legs
    assert (first.source, first.target) == ("c1", "c2")
    assert (second.source, second.target) == ("c2", "e1")
    assert first.move is second.move
    assert first.move.stopover == "c2"
    # Which pod the second leg moves is known once the first has its replacement.
    orders = [order_of("plan-1", leg, Configuration()) for leg in (first, second)]
    assert [order.pod for order in orders] == [POD.uid, ""]
    assert [order.second_leg_of for order in orders] == ["", orders[0].id]
    assert not orders[1].needs


def test_room_that_another_leg_frees_is_not_looked_for_yet():
    full = msgspec.structs.replace(MOVE, target="e1")
    found = validated(full)
    assert not found.legs
    assert found.refused == {POD.uid: "e1: Insufficient cpu"}
    [leg] = validated(AWAY).legs
    waiting = msgspec.structs.replace(full, needs=(leg.name,))
    found = validated(AWAY, waiting)
    assert [leg.target for leg in found.legs] == ["c1", "e1"]
    assert not found.refused
    suggested = SimpleNamespace(legs=found.legs, moves=[each.move for each in found.legs])
    assert [each.needs for each in list_requested_moves(suggested)] == [(), (leg.name,)]


def test_a_move_to_a_site_that_is_partitioned_is_refused():
    found = validated(MOVE, away=Away({"north": frozenset({"c2"})}))
    assert not found.legs
    assert "site" in found.refused[POD.uid]


@pytest.mark.parametrize("uids", [(POD.uid, "gone"), ("gone", POD.uid)])
def test_a_group_is_executed_as_a_whole(uids):
    asked = [msgspec.structs.replace(MOVE, uid=uid) for uid in uids]
    found = validated(*asked)
    assert not found.legs
    assert found.refused == {
        "gone": "the pod is gone",
        POD.uid: f"it belongs to the group of {POD}, which is not migrated",
    }
