"""Types of configuration fields: parsing, validation, serialisation and JSON Schema.

A section is an attrs class, `@attrs.frozen(field_transformer=validate_fields)`, with fields
declared by `setting` or `subsection`. `read_section` converts parsed YAML or JSON to a section;
`write_section` is the inverse. Constructors validate, hence invalid sections cannot exist.
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
from kubedsm.config.duration import DURATION, DurationError, format_duration, parse_duration

_Section = TypeVar("_Section", bound=attrs.AttrsInstance)

_KIND = "kind"
#: YAML 1.1 reads an exponent without a point and a sign as text, JSON as a number.
_EXPONENT = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?[eE][+-]?[0-9]{1,3}", re.ASCII)
_PERCENTAGE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6})?%", re.ASCII)

#: patterns of names in Kubernetes
LABEL = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(?:\.{LABEL})*"
VALUE = "[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"

#: a JSON Schema
Schema = dict[str, Any]


def _return_unchanged(value: Any) -> Any:
    return value


@attrs.frozen
class Kind:
    """Type of a configuration field: `read` parses a YAML or JSON value, `check` validates.

    `write` serialises. `read` and `check` raise DocumentError. The schema is for editors, and may
    accept more.
    """

    check: Callable[[Any], object]
    schema: Schema
    read: Callable[[Any], Any] = _return_unchanged
    write: Callable[[Any], Any] = _return_unchanged


def setting(default: Any, kind: Kind) -> Any:
    """Declare a configuration field of type `kind`; a field with default None may be absent."""
    return attrs.field(default=default, metadata={_KIND: kind})


def subsection(cls: type[attrs.AttrsInstance]) -> Any:
    """Declare a configuration field that holds a nested section."""
    return setting(cls(), section(cls))


def kind_of(attribute: "attrs.Attribute[Any]") -> Kind:
    kind: Kind = attribute.metadata[_KIND]
    return kind


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return a message suffix that suggests the known word most similar to a mistyped word."""
    words = {_fold_case(word): word for word in known}
    folded = _fold_case(given[:SHOWN]) if isinstance(given, str) else ""
    near = difflib.get_close_matches(folded, words, n=1)
    return f"; did you mean {words[near[0]]}?" if near else ""


def _fold_case(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "")


@cache
def to_camel_case(name: str) -> str:
    """Convert a Python field name to the camelCase key of a configuration document."""
    first, *more = name.split("_")
    return first + "".join(word.capitalize() for word in more)


def _validate_field(_: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    if value is None and attribute.default is None:
        return
    with at(to_camel_case(attribute.name)):
        kind_of(attribute).check(value)


def validate_fields(_: type, fields: "list[attrs.Attribute[Any]]") -> "list[attrs.Attribute[Any]]":
    """attrs field transformer for configuration section classes: validate each field by its
    declared type.
    """
    return [field.evolve(validator=_validate_field) for field in fields]


def require_mapping(value: object) -> Mapping[Any, object]:
    if not isinstance(value, Mapping):
        raise DocumentError(f"{shown(value)} is not a mapping of keys to values")
    return value


def read_section(cls: type[_Section], value: object) -> _Section:
    """Parse a configuration section from a document mapping; absent or null keys get defaults.

    Raises DocumentError.
    """
    attributes = {to_camel_case(attribute.name): attribute for attribute in attrs.fields(cls)}
    values = {}
    for key, given in require_mapping(value).items():
        with at(key):
            if key not in attributes:
                if removed := getattr(cls, "REMOVED", {}).get(key):
                    raise DocumentError(f"no longer a key: {removed}")
                known = f"; the keys here are {', '.join(attributes)}"
                raise DocumentError(f"unknown key{did_you_mean(key, attributes) or known}")
            if given is not None:
                attribute = attributes[key]
                values[attribute.name] = kind_of(attribute).read(given)
    return cls(**values)


def write_section(section: attrs.AttrsInstance) -> dict[str, Any]:
    """Serialise a configuration section to a document mapping: the inverse of `read_section`."""
    return {
        to_camel_case(attribute.name): kind_of(attribute).write(value)
        for attribute in attrs.fields(type(section))
        if (value := getattr(section, attribute.name)) is not None
    }


def section_schema(cls: type[attrs.AttrsInstance]) -> Schema:
    """Return the JSON Schema of a configuration section; every key may be null."""
    properties = {}
    for attribute in attrs.fields(cls):
        kind, default = kind_of(attribute), attribute.default
        written = {} if default is None else {"default": kind.write(default)}
        properties[to_camel_case(attribute.name)] = {**kind.schema, **written}
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def number(low: float, high: float) -> Kind:
    allowed = f"{shown(low)} and {shown(high)}"

    def read_number(value: object) -> object:
        if isinstance(value, str) and _EXPONENT.fullmatch(value):
            return float(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return float(value) if value.bit_length() <= HUGE_BITS else value
        return value

    def check_number(value: object) -> None:
        if not isinstance(value, float):
            raise DocumentError(f"{shown(value)} is not a number between {allowed}")
        if not low <= value <= high:
            raise DocumentError(f"{shown(value)} is not between {allowed}")

    return Kind(
        check_number, {"type": ["number", "null"], "minimum": low, "maximum": high}, read_number
    )


def whole(low: int, high: int) -> Kind:
    def check_whole(value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise DocumentError(f"{shown(value)} is not a whole number between {low} and {high}")
        if not low <= value <= high:
            raise DocumentError(f"{shown(value)} is not between {low} and {high}")

    return Kind(check_whole, {"type": ["integer", "null"], "minimum": low, "maximum": high})


def duration(low: str, high: str, *, instead: str = "") -> Kind:
    """Field type for configurations: duration, stored in seconds; `instead`: remedy in the error
    message for a percentage.
    """
    least, greatest = parse_duration(low), parse_duration(high)
    between = f"a duration between {low} and {high}, such as 500ms, 10s or 1m30s"

    def read_duration(value: object) -> float:
        if not isinstance(value, str):
            raise DocumentError(
                f"{shown(value)} is not a duration with its unit, such as 500ms, 10s or 1m30s"
            )
        try:
            return parse_duration(value)
        except DurationError as error:
            is_percentage = instead and _PERCENTAGE.fullmatch(value)
            raise DocumentError(f"{error}{instead if is_percentage else ''}") from None

    def check_duration(value: float) -> None:
        if not least <= value <= greatest:
            given = format_duration(value) if 0 <= value < math.inf else f"{value:g}s"
            raise DocumentError(f"{given} is not between {low} and {high}")

    return Kind(check_duration, _text_schema(DURATION, between), read_duration, format_duration)


def percentage() -> Kind:
    """Field type for configurations: percentage from `0%` to `100%`, stored as a fraction."""

    def read_percentage(value: object) -> float:
        if not isinstance(value, str) or not _PERCENTAGE.fullmatch(value):
            raise DocumentError(f"{shown(value)} is not a percentage, such as 10%")
        return float(Decimal(value[:-1]) / 100)

    def check_percentage(value: object) -> None:
        if not isinstance(value, float) or not 0 <= value <= 1:
            given = write_percentage(value) if isinstance(value, float) else shown(value)
            raise DocumentError(f"{given} is not between 0% and 100%")

    def write_percentage(value: float) -> str:
        return f"{Decimal(repr(value)) * 100:f}".rstrip("0").rstrip(".") + "%" if value else "0%"

    schema = _text_schema(f"^(?:{_PERCENTAGE.pattern})$", "a percentage between 0% and 100%")
    return Kind(check_percentage, schema, read_percentage, write_percentage)


def choice(*options: str) -> Kind:
    def read_choice(value: object) -> object:
        # YAML 1.1 reads a bare `off` as false.
        return "off" if value is False and "off" in options else value

    def check_choice(value: object) -> None:
        if value not in options:
            allowed = " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))
            near = did_you_mean(value, options) if options[1:] else ""
            if isinstance(value, bool):
                words = "on or yes" if value else "off or no"
                near = f"; YAML reads a bare {words} as {shown(value)}: quote it, such as 'off'"
            raise DocumentError(f"{shown(value)} is not {allowed}{near}")

    return Kind(
        check_choice,
        {"enum": [*options, *([False] if "off" in options else []), None]},
        read_choice,
    )


def flag() -> Kind:
    def check_flag(value: object) -> None:
        if not isinstance(value, bool):
            raise DocumentError(f"{shown(value)} is not true or false")

    return Kind(check_flag, {"type": ["boolean", "null"]})


def text(pattern: re.Pattern[str], what: str) -> Kind:
    def check_text(value: object) -> None:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise DocumentError(f"{shown(value)} is not {what}")

    return Kind(check_text, _text_schema(f"^(?:{pattern.pattern})$", what))


def _text_schema(pattern: str, what: str) -> Schema:
    return {"type": ["string", "null"], "pattern": pattern, "description": what}


LABEL_KEY = text(re.compile(rf"(?:{SUBDOMAIN}/)?{VALUE}"), "a label key, such as kubedsm.io/tier")
LABEL_VALUE = text(re.compile(VALUE), "a label value, such as edge")


def several(one: Kind, *, least: int = 1) -> Kind:
    """Field type for configurations: one value, or a list of at least `least` distinct values;
    stored as a tuple.
    """

    def read_several(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            return (one.read(value),)
        values = []
        for index, given in enumerate(value):
            with at(index):
                values.append(one.read(given))
        return tuple(values)

    def check_several(values: tuple[Any, ...]) -> None:
        if len(values) < least:
            raise DocumentError("the list is empty")
        for value in values:
            one.check(value)
            if values.count(value) > 1:
                raise DocumentError(f"{shown(one.write(value))} occurs twice")

    many = {"type": "array", "items": one.schema, "minItems": least, "uniqueItems": True}
    schema = {"anyOf": [one.schema, many]}
    return Kind(
        check_several, schema, read_several, lambda values: [one.write(value) for value in values]
    )


def by_name(name: Kind, one: Kind) -> Kind:
    """Field type for configurations: mapping with keys of type `name`, and values of type `one`."""

    def read_by_name(value: object) -> dict[Any, Any]:
        values = {}
        for key, given in require_mapping(value).items():
            with at(key):
                values[key] = one.read(given)
        return values

    def check_by_name(values: Mapping[Any, Any]) -> None:
        for key, value in values.items():
            with at(key):
                name.check(key)
                one.check(value)

    schema = {
        "type": ["object", "null"],
        "propertyNames": {"pattern": name.schema["pattern"]},
        "additionalProperties": one.schema,
    }
    return Kind(
        check_by_name,
        schema,
        read_by_name,
        lambda values: {key: one.write(v) for key, v in values.items()},
    )


def section(cls: type[attrs.AttrsInstance]) -> Kind:
    return Kind(
        lambda _: None, section_schema(cls), lambda value: read_section(cls, value), write_section
    )
