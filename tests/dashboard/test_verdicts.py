"""What nodes are for a pod, in words: by rule, those that feasible first."""

from kubedsm.explain.explanation import Explanation
from kubedsm.explain.facts import NodeVerdict
from kubedsm.explain.verdicts import count_rejections, verdict_sections
from kubedsm.model.model import Tier
from support.asked import section


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
