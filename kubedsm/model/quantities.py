"""Conversion of Kubernetes quantities, such as `1500m` or `8Gi`, to exact integers and back to
text.

Grammar and suffixes: k8s.io/apimachinery/pkg/api/resource, "Quantity".
"""

import re
from fractions import Fraction
from functools import lru_cache
from operator import itemgetter

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
#: units of bytes and their sizes, the largest first
_BYTE_UNITS = sorted(
    [(suffix, 1 << power) for suffix, power in _BINARY.items()]
    + [(suffix, 10**power) for suffix, power in _DECIMAL.items() if power > 0],
    key=itemgetter(1),
    reverse=True,
)
_SYNTAX = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?",
    re.ASCII,
)
#: Cap of quantities, as in the API server.
LARGEST = 2**63 - 1
#: Longest quantity: the cost of exact arithmetic grows with digits.
_LONGEST_TEXT = 128


class QuantityError(ValueError):
    """Error: a Kubernetes quantity is invalid or negative."""


@lru_cache(maxsize=4096)
def _exact_fraction(text: str) -> Fraction:
    match = _SYNTAX.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise _not_a_quantity(text)
    number = Fraction(match["number"])
    if number and match["sign"] == "-":
        raise QuantityError(f"{text!r} is negative")
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    exponent = int(match["exponent"]) if match["exponent"] else _DECIMAL[suffix]
    # Beyond any quantity the power itself is the expensive part.
    power: int = 10 ** min(400, abs(exponent))
    return number * power if exponent > 0 else number / power


def _not_a_quantity(given: object) -> QuantityError:
    shown = repr(given)
    if len(shown) > _LONGEST_TEXT:
        shown = f"{shown[:40]}..."
    return QuantityError(f"{shown} is not a quantity, such as 500m, 2, 1.5Gi or 1e3")


def _round_up(quantity: object, scale: int) -> int:
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise _not_a_quantity(quantity)
    if isinstance(quantity, int):
        # Beyond the cap Python may refuse to write the digits.
        quantity = max(-LARGEST, min(LARGEST, quantity))
    scaled = _exact_fraction(str(quantity)) * scale
    return min(LARGEST, -(-scaled.numerator // scaled.denominator))


def format_amount(name: str, amount: int) -> str:
    """Return the amount of the resource in words: 1500m cpu, 8Gi memory, 2 pods."""
    if name == "cpu":
        return f"{amount}m cpu" if amount % 1000 else f"{amount // 1000} cpu"
    if name == "pods" and amount == 1:
        return "1 pod"
    if name not in ("memory", "ephemeral-storage"):
        return f"{amount} {name}"
    for suffix, size in _BYTE_UNITS:
        if amount and amount % size == 0:
            return f"{amount // size}{suffix} {name}"
    return f"{amount} bytes of {name}"


def parse_units(quantity: object) -> int:
    """Return the quantity in whole units, rounded up as Kubernetes does. Raise QuantityError."""
    return _round_up(quantity, 1)


def parse_millis(quantity: object) -> int:
    """Return the quantity in thousandths (millicores), rounded up. Raise QuantityError."""
    return _round_up(quantity, 1000)
