"""What is going on in words, news in words, messages of the stream, and verdicts of nodes."""

import json

import attrs
import msgspec
import pytest

from kubedsm.config.settings import Configuration
from kubedsm.dashboard.rows import (
    Changes,
    MoveRow,
    NodeRow,
    PodRow,
    StatusRow,
    WorkloadRow,
    decode_message,
    encode_message,
)
from kubedsm.dashboard.state.headline import Scenery, headline
from kubedsm.dashboard.state.news import WrittenEvent, news_of_decisions, news_of_events
from kubedsm.explain.decision_record import Entry, Kind
from kubedsm.explain.explanation import Explanation
from kubedsm.explain.facts import NodeVerdict, PodChoice
from kubedsm.explain.verdicts import count_rejections, verdict_sections
from kubedsm.kube.calls.writes import Regarding
from kubedsm.model.model import NodeName, Tier, Uid
from support.asked import section

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
            " and 1 more migration"
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


def choice(name, node=None, tier=None, message=""):
    return PodChoice(f"shop/{name}", node and NodeName(node), tier, message, Uid(name))


def batch(number, *choices):
    return Entry(number, float(number), Kind.BATCH, Configuration(), 0.0, 0.0, True, pods=choices)


EDGE, CLOUD = choice("a", "e1", Tier.EDGE), choice("b", "c1", Tier.CLOUD)
LOST = choice("c", message="0/2 nodes are available.")
DECIDED = {
    "one pod": ([batch(1, EDGE)], [("scheduled shop/a to e1", "shop/a", 1, False)]),
    "several": (
        [batch(1, EDGE, CLOUD)],
        [("scheduled 2 new pods, 1 to the edge and 1 to the cloud", "", 1, False)],
    ),
    "none": (
        [batch(1, LOST)],
        [("no node is feasible for shop/c: 0/2 nodes are available.", "shop/c", 1, True)],
    ),
    "some": (
        [batch(1, EDGE, LOST)],
        [
            (
                "scheduled shop/a to e1; no node is feasible for shop/c: 0/2 nodes are available.",
                "",
                1,
                True,
            )
        ],
    ),
    "many batches, as one": (
        [batch(number, EDGE) for number in range(1, 5)],
        [("scheduled 4 new pods to the edge", "", 4, False)],
    ),
}


@pytest.mark.parametrize(("entries", "said"), DECIDED.values(), ids=DECIDED)
def test_decisions_are_told(entries, said):
    rows = news_of_decisions(entries, {})
    assert [(row.text, row.pod, row.decision, row.warning) for row in rows] == said


def event(name, kind="Pod", version="v1"):
    return WrittenEvent(
        1.0, Regarding(version, kind, "shop", name, name), "Gone", f"{name} left", True
    )


def test_events_are_told_one_by_one_and_many_as_one():
    few = list(news_of_events([event("a"), event("cart", "Deployment", "apps/v1")]))
    assert [(row.text, row.pod, row.workload) for row in few] == [
        ("Gone: a left", "shop/a", ""),
        ("Gone: cart left", "", "shop/cart"),
    ]
    [row] = news_of_events([event(str(number)) for number in range(9)])
    assert (row.text, row.pod, row.warning) == ("Gone of 9 Pods, the last: 8 left", "", True)


NODES = {"e1": NodeRow(Tier.EDGE, 1, 2, 3, state="cordoned"), "x": NodeRow(None, 1, 2, 3)}


def test_what_a_later_version_adds_is_left_out():
    later = json.loads(encode_message(Changes(1, 1.0, {"nodes": NODES})))
    later["rows"]["nodes"]["e1"]["colour"] = "blue"
    later["rows"]["clouds"] = {"c": {}}
    assert decode_message(json.dumps(later).encode()) == Changes(1, 1.0, {"nodes": NODES})


@pytest.mark.parametrize("line", [b"", b"{", b'{"type":"other"}', b'{"type":"changes"}'])
def test_what_is_no_message_is_refused(line):
    with pytest.raises(msgspec.DecodeError):
        decode_message(line)


def node(name, rule=None, change=None, score=None):
    reasons = ("too little",) if rule else ()
    return NodeVerdict(name, Tier.EDGE, rule is None, rule, reasons, None, change, score)


def test_the_rule_that_most_nodes_reject_by_is_told_first():
    rules = ["A", "NodeResourcesFit", "B", "NodeResourcesFit"]
    assert (
        count_rejections(rules)
        == "NodeResourcesFit rejects 2 nodes and A rejects 1 node and B rejects 1 node"
    )


def test_nodes_that_are_alike_are_told_together_and_those_that_take_it_by_rank():
    nodes = [
        node("a", score=0.1),
        node("b", score=0.5),
        *(node(f"r{n}", "R", f"free {n}") for n in range(4)),
    ]
    answer = Explanation("", (), tuple(verdict_sections(nodes, "now")))
    assert section(answer, "Nodes by rule, now") == [
        "2: b, a | feasible | ",
        "4: r0, r1, r2, r3 | R: too little | r0: free 0; r1: free 1; 2 more, below",
    ]
    assert section(answer, "Each node")[0] == "b | edge | feasible | QoS +0.500"
    assert list(verdict_sections([], "now")) == []
