"""Quantities against exact arithmetic, and against what the API server accepts."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedsm.model.quantities import (
    LARGEST,
    QuantityError,
    format_amount,
    parse_millis,
    parse_units,
)

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
