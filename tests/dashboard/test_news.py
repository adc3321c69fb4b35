"""News in words, messages of the stream, and verdicts of nodes."""

import json

import msgspec
import pytest

from kubedsm.config.settings import Configuration
from kubedsm.dashboard.rows import Changes, NodeRow, decode_message, encode_message
from kubedsm.dashboard.state.news import WrittenEvent, news_of_decisions, news_of_events
from kubedsm.explain.decision_record import Entry, Kind
from kubedsm.explain.explanation import Explanation
from kubedsm.explain.facts import NodeVerdict, PodChoice
from kubedsm.explain.verdicts import count_rejections, verdict_sections
from kubedsm.kube.calls.writes import Regarding
from kubedsm.model.model import NodeName, Tier, Uid
from support.asked import section


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
