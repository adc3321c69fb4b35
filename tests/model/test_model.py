import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm.model.model import (
    Node,
    NodeName,
    PodClass,
    Resources,
    SchedulingRules,
    Share,
    Taint,
    Tier,
    Tiers,
    Toleration,
    Uid,
    Workload,
)
from kubedsm.model.snapshot import Snapshot
from support.pods import made_pod

NAMES = ["cpu", "memory", "pods", "ephemeral-storage", "example.com/gpu"]
amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(-(10**15), 10**15))
resources = amounts.map(Resources.of)
CART = Workload("shop", "ReplicaSet", "cart")
SMALL = PodClass(Resources(cpu=1000, memory=2**30, pods=1), SchedulingRules())


def pod(name, **given):
    made = made_pod(name, uid=f"uid-{name}", requests=SMALL.requests)
    return attrs.evolve(made, **{"workload": CART, **given})


def node(name, tier=None):
    return Node(NodeName(name), {}, Resources(cpu=4000, pods=110), tier=tier)


@given(amounts)
def test_resources_come_back(given_amounts):
    made = Resources.of(given_amounts)
    assert {n: a for n, a in made.items() if a} == {n: a for n, a in given_amounts.items() if a}
    assert Resources.of(dict(made.items())) == made
    assert all(made.amount(name) == given_amounts.get(name, 0) for name in NAMES)


@given(resources, resources)
def test_sums_go_by_name(one, other):
    for name in NAMES:
        assert (one + other).amount(name) == one.amount(name) + other.amount(name)
        assert (one - other).amount(name) == one.amount(name) - other.amount(name)
    assert one + other == other + one
    assert one + other - other == one
    assert one - one == Resources()
    assert hash(one - one) == hash(Resources())


TAINT = Taint("dedicated", "edge", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("dedicated", "Equal", "edge", "NoSchedule"), True),
        (Toleration("dedicated", "Equal", "edge"), True),
        (Toleration("dedicated", "Exists"), True),
        (Toleration("dedicated", "Exists", effect="NoSchedule"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", effect="NoSchedule"), True),
        (Toleration("dedicated", "Equal", "cloud"), False),
        (Toleration("dedicated", "Equal"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("dedicated", "Exists", effect="NoExecute"), False),
        (Toleration("", "Exists", effect="NoExecute"), False),
        (Toleration("", "Equal", "edge"), False),
        (Toleration("dedicated", "Gt", "edge"), False),
        (Toleration("dedicated", "Lt", "edge"), False),
    ],
)
def test_toleration(toleration, tolerated):
    assert toleration.tolerates(TAINT) is tolerated


@pytest.mark.parametrize(
    ("operator", "value", "tolerated"),
    [("Gt", "4", True), ("Gt", "5", False), ("Lt", "10", True), ("Lt", "x", False)],
)
def test_a_numeric_toleration_compares_the_taint_with_its_value(operator, value, tolerated):
    toleration = Toleration("failures", operator, value)
    assert toleration.tolerates(Taint("failures", "5", "NoSchedule")) is tolerated


@pytest.mark.parametrize(
    ("labels", "tier"),
    [
        ({}, None),
        ({"kubedsm.io/tier": "edge"}, Tier.EDGE),
        ({"kubedsm.io/tier": "cloud"}, Tier.CLOUD),
        ({"nodetype": "edge"}, Tier.EDGE),
        ({"kubedsm.io/tier": "cloud", "nodetype": "edge"}, Tier.CLOUD),
        ({"kubedsm.io/tier": "fog", "nodetype": "edge"}, None),
        ({"kubedsm.io/tier": ""}, None),
    ],
)
def test_tier_of_a_node(labels, tier):
    assert Tiers().of(labels) is tier


def test_each_configured_value_names_its_tier():
    tiers = Tiers(("place",), frozenset({"a", "b"}), frozenset({"c", "d"}))
    found = [tiers.of({"place": value}) for value in "abcdx"]
    assert found == [Tier.EDGE, Tier.EDGE, Tier.CLOUD, Tier.CLOUD, None]


def test_no_pods_have_no_share_at_the_edge():
    assert Share().ratio == 0.0


@pytest.mark.parametrize(
    ("state", "finished", "counts"),
    [
        ({}, False, True),
        ({"phase": "Running"}, False, True),
        ({"phase": "Unknown"}, False, True),
        ({"phase": "Succeeded"}, True, False),
        ({"phase": "Failed"}, True, False),
        ({"terminating": True}, False, False),
        ({"detached": True}, False, False),
    ],
)
def test_which_pods_count(state, finished, counts):
    assert pod("a", **state).finished is finished
    assert pod("a", **state).counts_for_qos is counts


def snapshot(pods, placed):
    nodes = [node("z", Tier.EDGE), node("b", Tier.EDGE), node("c", Tier.CLOUD), node("other")]
    return Snapshot(
        nodes={n.name: n for n in nodes},
        pods={p.uid: p for p in pods},
        free={n.name: n.allocatable for n in nodes},
        placed={Uid(f"uid-{name}"): NodeName(on) for name, on in placed.items()},
    )


def test_schedulable_are_ours_and_waiting_oldest_first():
    pods = [
        pod("young", created=2.0),
        pod("b", created=1.0),
        pod("a", created=1.0),
        pod("placed"),
        pod("gated", gated=True),
        pod("ended", phase="Failed"),
        pod("going", terminating=True),
        pod("foreign", scheduler_name="default-scheduler"),
    ]
    seen = snapshot(pods, {"placed": "b"})
    assert [p.name for p in seen.schedulable(pods)] == ["a", "b", "young"]
