"""Exact integers from Kubernetes quantities.

Grammar and suffixes: k8s.io/apimachinery/pkg/api/resource, "Quantity".
"""

import re
from fractions import Fraction
from functools import lru_cache

_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SYNTAX = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?",
    re.ASCII,
)
#: The API server caps every quantity here, and so do we.
LARGEST = 2**63 - 1


class QuantityError(ValueError):
    """The text is not a quantity, or a negative one where none can be."""


@lru_cache(maxsize=4096)
def _exact(text: str) -> Fraction:
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity, such as 500m, 2, 1.5Gi or 1e3")
    if match["sign"] == "-":
        raise QuantityError(f"{text!r} is negative")
    number = Fraction(match["number"])
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        return number * 1024 ** _BINARY[suffix]
    exponent = int(match["exponent"]) if match["exponent"] else _DECIMAL[suffix]
    # Beyond any quantity the power itself is the expensive part.
    return number * Fraction(10) ** max(-400, min(400, exponent))


def _rounded_up(quantity: object, scale: int) -> int:
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise QuantityError(f"{quantity!r} is not a quantity, such as 500m, 2, 1.5Gi or 1e3")
    scaled = _exact(str(quantity)) * scale
    return min(LARGEST, -(-scaled.numerator // scaled.denominator))


def units(quantity: object) -> int:
    """The quantity in whole units (bytes, pods, devices), rounded up as Kubernetes does.

    Raises QuantityError.
    """
    return _rounded_up(quantity, 1)


def millis(quantity: object) -> int:
    """The quantity in thousandths of a unit (millicores), rounded up as Kubernetes does.

    Raises QuantityError.
    """
    return _rounded_up(quantity, 1000)
