"""Selectors: what the labels of a pod, a namespace or a node must say.

A label selector is the conjunction of its requirements. None stands for a selector that was not
given, and selects nothing; one that was given without any requirement selects everything.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import attrs

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LEAST, _GREATEST = -(2**63), 2**63 - 1


def _integer(text: str) -> int | None:
    """The number, if it is one of 64 bits in decimal."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and _LEAST <= number <= _GREATEST else None


class Requirement(NamedTuple):
    """One condition on the value of one label.

    Operators are In, NotIn, Exists, DoesNotExist and, for nodes only, Gt and Lt. An operator that
    is none of these accepts nothing.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def accepts(self, value: str | None) -> bool:
        """Whether that value of the label will do; None if the label is missing."""
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
                return value is not None and self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        number = _integer(value)
        bound = _integer(self.values[0]) if len(self.values) == 1 else None
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


Selector = tuple[Requirement, ...] | None


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(r.accepts(labels.get(r.key)) for r in selector)


def keys_of(selector: Selector) -> frozenset[str]:
    """The labels that the selector looks at."""
    return frozenset(requirement.key for requirement in selector or ())


@attrs.frozen(slots=True)
class NodeSelectorTerm:
    """Conditions on a node, all of which must hold; a term without any selects no node."""

    #: on its labels
    expressions: tuple[Requirement, ...] = ()
    #: on its fields; the only one there is is metadata.name
    fields: tuple[Requirement, ...] = ()

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        return (
            bool(self.expressions or self.fields)
            and selects(self.expressions, labels)
            and all(is_name_field(r) and r.accepts(name) for r in self.fields)
        )


def is_name_field(requirement: Requirement) -> bool:
    """Whether it is a condition that Kubernetes knows for a field: one name, to be or not to be."""
    return (
        requirement.key == "metadata.name"
        and requirement.operator in ("In", "NotIn")
        and len(requirement.values) == 1
    )


def any_selects(terms: tuple[NodeSelectorTerm, ...], name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node satisfies one of the terms at least."""
    return any(term.selects(name, labels) for term in terms)
