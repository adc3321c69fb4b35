"""Label and field selectors: from a query's text or an object's spec to something that matches.

Grammar: k8s.io/apimachinery/pkg/labels and pkg/fields. Which fields can be selected differs by
kind; the API server refuses the others.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal

import attrs

from kubedsm_lab.emulator.api.errors import bad_request
from kubedsm_lab.emulator.api.resources import Object, Resource

Operator = Literal["=", "!=", "in", "notin", "exists", "!", "gt", "lt"]

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_KEY = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_EQUALITIES: Mapping[str, Operator] = {"=": "=", "==": "=", "!=": "!="}
_OF_EXPRESSION: Mapping[str, Operator] = {
    "In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!",
}  # fmt: skip


class SelectorError(ValueError):
    """The text or the object is not a label selector."""


@attrs.frozen
class Requirement:
    key: str
    operator: Operator
    #: sorted
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator in ("=", "in"):
            return value in self.values
        if self.operator in ("!=", "notin"):
            return value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "!":
            return value is None
        return self._ordered(value)

    def _ordered(self, value: str | None) -> bool:
        try:
            number = int(value or "")
        except ValueError:
            return False
        bound = int(self.values[0])
        return number > bound if self.operator == "gt" else number < bound

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        if self.operator in ("gt", "lt"):
            return f"{self.key}{'>' if self.operator == 'gt' else '<'}{self.values[0]}"
        if self.operator in ("=", "!="):
            return f"{self.key}{self.operator}{self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(self.values)})"


@attrs.frozen
class LabelSelector:
    """Everything in it must match; an empty one matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        labels = labels or {}
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def label_selector_of(selector: Object) -> LabelSelector:
    """From an object's matchLabels and matchExpressions. Raises SelectorError."""
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
    """From a query such as `app=web,tier in (edge,cloud),!gone`. Raises SelectorError."""
    if not text.strip():
        return LabelSelector()
    return LabelSelector(tuple(_Parser(text).requirements()))


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def requirements(self) -> list[Requirement]:
        found = [self._requirement()]
        while self._peek():
            self._expect(",")
            found.append(self._requirement())
        return sorted(found, key=lambda requirement: requirement.key)

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._key(), "!")
        key = self._key()
        operator = self._peek()
        if operator in ("", ","):
            return Requirement(key, "exists")
        self._take()
        if operator in _EQUALITIES:
            return Requirement(key, _EQUALITIES[operator], (self._value(),))
        if operator in ("in", "notin"):
            return Requirement(key, "in" if operator == "in" else "notin", self._set())
        if operator in ("<", ">"):
            return self._comparison(key, "gt" if operator == ">" else "lt")
        raise SelectorError(
            f"unable to parse requirement: found '{operator}', "
            "expected: in, notin, =, ==, !=, gt, lt"
        )

    def _comparison(self, key: str, operator: Operator) -> Requirement:
        bound = self._value()
        if not re.fullmatch(r"-?[0-9]{1,18}", bound):
            raise SelectorError(
                "unable to parse requirement: for 'Gt', 'Lt' operators, "
                f'the value must be an integer: "{bound}"'
            )
        return Requirement(key, operator, (bound,))

    def _set(self) -> tuple[str, ...]:
        self._expect("(")
        values = {self._value()}
        while self._peek() == ",":
            self._take()
            values.add(self._value())
        self._expect(")")
        return tuple(sorted(values))

    def _key(self) -> str:
        key = self._take()
        if not _KEY.fullmatch(key):
            raise SelectorError(f"unable to parse requirement: '{key}' is not a label key")
        return key

    def _value(self) -> str:
        if self._peek() in ("", ",", ")"):
            return ""
        value = self._take()
        if not _VALUE.fullmatch(value):
            raise SelectorError(f"unable to parse requirement: '{value}' is not a label value")
        return value

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _expect(self, token: str) -> None:
        found = self._take()
        if found != token:
            raise SelectorError(
                f"unable to parse requirement: found '{found}', expected: '{token}'"
            )


def _at(*path: str) -> Callable[[Object], str]:
    def value(obj: Object) -> str:
        found: object = obj
        for step in path:
            if not isinstance(found, dict):
                return ""
            found = found.get(step)
        if found is None:
            return ""
        if isinstance(found, bool):
            return "true" if found else "false"
        return str(found)

    return value


def _flag(*path: str) -> Callable[[Object], str]:
    """A boolean that is false where it is missing."""
    value = _at(*path)
    return lambda obj: value(obj) or "false"


_EVERY_KIND = {
    "metadata.name": _at("metadata", "name"),
    "metadata.namespace": _at("metadata", "namespace"),
}
_OF_KIND: Mapping[str, Mapping[str, Callable[[Object], str]]] = {
    "Pod": {
        "spec.nodeName": _at("spec", "nodeName"),
        "spec.restartPolicy": _at("spec", "restartPolicy"),
        "spec.schedulerName": _at("spec", "schedulerName"),
        "spec.serviceAccountName": _at("spec", "serviceAccountName"),
        "spec.hostNetwork": _flag("spec", "hostNetwork"),
        "status.phase": _at("status", "phase"),
        "status.podIP": _at("status", "podIP"),
        "status.nominatedNodeName": _at("status", "nominatedNodeName"),
    },
    "Node": {"spec.unschedulable": _flag("spec", "unschedulable")},
    "Namespace": {"status.phase": _at("status", "phase")},
    "ReplicaSet": {"status.replicas": _at("status", "replicas")},
    "Service": {"spec.clusterIP": _at("spec", "clusterIP"), "spec.type": _at("spec", "type")},
    # of the stored form, whichever the request asked for
    "Event": {
        **{
            f"{reference}.{field}": _at("involvedObject", field)
            for reference in ("involvedObject", "regarding")
            for field in (
                "kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath",
            )
        },
        "reason": _at("reason"),
        "reportingComponent": _at("reportingComponent"),
        "reportingController": _at("reportingComponent"),
        "source": _at("source", "component"),
        "type": _at("type"),
    },
}  # fmt: skip


@attrs.frozen
class FieldSelector:
    """(value of an object, equal or not, to what) for each term; all of them must hold."""

    terms: tuple[tuple[Callable[[Object], str], bool, str], ...] = ()

    def matches(self, obj: Object) -> bool:
        return all((value(obj) == wanted) is equal for value, equal, wanted in self.terms)


def parse_fields(resource: Resource, text: str) -> FieldSelector:
    """From a query such as `spec.nodeName=n2,status.phase!=Failed`.

    Raises ApiError (400) for a term without operator and for a field that does not select there.
    """
    if not text:
        return FieldSelector()
    known = _OF_KIND.get(resource.kind, {})
    terms = []
    for term in text.split(","):
        if not term:
            continue
        match = re.fullmatch(r"([^=!]*)(!=|==|=)(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, wanted = match.groups()
        value = known.get(field) or _EVERY_KIND.get(field)
        if value is None:
            raise bad_request(f"field label not supported: {field}")
        terms.append((value, operator != "!=", wanted))
    return FieldSelector(tuple(terms))


@attrs.frozen
class Selection:
    """What a list or a watch asks for."""

    namespace: str = ""
    labels: LabelSelector = LabelSelector()
    fields: FieldSelector = FieldSelector()

    def matches(self, obj: Object) -> bool:
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.labels.requirements and not self.labels.matches(metadata.get("labels")):
            return False
        return not self.fields.terms or self.fields.matches(obj)

    @property
    def selective(self) -> bool:
        """Whether it leaves out anything of its namespace."""
        return bool(self.labels.requirements or self.fields.terms)


def selection(resource: Resource, namespace: str, labels: str, fields: str) -> Selection:
    """Raises ApiError (400)."""
    try:
        selector = parse_labels(labels)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    return Selection(namespace, selector, parse_fields(resource, fields))
