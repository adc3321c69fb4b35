import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubedsm.config.duration import DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("0s", 0), ("500ms", 0.5), ("5ms", 0.005), ("1m30s", 90), ("10s", 10), ("1h", 3600)),
        *(("1h0m1s", 3601), ("1.5h", 5400), (".5s", 0.5), ("2.s", 2), ("100us", 1e-4)),
        *(("7ns", 7e-9), ("1s1s", 2), ("100\N{MICRO SIGN}s", 1e-4)),
        ("100\N{GREEK SMALL LETTER MU}s", 1e-4),
    ],
)
def test_what_go_writes(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "5", "1.5", "s", ".s", "-1s", "+1s", "1 s", " 1s", "1s ", "1s\n", "1d", "1S"),
        *("1min", "1m30", "1e3s", "infs", "\N{ARABIC-INDIC DIGIT ONE}s"),
        *("9" * 5000 + "s", "9" * 399 + "s"),
    ],
)
def test_everything_else_is_refused_in_one_short_line(text):
    with pytest.raises(DurationError) as refusal:
        parse_duration(text)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 150


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0, "0s"), (0.005, "5ms"), (0.2, "200ms"), (1.5, "1.5s"), (10.0, "10s"), (60.0, "1m")),
        *((90.0, "1m30s"), (3600.0, "1h"), (3601.5, "1h1.5s"), (1e-9, "0.000001ms")),
    ],
)
def test_is_written_as_a_person_would(seconds, text):
    assert format_duration(seconds) == text


@given(st.floats(0, 1e9))
@example(math.pi)
@example(0.1 + 0.2)
@example(86399.99999999999)
def test_comes_back_exactly(seconds):
    assert parse_duration(format_duration(seconds)) == seconds
