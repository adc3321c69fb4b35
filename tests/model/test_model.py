import math
from fractions import Fraction

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
from kubedsm.model.quantities import (
    LARGEST,
    QuantityError,
    format_amount,
    parse_millis,
    parse_units,
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


DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

whole_part = st.text("0123456789", min_size=1, max_size=12)
decimals = st.one_of(
    whole_part,
    st.builds("{}.{}".format, whole_part, whole_part),
    st.builds(".{}".format, whole_part),
    st.builds("{}.".format, whole_part),
)


def scale(suffix: str) -> Fraction:
    if suffix in BINARY:
        return Fraction(2) ** BINARY[suffix]
    return Fraction(10) ** DECIMAL[suffix]


@pytest.mark.parametrize(
    ("text", "in_units", "in_millis"),
    [
        ("0", 0, 0), ("1", 1, 1000), ("1n", 1, 1), ("1500000n", 1, 2), ("1u", 1, 1),
        ("250m", 1, 250), ("1500m", 2, 1500), ("2k", 2_000, 2_000_000),
        ("3M", 3_000_000, 3_000_000_000), ("1G", 10**9, 10**12), ("1T", 10**12, 10**15),
        ("1P", 10**15, 10**18), ("1E", 10**18, LARGEST), ("1Ki", 1024, 1_024_000),
        ("950Mi", 996_147_200, 996_147_200_000), ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
        ("1Ti", 2**40, 1000 * 2**40), ("1Pi", 2**50, 1000 * 2**50), ("7Ei", 7 * 2**60, LARGEST),
        ("1e3", 1000, 10**6), ("1E3", 1000, 10**6), ("1e+3", 1000, 10**6), ("25e-2", 1, 250),
        ("1e-3", 1, 1), (".5", 1, 500), ("5.", 5, 5000), ("+2", 2, 2000), ("-0", 0, 0),
        ("0.1", 1, 100), (2, 2, 2000), (0.5, 1, 500), (1e-07, 1, 1),
    ],
)  # fmt: skip
def test_every_suffix_and_form(text, in_units, in_millis):
    assert parse_units(text) == in_units
    assert parse_millis(text) == in_millis


@given(decimals, st.sampled_from([*DECIMAL, *BINARY]))
def test_equals_exact_arithmetic_rounded_up(number, suffix):
    exact = Fraction(number.rstrip(".")) * scale(suffix)
    assert parse_units(number + suffix) == min(LARGEST, math.ceil(exact))
    assert parse_millis(number + suffix) == min(LARGEST, math.ceil(exact * 1000))


@given(st.integers(1, 10**6), st.integers(-999, 999))
def test_any_exponent_is_capped_not_computed_for_ever(number, exponent):
    exact = Fraction(number) * Fraction(10) ** exponent
    assert parse_units(f"{number}e{exponent}") == min(LARGEST, math.ceil(exact))


def test_integers_beyond_what_python_writes_out():
    assert parse_units(10**6000) == LARGEST
    with pytest.raises(QuantityError, match="is negative"):
        parse_units(-(10**6000))


@pytest.mark.parametrize("given", ["-1", "-500m", "-1e3", "-.5", -1, -0.5])
def test_negative_is_refused(given):
    with pytest.raises(QuantityError, match="is negative"):
        parse_units(given)


@pytest.mark.parametrize(
    "given",
    [
        "", " ", ".", "-", "+", "m", "Mi", "1 Gi", " 1", "1\n", "1ki", "1K", "1MiB", "1mi", "1e",
        "1e+", "1e3Mi", "1e3.5", "e3", "1_000", "1,5", "1.2.3", "--1", "0x10", "inf", "nan",
        "\N{ARABIC-INDIC DIGIT ONE}", "9" * 5000,
        float("nan"), float("inf"), True, None, [], {"cpu": 1},
    ],
)  # fmt: skip
def test_malformed_is_refused_in_one_line(given):
    with pytest.raises(QuantityError, match="is not a quantity") as refusal:
        parse_millis(given)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 250


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_refused(text):
    try:
        amount = parse_units(text)
    except QuantityError:
        return
    assert 0 <= amount <= LARGEST


@pytest.mark.parametrize(
    ("amount", "text"),
    [(8 << 30, "8Gi"), (3 * 10**9, "3G"), (4_096_000, "4000Ki"), (1_234_567, "1234567 bytes of")],
)
def test_bytes_are_written_in_the_largest_unit_that_divides_them(amount, text):
    assert format_amount("memory", amount) == f"{text} memory"
