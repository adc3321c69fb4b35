"""Explanations of pods with volumes say how the pod would be migrated, or why not."""

import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.explain.facts import PodFacts
from kubedsm.explain.migration import with_mobility
from kubedsm.explain.pod import explain_pod
from kubedsm.model.model import ClaimReference, SchedulingRules, Tier, Workload
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.model.surroundings import Claim, Volume
from support.placement_instances import node, pod, resources, snapshot
from support.rule_instances import HOST, knowing

NODES = [node(name, Tier.EDGE, labels={HOST: name}) for name in ("e1", "e2")]
HERE = (NodeSelectorTerm((Requirement(HOST, "In", ("e1",)),)),)
MOUNTS = SchedulingRules(claims=(ClaimReference("shop", "data"),))
FIRST = "If it is migrated, its replacement starts first: several nodes can mount its claims."
GONE = "If it is migrated, the old pod is gone before its replacement starts: "
ONE_NODE = "its volume claim shop/data can be mounted on one node at a time."


def describe(
    *,
    kind="Deployment",
    mode="ReadWriteOnce",
    nodes=None,
    bound=True,
    mounted=MOUNTS,
    config="",
    **more,
):
    mounting = pod("a", "db", resources(1, 1), rules=mounted, on="e1")
    mounting = attrs.evolve(mounting, workload=Workload("shop", kind, "db"), **more)
    shot = snapshot(NODES, [mounting])
    data = Claim("shop", "data", volume="v", bound=bound, access_modes=(mode,))
    shot = attrs.evolve(shot, surroundings=knowing(data, Volume("v", nodes)))
    facts = PodFacts("shop/a", (), chosen="e1", bound=True, state="placed")
    return with_mobility(facts, mounting, shot, load(config, "test"))


@pytest.mark.parametrize(
    ("pod_of", "expected"),
    [
        ({"nodes": HERE}, "It is not migrated: its volume v is reachable only from its node."),
        ({}, f"It is not migrated: {ONE_NODE}"),
        ({"kind": "StatefulSet"}, f"{GONE}{ONE_NODE}"),
        ({"config": "migration: {mode: recreate}"}, f"{GONE}{ONE_NODE}"),
        ({"mode": "ReadWriteMany"}, FIRST),
        (
            {"mode": "ReadWriteMany", "kind": "StatefulSet"},
            f"{GONE}a StatefulSet never has two pods of the same name.",
        ),
        (
            {"mode": "ReadWriteMany", "config": "migration: {mode: recreate}"},
            f"{GONE}migrations of shop/db recreate pods.",
        ),
        ({"config": "migration: {mode: off}"}, "It is not migrated: its migration mode is off."),
        (
            {"mounted": SchedulingRules(), "pinned": "it has a local volume"},
            "It is not migrated: it has a local volume.",
        ),
    ],
)
def test_an_explanation_says_how_a_pod_with_volumes_is_migrated(pod_of, expected):
    facts = describe(**pod_of)
    assert facts.migration == expected
    assert (expected,) in explain_pod(facts).lines


def test_a_pod_without_volumes_or_before_they_are_bound_has_no_such_line():
    assert describe(mounted=SchedulingRules()).migration is None
    assert describe(bound=False).migration is None
