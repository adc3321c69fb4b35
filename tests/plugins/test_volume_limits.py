"""NodeVolumeLimits: how many volumes a CSI driver attaches to a node."""

import random

import attrs
import pytest

from kubedsm.model.model import ClaimReference, NodeName
from kubedsm.model.surroundings import Claim, CSINode, CSIVolume, Surroundings, Volume
from kubedsm.plugins.feasibility import Feasibility
from support import drawing
from support.literal_rules import literal_rule
from support.rule_instances import cluster, pod, zoned

TOO_MANY = "node(s) exceed max volume count"
FAST, SLOW = "fast.example.com", "slow.example.com"


def mounting(name, *claims, **more):
    return pod(name, claims=tuple(ClaimReference("shop", claim) for claim in claims), **more)


def knowing(limits, **volumes):
    """Claims by name, each bound to a volume of its own: its driver and handle."""
    known = Surroundings()
    for name, csi in volumes.items():
        known = known.with_object(Claim("shop", name, volume=f"pv-{name}", bound=True))
        known = known.with_object(Volume(f"pv-{name}", csi=csi and CSIVolume(*csi)))
    for node, drivers in limits.items():
        known = known.with_object(CSINode(node, drivers))
    return known


def refused(newcomer, others, known):
    snapshot = cluster([zoned("n1"), zoned("n2")], [*others, newcomer], known)
    rejections = Feasibility.of(snapshot).rejections(newcomer)
    assert {(r.rule, r.reasons) for r in rejections.values()} <= {("NodeVolumeLimits", (TOO_MANY,))}
    return set(rejections)


VOLUMES = {
    "a": (FAST, "a"),
    "b": (FAST, "b"),
    "c": (FAST, "c"),
    "again": (FAST, "a"),
    "slow": (SLOW, "a"),
    "other": None,
}
ONE, TWO = {"n1": {FAST: 1}}, {"n1": {FAST: 2}}

CASES = {
    "no pod there": (ONE, ["a"], [], False),
    "the last one": (TWO, ["a"], [["b"]], False),
    "one too many": (ONE, ["a"], [["b"]], True),
    "one too many of its own": (ONE, ["a", "b"], [], True),
    "two where one more may be": (TWO, ["a", "b"], [["c"]], True),
    "one volume of two pods": (ONE, ["a"], [["a"]], False),
    "one volume in two PersistentVolumes": (ONE, ["a"], [["again"]], False),
    "one volume twice in a pod": (ONE, ["a", "again"], [], False),
    "one volume of two others": (TWO, ["a"], [["b"], ["b"]], False),
    "another driver's": (ONE, ["a"], [["slow"]], False),
    "another driver's limit": ({"n1": {SLOW: 0}}, ["a"], [["b"]], False),
    "each driver's own": ({"n1": {FAST: 1, SLOW: 0}}, ["a", "slow"], [], True),
    "no volume of a driver": (ONE, ["other"], [["b"]], False),
    "others without a driver": (ONE, ["a"], [["other"]], False),
    "none at all": ({"n1": {FAST: 0}}, ["a"], [], True),
    "nothing new where there are too many": (ONE, ["a"], [["a"], ["b"]], False),
    "no limit of the driver": ({"n1": {}}, ["a"], [["b"], ["c"]], False),
    "no CSINode": ({"n2": {FAST: 3}}, ["a"], [["b"], ["c"]], False),
    "a node that is not there": ({"n9": {FAST: 0}}, ["a"], [["b"]], False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_volumes_count_once_a_node_and_driver(case):
    limits, own, others, too_many = case
    there = [mounting(f"there-{i}", *claims, on="n1") for i, claims in enumerate(others)]
    known = knowing(limits, **VOLUMES)
    assert refused(mounting("new", *own), there, known) == ({"n1"} if too_many else set())


def test_pods_that_terminate_count_and_those_that_finished_do_not():
    there, known = mounting("there", "b", on="n1"), knowing(ONE, **VOLUMES)
    new = mounting("new", "a")
    assert refused(new, [attrs.evolve(there, terminating=True)], known) == {"n1"}
    assert refused(new, [attrs.evolve(there, phase="Succeeded")], known) == set()


def test_what_is_unknown_does_not_count():
    known, there = knowing(ONE, **VOLUMES), mounting("there", "b", on="n1")
    for kind in (Volume, CSINode):
        partly = Surroundings({each: known.of(each) for each in known.kinds if each is not kind})
        assert refused(mounting("new", "a"), [there], partly) == set()
    # Of pods that are there already nothing is asked.
    gone = known.without_object(Claim, ("shop", "b"))
    assert refused(mounting("new", "a"), [there], gone) == set()


def drawn(seed):
    """Nodes with few slots, and pods with up to three claims, many of them of one volume."""
    rng = random.Random(seed)
    nodes = [zoned(f"n{i}", cpu=99, memory=99) for i in range(3)]
    handles = [(rng.choice((FAST, SLOW)), rng.choice("abcd")) for _ in range(8)]
    volumes = {f"v{i}": rng.choice((csi, csi, None)) for i, csi in enumerate(handles)}
    limits = {
        node.name: {d: rng.randint(0, 4) for d in (FAST, SLOW) if rng.random() < 0.7}
        for node in nodes
        if rng.random() < 0.8
    }
    pods = [mounting(f"p{i}", *rng.sample(sorted(volumes), rng.randint(0, 3))) for i in range(9)]
    return rng, nodes, pods, knowing(limits, **volumes)


def test_as_pods_come_and_go_the_rule_is_the_literal_one():
    seen = set()
    for seed in drawing.drawn(range(300), one_in=9):
        rng, nodes, pods, known = drawn(seed)
        feasibility = Feasibility.of(cluster(nodes, pods, known))
        homes = {}
        for _ in range(12):
            chosen = rng.choice(pods)
            if chosen.uid in homes:
                feasibility = feasibility.without_pod(chosen.uid)
                del homes[chosen.uid]
            else:
                # Where it does not fit, too: other schedulers do not ask us.
                homes[chosen.uid] = rng.choice(nodes).name
                feasibility = feasibility.with_pod(chosen, NodeName(homes[chosen.uid]))
            snapshot = cluster(
                nodes,
                [attrs.evolve(p, node_name=homes.get(p.uid)) for p in pods],
                known,
            )
            afresh = Feasibility.of(snapshot)
            for each in pods:
                if each.uid in homes:
                    continue
                for node in nodes:
                    rule = literal_rule(snapshot, each, node)
                    for judge in (feasibility, afresh):
                        given = judge.rejection(each, node.name)
                        assert (given and given.rule) == rule
                    seen.add(rule)
    assert seen == {None, "NodeVolumeLimits"}
