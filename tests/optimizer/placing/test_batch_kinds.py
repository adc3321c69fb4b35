"""Which pods of a batch are of a kind where pods have rules about each other."""

import attrs
import pytest

from kubedsm.model.model import EVERY_ADDRESS, Disk, HostPort, Preferences
from kubedsm.model.node_index import NodeRows
from kubedsm.optimizer.matching.problem import group_kinds, group_ruled_kinds, is_plain
from kubedsm.plugins.feasibility import Feasibility
from support import drawing
from support.placement_instances import drawn as plain_instance
from support.rule_instances import (
    DISLIKED,
    HOST,
    app,
    cluster,
    evenly,
    near,
    pod,
    zoned,
)


def kinds_of(nodes, batch, *others):
    shot = cluster(nodes, [*batch, *others])
    return group_ruled_kinds(batch, Feasibility.of(shot), shot.surroundings)


def named(mask, names=("n1", "n2", "n3")):
    return set() if mask is None else {names[at] for at in mask.nonzero()[0]}


def test_without_rules_about_others_they_are_the_plain_ones():
    for seed in drawing.drawn(range(200)):
        case = plain_instance(seed, most=10)
        shot = case.snapshot
        nodes = [n for n in shot.nodes.values() if n.tier is not None]
        assert is_plain(shot, case.batch)
        plain = group_kinds(case.batch, NodeRows.of(nodes, shot.free))
        judged = group_ruled_kinds(case.batch, Feasibility.of(shot), shot.surroundings)
        described = [
            [(k.requests, k.pods, named(k.nodes, names), k.rank) for k in found]
            for found, names in ((plain, sorted(n.name for n in nodes)), (judged, shot.index.names))
        ]
        assert described[0] == described[1], seed
        assert not any(k.once is not None or k.penalties for k in judged)


NODES = [zoned("n1", "x"), zoned("n2", "x"), zoned("n3")]
DISK = Disk("gcePersistentDisk", ("d",))


@pytest.mark.parametrize(
    ("rules", "once"),
    [
        ({"ports": (HostPort(80, "TCP", EVERY_ADDRESS),)}, {"n1", "n2", "n3"}),
        ({"anti_affinity": (near(app("a"), HOST),)}, {"n1", "n2", "n3"}),
        ({"anti_affinity": (near(app("a")),)}, {"n1", "n2"}),
        ({"anti_affinity": (near(app("b"), HOST),)}, set()),
        ({"disks": (DISK,)}, {"n1", "n2", "n3"}),
        ({"disks": (attrs.evolve(DISK, read_only=True),)}, set()),
    ],
)
def test_where_no_second_one_can_be(rules, once):
    [kind] = kinds_of(NODES, [pod("p", {"app": "a"}, **rules)])
    assert named(kind.once) == once


def test_what_is_plain():
    batch = [pod("p", {"app": "a"})]

    def plain(*others, nodes=NODES, batch=batch):
        return is_plain(cluster(nodes, [*batch, *others]), batch)

    assert plain()
    shy = near(app("b"), HOST)
    assert plain(pod("x", on="n1", anti_affinity=(shy,), spread=(evenly(app("a")),)))
    assert plain(pod("x", on="n1", preferences=Preferences(anti_affinity=((1, shy),))))
    repelled = near(app("a"), HOST)
    assert not plain(pod("x", on="n1", anti_affinity=(repelled,)))
    assert not plain(pod("x", on="n1", affinity=(repelled,)))
    assert not plain(pod("x", on="n1", preferences=Preferences(affinity=((1, repelled),))))
    assert not plain(nodes=[zoned("n1", taints=[DISLIKED])])
    assert not plain(batch=[pod("p", spread=(evenly(app("a")),))])
    assert not plain(batch=[pod("p", preferences=Preferences(spread=(evenly(app("a")),)))])
