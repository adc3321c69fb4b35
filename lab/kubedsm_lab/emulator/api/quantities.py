"""Quantities as admission counts and shows them: in thousandths, below zero too."""

from fractions import Fraction
from functools import lru_cache

from kubedsm.model.quantities import parse_millis

_BINARY = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def thousandths(quantity: object) -> int:
    """Of a quantity whose syntax was checked when it was decoded."""
    return _thousandths(str(quantity))


@lru_cache(maxsize=4096)
def _thousandths(quantity: str) -> int:
    return -parse_millis(quantity[1:]) if quantity.startswith("-") else parse_millis(quantity)


def shown(name: str, amount: int) -> str:
    """Thousandths of the resource of that name, as quotas show them: 500m, 64Mi, 4."""
    whole = Fraction(amount, 1000)
    if whole.denominator != 1:
        return f"{amount}m"
    if name.endswith("memory") and whole:
        for unit, suffix in _BINARY:
            if whole % unit == 0:
                return f"{whole // unit}{suffix}"
    return str(whole)
