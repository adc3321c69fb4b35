"""Label and field selectors, in queries and in objects: parsing and matching.

Grammar: k8s.io/apimachinery/pkg/labels and pkg/fields. Each kind has its own selectable fields; the
API server refuses others.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import attrs

from kubedsm_lab.emulator.api.errors import bad_request
from kubedsm_lab.emulator.api.resources import Object, Resource

Operator = Literal["=", "!=", "in", "notin", "exists", "!", "gt", "lt"]

_KEY = (
    r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"\s*(?P<absent>!)?\s*(?P<key>{_KEY})\s*"
    rf"(?:(?P<operator>==?|!=|<|>)\s*(?P<value>{_VALUE})"
    rf"|(?P<set>in|notin)\s*\((?P<values>\s*{_VALUE}\s*(?:,\s*{_VALUE}\s*)*)\))?\s*"
)
_COMMA = re.compile(r",(?![^(]*\))")
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_OPERATORS: Mapping[str, Operator] = {"=": "=", "==": "=", "!=": "!=", ">": "gt", "<": "lt"}
_OF_EXPRESSION: Mapping[str, Operator] = {
    "In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!",
}  # fmt: skip

_EVERY_KIND = ("metadata.name", "metadata.namespace")
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
#: selectable fields by kind; those of Events are of the stored form
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "Pod": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    "Node": ("spec.unschedulable",),
    "Namespace": ("status.phase",),
    "ReplicaSet": ("status.replicas",),
    "Service": ("spec.clusterIP", "spec.type"),
    "Event": (
        *(f"{field}.{name}" for field in ("involvedObject", "regarding") for name in _REFERENCE),
        "reason", "reportingComponent", "reportingController", "source", "type",
    ),
}  # fmt: skip
_ALIASES = {
    **{f"regarding.{name}": f"involvedObject.{name}" for name in _REFERENCE},
    "reportingController": "reportingComponent",
    "source": "source.component",
}
#: boolean fields that default to false
_FLAGS = ("spec.hostNetwork", "spec.unschedulable")


class SelectorError(ValueError):
    """Error: the text or object is not a valid label selector."""


@attrs.frozen
class Requirement:
    key: str
    operator: Operator
    #: values in sorted order
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator in ("=", "in"):
            return value in self.values
        if self.operator in ("!=", "notin"):
            return value not in self.values
        if self.operator in ("exists", "!"):
            return (value is not None) is (self.operator == "exists")
        try:
            number, bound = int(value or ""), int(self.values[0])
        except ValueError:
            return False
        return number > bound if self.operator == "gt" else number < bound

    def __str__(self) -> str:
        if self.operator in ("exists", "!"):
            return f"{self.operator.removeprefix('exists')}{self.key}"
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({','.join(self.values)})"
        sign = {"gt": ">", "lt": "<"}.get(self.operator, self.operator)
        return f"{self.key}{sign}{self.values[0]}"


@attrs.frozen
class LabelSelector:
    """Label selector as a conjunction of requirements; without requirements every
    object matches.
    """

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        labels = labels or {}
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def label_selector_of(selector: Object) -> LabelSelector:
    """Parse a LabelSelector object (matchLabels, matchExpressions). Raises SelectorError."""
    requirements = [
        Requirement(key, "=", (value,))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = _OF_EXPRESSION.get(expression["operator"])
        if operator is None:
            raise SelectorError(
                f'"{expression["operator"]}" is not a valid label selector operator'
            )
        values = tuple(sorted(expression.get("values") or ()))
        if bool(values) != (operator in ("in", "notin")):
            raise SelectorError(f"wrong number of values for {expression['key']}: {len(values)}")
        requirements.append(Requirement(expression["key"], operator, values))
    return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> LabelSelector:
    """Parse a label selector such as `app=web,tier in (edge,cloud),!gone`.

    Raises SelectorError.
    """
    if not text.strip():
        return LabelSelector()
    requirements = map(_parse_requirement, _COMMA.split(text))
    return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def _parse_requirement(text: str) -> Requirement:
    found = _REQUIREMENT.fullmatch(text)
    if found is None or (found["absent"] and (found["operator"] or found["set"])):
        raise SelectorError(f"unable to parse requirement: {text.strip()!r}")
    key = found["key"]
    if found["set"]:
        values = {value.strip() for value in found["values"].split(",")}
        return Requirement(key, "in" if found["set"] == "in" else "notin", tuple(sorted(values)))
    if not found["operator"]:
        return Requirement(key, "!" if found["absent"] else "exists")
    operator, value = _OPERATORS[found["operator"]], found["value"]
    if operator in ("gt", "lt") and not _NUMBER.fullmatch(value):
        raise SelectorError(
            "unable to parse requirement: for 'Gt', 'Lt' operators, "
            f'the value must be an integer: "{value}"'
        )
    return Requirement(key, operator, (value,))


@attrs.frozen
class FieldTerm:
    """Field selector term: comparison of one field with a value."""

    path: tuple[str, ...]
    equal: bool
    value: str
    #: value of a missing field
    default: str = ""

    def matches(self, obj: Object) -> bool:
        found: object = obj
        for step in self.path:
            found = found.get(step) if isinstance(found, dict) else None
        if isinstance(found, bool):
            found = "true" if found else "false"
        text = self.default if found is None or found == "" else str(found)
        return (text == self.value) is self.equal


def parse_fields(resource: Resource, text: str) -> tuple[FieldTerm, ...]:
    """Parse a field selector such as `spec.nodeName=n2,status.phase!=Failed`.

    Raises ApiError (400).
    """
    terms = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"([^=!]*)(!=|==|=)(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        if field not in (*_EVERY_KIND, *_FIELDS.get(resource.kind, ())):
            raise bad_request(f"field label not supported: {field}")
        path = tuple(_ALIASES.get(field, field).split("."))
        default = "false" if field in _FLAGS else ""
        terms.append(FieldTerm(path, operator != "!=", value, default))
    return tuple(terms)


@attrs.frozen
class Selection:
    """Selection criteria of a list or a watch: namespace, labels and fields."""

    namespace: str = ""
    labels: LabelSelector = LabelSelector()
    fields: tuple[FieldTerm, ...] = ()

    def matches(self, obj: Object) -> bool:
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.labels.requirements and not self.labels.matches(metadata.get("labels")):
            return False
        return all(term.matches(obj) for term in self.fields)

    @property
    def selective(self) -> bool:
        """Return whether the selection has label or field criteria."""
        return bool(self.labels.requirements or self.fields)


def selection(resource: Resource, namespace: str, labels: str, fields: str) -> Selection:
    """Parse the label and field selectors of a request. Raises ApiError (400)."""
    try:
        selector = parse_labels(labels)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    return Selection(namespace, selector, parse_fields(resource, fields))
