"""Label selectors of pods and namespaces, and node selectors.

A label selector is a conjunction of requirements. None, a missing selector, selects nothing; an
empty one selects everything.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import attrs

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LEAST, _GREATEST = -(2**63), 2**63 - 1


def _parse_integer(text: str) -> int | None:
    """Parse a label value as a 64-bit integer, for Gt and Lt; return None for other text."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and _LEAST <= number <= _GREATEST else None


class Requirement(NamedTuple):
    """Condition on a label: In, NotIn, Exists, DoesNotExist, and for nodes Gt and Lt.

    Other operators accept nothing.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def accepts(self, value: str | None) -> bool:
        """Return True if the requirement accepts the label's value; None: the label is missing."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compare_numbers(value)
        return False

    def _compare_numbers(self, value: str) -> bool:
        number = _parse_integer(value)
        bound = _parse_integer(self.values[0]) if len(self.values) == 1 else None
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


Selector = tuple[Requirement, ...] | None


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(r.accepts(labels.get(r.key)) for r in selector)


def keys_of(selector: Selector) -> frozenset[str]:
    """Return the keys of the labels that the selector uses."""
    return frozenset(requirement.key for requirement in selector or ())


@attrs.frozen(slots=True)
class NodeSelectorTerm:
    """Node selector term: conditions that a node must all meet; an empty term selects no node."""

    #: label requirements
    expressions: tuple[Requirement, ...] = ()
    #: field requirements; the only field is metadata.name
    fields: tuple[Requirement, ...] = ()


def is_name_field(requirement: Requirement) -> bool:
    """Return True if a node selector requirement is a valid condition on metadata.name."""
    return (
        requirement.key == "metadata.name"
        and requirement.operator in ("In", "NotIn")
        and len(requirement.values) == 1
    )
