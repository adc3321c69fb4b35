"""Kinds of fields a configuration document has: how each is read, checked and written.

A section is an attrs class, `@attrs.frozen(field_transformer=checked)`, each field of which has a
kind for its metadata. `structured` makes a section of what YAML or JSON says, `document` the
reverse. Checks run in the constructor, so that no section with a bad value exists, however made.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar

import attrs

from kubedsm.config.documents import HUGE_BITS, SHOWN, DocumentError, at, shown
from kubedsm.config.duration import (
    DURATION,
    DurationError,
    format_duration,
    parse_duration,
)

_Section = TypeVar("_Section", bound=attrs.AttrsInstance)

_KIND = "kind"
#: YAML 1.1 reads an exponent without a point and a sign as text, JSON as a number.
_EXPONENT = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?[eE][+-]?[0-9]{1,3}", re.ASCII)


_PERCENTAGE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6})?%", re.ASCII)


#: patterns of names in Kubernetes
LABEL = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(?:\.{LABEL})*"
_VALUE = "[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"

#: a JSON Schema
Schema = dict[str, Any]


@attrs.frozen
class _Kind:
    read: Callable[[Any], Any]
    check: Callable[[Any], None]
    write: Callable[[Any], Any]
    schema: Callable[[], Schema]


#: what `attrs.field(metadata=...)` takes
Kind = Mapping[str, _Kind]


def kind(
    read: Callable[[Any], Any],
    check: Callable[[Any], None],
    write: Callable[[Any], Any],
    schema: Callable[[], Schema],
) -> Kind:
    """From what YAML or JSON gives to the value, is it one that may be, and back again.

    `read` and `check` raise DocumentError. The schema is what editors know of it: whatever is
    right for us is right by it, not always the reverse.
    """
    return {_KIND: _Kind(read, check, write, schema)}


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """The end of a complaint about a word that is not among the known ones."""
    words = {_folded(word): word for word in known}
    folded = _folded(given[:SHOWN]) if isinstance(given, str) else ""
    near = difflib.get_close_matches(folded, words, n=1)
    return f"; did you mean {words[near[0]]}?" if near else ""


def _folded(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "")


@cache
def camel(name: str) -> str:
    """The key of the field of that name."""
    first, *more = name.split("_")
    return first + "".join(word.capitalize() for word in more)


def _validate(_: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    if value is None and attribute.default is None:
        return
    with at(camel(attribute.name)):
        attribute.metadata[_KIND].check(value)


def checked(_: type, fields: "list[attrs.Attribute[Any]]") -> "list[attrs.Attribute[Any]]":
    """The field transformer of every section; a field with default None may be left out."""
    return [field.evolve(validator=_validate) for field in fields]


def mapping(value: object) -> Mapping[Any, object]:
    if not isinstance(value, Mapping):
        raise DocumentError(f"{shown(value)} is not a mapping of keys to values")
    return value


def structured(cls: type[_Section], value: object) -> _Section:
    """The section that the document describes; a key that is missing or null has its default.

    Raises DocumentError.
    """
    attributes = {camel(attribute.name): attribute for attribute in attrs.fields(cls)}
    values = {}
    for key, given in mapping(value).items():
        with at(key):
            if key not in attributes:
                if removed := getattr(cls, "REMOVED", {}).get(key):
                    raise DocumentError(f"no longer a key: {removed}")
                known = f"; the keys here are {', '.join(attributes)}"
                raise DocumentError(f"unknown key{did_you_mean(key, attributes) or known}")
            if given is not None:
                attribute = attributes[key]
                values[attribute.name] = attribute.metadata[_KIND].read(given)
    return cls(**values)


def document(section: attrs.AttrsInstance) -> dict[str, Any]:
    """What `structured` reads as this section."""
    return {
        camel(attribute.name): attribute.metadata[_KIND].write(value)
        for attribute in attrs.fields(type(section))
        if (value := getattr(section, attribute.name)) is not None
    }


def section_schema(cls: type[attrs.AttrsInstance]) -> Schema:
    """What `structured` takes for the section, as a JSON Schema; every key may be null."""
    properties = {}
    for attribute in attrs.fields(cls):
        described = attribute.metadata[_KIND].schema()
        if attribute.default is not None:
            described["default"] = attribute.metadata[_KIND].write(attribute.default)
        properties[camel(attribute.name)] = described
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def _same(value: Any) -> Any:
    return value


def number(low: float, high: float) -> Kind:
    allowed = f"{shown(low)} and {shown(high)}"

    def read(value: object) -> object:
        if isinstance(value, str) and _EXPONENT.fullmatch(value):
            return float(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return float(value) if value.bit_length() <= HUGE_BITS else value
        return value

    def check(value: object) -> None:
        if not isinstance(value, float):
            raise DocumentError(f"{shown(value)} is not a number between {allowed}")
        if not low <= value <= high:
            raise DocumentError(f"{shown(value)} is not between {allowed}")

    def schema() -> Schema:
        return {"type": ["number", "null"], "minimum": low, "maximum": high}

    return kind(read, check, _same, schema)


def whole(low: int, high: int) -> Kind:
    def check(value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise DocumentError(f"{shown(value)} is not a whole number between {low} and {high}")
        if not low <= value <= high:
            raise DocumentError(f"{shown(value)} is not between {low} and {high}")

    def schema() -> Schema:
        return {"type": ["integer", "null"], "minimum": low, "maximum": high}

    return kind(_same, check, _same, schema)


def duration(low: str, high: str) -> Kind:
    least, greatest = parse_duration(low), parse_duration(high)

    def read(value: object) -> float:
        if not isinstance(value, str):
            raise DocumentError(
                f"{shown(value)} is not a duration with its unit, such as 500ms, 10s or 1m30s"
            )
        try:
            return parse_duration(value)
        except DurationError as error:
            raise DocumentError(str(error)) from None

    def check(value: float) -> None:
        if not least <= value <= greatest:
            given = format_duration(value) if 0 <= value < math.inf else f"{value:g}s"
            raise DocumentError(f"{given} is not between {low} and {high}")

    def schema() -> Schema:
        between = f"a duration between {low} and {high}, such as 500ms, 10s or 1m30s"
        return {"type": ["string", "null"], "pattern": DURATION, "description": between}

    return kind(read, check, format_duration, schema)


def percentage() -> Kind:
    """From `0%` to `100%`, as a part of one."""

    def read(value: object) -> float:
        if not isinstance(value, str) or not _PERCENTAGE.fullmatch(value):
            raise DocumentError(f"{shown(value)} is not a percentage, such as 10%")
        return float(Decimal(value[:-1]) / 100)

    def check(value: object) -> None:
        if not isinstance(value, float) or not 0 <= value <= 1:
            raise DocumentError(f"{shown(value)} is not between 0% and 100%")

    def write(value: float) -> str:
        return f"{Decimal(repr(value)) * 100:f}".rstrip("0").rstrip(".") + "%" if value else "0%"

    def schema() -> Schema:
        return {
            "type": ["string", "null"],
            "pattern": f"^(?:{_PERCENTAGE.pattern})$",
            "description": "a percentage between 0% and 100%",
        }

    return kind(read, check, write, schema)


def choice(*options: str) -> Kind:
    def read(value: object) -> object:
        # YAML 1.1 reads a bare `off` as false.
        return "off" if value is False and "off" in options else value

    def check(value: object) -> None:
        if value not in options:
            allowed = " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))
            near = did_you_mean(value, options) if options[1:] else ""
            raise DocumentError(f"{shown(value)} is not {allowed}{near}")

    def schema() -> Schema:
        return {"enum": [*options, *([False] if "off" in options else []), None]}

    return kind(read, check, _same, schema)


def flag() -> Kind:
    def check(value: object) -> None:
        if not isinstance(value, bool):
            raise DocumentError(f"{shown(value)} is not true or false")

    return kind(_same, check, _same, lambda: {"type": ["boolean", "null"]})


def text(pattern: re.Pattern[str], what: str) -> Kind:
    def check(value: object) -> None:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise DocumentError(f"{shown(value)} is not {what}")

    def schema() -> Schema:
        return {
            "type": ["string", "null"],
            "pattern": f"^(?:{pattern.pattern})$",
            "description": what,
        }

    return kind(_same, check, _same, schema)


LABEL_KEY = text(re.compile(rf"(?:{SUBDOMAIN}/)?{_VALUE}"), "a label key, such as kubedsm.io/tier")
LABEL_VALUE = text(re.compile(_VALUE), "a label value, such as edge")


def several(one: Kind, *, least: int = 1) -> Kind:
    """One value, or a list of different ones, so many at least; a tuple."""

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            return (one[_KIND].read(value),)
        values = []
        for index, given in enumerate(value):
            with at(index):
                values.append(one[_KIND].read(given))
        return tuple(values)

    def check(values: tuple[Any, ...]) -> None:
        if len(values) < least:
            raise DocumentError("the list is empty")
        for value in values:
            one[_KIND].check(value)
            if values.count(value) > 1:
                raise DocumentError(f"{shown(value)} occurs twice")

    def schema() -> Schema:
        each = one[_KIND].schema()
        many = {"type": "array", "items": each, "minItems": least, "uniqueItems": True}
        return {"anyOf": [each, many]}

    def write(values: tuple[Any, ...]) -> list[Any]:
        return [one[_KIND].write(value) for value in values]

    return kind(read, check, write, schema)


def by_name(name: Kind, one: Kind) -> Kind:
    """Values by the names of what they are about; a mapping."""

    def read(value: object) -> dict[Any, Any]:
        values = {}
        for key, given in mapping(value).items():
            with at(key):
                values[key] = one[_KIND].read(given)
        return values

    def check(values: Mapping[Any, Any]) -> None:
        for key, value in values.items():
            with at(key):
                name[_KIND].check(key)
                one[_KIND].check(value)

    def schema() -> Schema:
        return {
            "type": ["object", "null"],
            "propertyNames": {"pattern": name[_KIND].schema()["pattern"]},
            "additionalProperties": one[_KIND].schema(),
        }

    return kind(read, check, dict, schema)


def section(cls: type[attrs.AttrsInstance]) -> Kind:
    def read(value: object) -> attrs.AttrsInstance:
        return structured(cls, value)

    return kind(read, lambda _: None, document, lambda: section_schema(cls))
