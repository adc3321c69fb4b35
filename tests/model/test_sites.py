"""Which sites are partitioned, by the nodes alone, and what that makes of a snapshot."""

import attrs
import pytest

from kubedsm.model.model import Node, Resources, Share, Taint, Tier, Workload
from kubedsm.model.node_index import site_of
from kubedsm.model.sites import SITE_LABELS, Away, is_partitioned, sites_of
from kubedsm.model.snapshot import Snapshot
from support.pods import made_pod

LOST = Taint("node.kubernetes.io/unreachable", "", "NoExecute")
LOST_AT_FIRST = Taint("node.kubernetes.io/unreachable", "", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoExecute")
WEB, API = Workload("ns", "Deployment", "web"), Workload("ns", "Deployment", "api")
ROOM = Resources(4000, 2**32, 10)


def node(name, site="", taint=None, tier=Tier.EDGE, **labels):
    labels |= {"kubedsm.io/site": site} if site else {}
    return Node(name, labels, ROOM, () if taint is None else (taint,), tier=tier)


def pod(name, workload, on=None, **state):
    requests = Resources(1000, 2**20, 1)
    named = {"namespace": "ns", "workload": workload.name}
    return made_pod(name, **named, requests=requests, node_name=on, **state)


def snapshot(nodes, pods):
    free = dict.fromkeys((n.name for n in nodes), ROOM)
    placed = {p.uid: p.node_name for p in pods if p.node_name}
    return Snapshot({n.name: n for n in nodes}, {p.uid: p for p in pods}, free, placed)


CUT = [node("n1", "north", LOST), node("n2", "north", LOST_AT_FIRST), node("s1", "south")]
PODS = [
    pod("w1", WEB, "n1"),
    pod("w2", WEB, "n2", terminating=True),
    pod("w3", WEB, "s1"),
    pod("w4", WEB),
    pod("a1", API, "s1"),
    pod("a2", API),
]


@pytest.mark.parametrize(
    ("nodes", "cut"),
    [
        (CUT[:2], True),
        ([CUT[0]], False),  # one that is alone cannot be told from a lost node
        ([CUT[0], node("n3", "north")], False),
        ([CUT[0], node("n3", "north", NOT_READY)], False),  # which is heard
    ],
)
def test_a_cut_is_all_nodes_of_several_unreachable_together(nodes, cut):
    assert is_partitioned(nodes) is cut


def test_the_first_label_names_the_site_of_an_edge_node():
    zoned = {"topology.kubernetes.io/zone": "zone"}
    assert site_of(node("n", "north", **zoned), SITE_LABELS) == "north"
    assert site_of(node("n", **zoned), SITE_LABELS) == "zone"
    assert site_of(node("n"), SITE_LABELS) == ""
    assert site_of(node("n", "north"), ()) == ""
    assert site_of(node("n", "north", tier=Tier.CLOUD), SITE_LABELS) == ""
    assert list(sites_of([*CUT, node("e")], SITE_LABELS)) == ["north", "south"]


def test_what_is_away_by_a_snapshot_alone():
    away = Away.from_snapshot(snapshot(CUT, PODS), SITE_LABELS)
    assert away.partitioned == {"north": {"n1", "n2"}}
    assert away.nodes == away.partitioned_nodes == {"n1", "n2"}
    assert away.workloads == {WEB}
    assert away.serving == {WEB: 1}
    assert not Away.from_snapshot(snapshot(CUT[1:], PODS), SITE_LABELS)


def test_apart_from_it_nothing_goes_there_and_what_serves_there_counts():
    stabilising = node("u1", "east")
    before = snapshot([*CUT, stabilising], PODS)
    away = attrs.evolve(
        Away.from_snapshot(before, SITE_LABELS), stabilising={"east": frozenset({stabilising.name})}
    )
    seen = away.close_sites(before)
    closed = {name for name, n in seen.nodes.items() if n.taints[:1] and "site" in n.taints[0].key}
    assert closed == {"n1", "n2", "u1"}
    assert before.census.shares[WEB] == Share(2, 3)
    assert seen.census.shares == {API: Share(1, 2), WEB: Share(3, 3)}
    assert (seen.pods, seen.free, seen.placed) == (before.pods, before.free, before.placed)
    # All else adds up to what it would, counted afresh.
    assert attrs.evolve(seen.census, shares=before.census.shares) == before.census
    assert seen.index.nodes == attrs.evolve(seen, counted=None).index.nodes


def test_what_stands_in_has_the_cloud_alone():
    seen = Away.from_snapshot(snapshot(CUT, PODS), SITE_LABELS).in_cloud(
        snapshot([*CUT, node("c", tier=Tier.CLOUD)], PODS)
    )
    assert {name for name, n in seen.nodes.items() if not n.taints} == {"c"}


def test_no_room_is_made_for_what_waits_on_its_account():
    before = snapshot(CUT, PODS)
    seen = Away.from_snapshot(before, SITE_LABELS).close_waiting(before)
    assert {uid for uid, each in seen.pods.items() if each.gated} == {"w4"}
    assert {p.uid for p in seen.schedulable(seen.pods.values())} == {"a2"}
