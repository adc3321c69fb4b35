"""What is going on, in words made of rows alone."""

import attrs
import msgspec
import pytest

from kubedsm.dashboard.rows import MoveRow, NodeRow, PodRow, StatusRow, WorkloadRow
from kubedsm.dashboard.state.headline import Scenery, headline
from kubedsm.model.model import Tier

NOW = 1000.0
NODE = NodeRow(Tier.EDGE, 4000, 4_000_000_000, 110, site="north")
KEPT = WorkloadRow("Deployment", 2, 4, 0.5, 1.0)
MOVE = MoveRow(
    pod="shop/cart-a",
    workload="shop/cart",
    source="cloud-1",
    target="edge-1",
    kind="cloud-to-edge",
    purpose="1 of 3 pods missing at the edge",
    state="moving",
    at=990.0,
    began=991.0,
    decision=7,
    step="waiting for shop/cart-x to be Ready",
    since=995.5,
    replacement="shop/cart-x",
)
WAITS = PodRow("shop/cart", "waiting", 950.0, message="0/2 nodes are available: 2 Too many pods.")
QUIET = Scenery({"edge-1": NODE}, {}, {"shop/cart": KEPT}, {})
ALONE = StatusRow("")


def having(row, **changes):
    return msgspec.structs.replace(row, **changes)


def lacking(number):
    return having(KEPT, missing=number)


def there(**changes):
    return attrs.evolve(QUIET, **changes)


def moves(*rows):
    return there(moves={str(number): row for number, row in enumerate(rows)})


OVER = having(MOVE, state="completed", step="", since=0.0, ended=998.0)
CASES = {
    "one that is watched": (
        having(ALONE, role="watching"), QUIET, {},
        "watching the cluster; nothing is decided here",
    ),
    "a standby": (
        having(ALONE, role="standby", leader="kubedsm-0"), QUIET, {},
        "standby: kubedsm-0 leads",
    ),
    "one move": (
        ALONE, moves(MOVE), {},
        "migrating shop/cart-a from cloud-1 to edge-1: waiting for shop/cart-x to be Ready, 4 s",
    ),
    "some of several, the longest step first": (
        ALONE,
        moves(
            MOVE,
            having(MOVE, step="evicting shop/cart-b", since=999.5),
            having(MOVE, state="planned"),
            having(OVER, decision=6),
        ),
        {},
        "migrating 2 of 3: waiting for shop/cart-x to be Ready, 4 s",
    ),
    "moves that are over": (
        ALONE, moves(OVER, having(OVER, pod="shop/cart-b", ended=997.5)), {},
        (
            "migrated shop/cart-a from cloud-1 to edge-1: 1 of 3 pods missing at the edge"
            " (and 1 migration more)"
        ),
    ),
    "a move that is over, by a clock that was set back": (
        ALONE, moves(having(OVER, ended=4600.0)), {}, "idle: every QoS target is met",
    ),
    "one that was taken back": (
        ALONE, moves(having(OVER, state="rolled back", reason="overdue")), {},
        "migration rolled back: shop/cart-a from cloud-1 to edge-1 (overdue)",
    ),
    "a site that is partitioned": (
        ALONE, there(nodes=dict.fromkeys(("n1", "n2"), having(NODE, state="partitioned"))),
        {Tier.CLOUD: 1},
        "site north (n1, n2) is partitioned: its pods are left alone",
    ),
    "a site that is reachable again": (
        ALONE, there(nodes={"n1": having(NODE, state="stabilising")}), {},
        "site north is reachable again; its stabilisation period has begun",
    ),
    "new pods": (
        ALONE, QUIET, {Tier.EDGE: 4, Tier.CLOUD: 1},
        "scheduled 5 new pods, 4 to the edge and 1 to the cloud",
    ),
    "a pod that waits": (
        ALONE, there(waiting={"shop/cart-y": WAITS}), {},
        "shop/cart-y waits for a node: 0/2 nodes are available: 2 Too many pods.",
    ),
    "pods that wait": (
        ALONE, there(waiting={"shop/cart-y": having(WAITS, message=""), "shop/cart-z": WAITS}), {},
        "2 pods wait for a node; shop/cart-z: 0/2 nodes are available: 2 Too many pods.",
    ),
    "moves that have not begun": (
        ALONE, moves(having(MOVE, state="planned", began=0.0)), {}, "1 migration waits to begin",
    ),
    "what is proposed": (
        having(ALONE, proposal="1a2b3c4d"), moves(having(MOVE, state="proposed")), {},
        "1 migration proposed: kubedsm approve 1a2b3c4d",
    ),
    "nothing to do": (
        ALONE, there(workloads={}), {}, "no pod has schedulerName: kubedsm",
    ),
    "targets that are not met": (
        ALONE, there(workloads={"shop/cart": lacking(2), "shop/pay": lacking(1)}), {},
        "2 of 2 services below their edge target",
    ),
    "a target that is missed while moves are paused": (
        having(ALONE, paused=True), there(workloads={"shop/cart": lacking(2), "shop/pay": KEPT}),
        {}, "1 of 2 services below its edge target; migrations are paused",
    ),
    "all well": (ALONE, QUIET, {}, "idle: every QoS target is met"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "rows", "placed", "said"), CASES.values(), ids=CASES)
def test_the_headline_says_what_is_going_on(status, rows, placed, said):
    assert headline(status, rows, placed, NOW) == said
