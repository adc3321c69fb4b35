"""Kinds of fields a configuration document has: how each is read, checked and written.

A section is a frozen attrs class whose fields are made by `field`. `structured` makes a section
of what YAML or JSON says, `document` the reverse. Checks run in the constructor too, so that no
section with a bad value exists, however it was made.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs

from kubedsm.core.duration import DurationError, format_duration, parse_duration

_Section = TypeVar("_Section", bound=attrs.AttrsInstance)

_KIND = "kind"
#: YAML 1.1 reads an exponent without a point and a sign as text, JSON as a number.
_EXPONENT = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?[eE][+-]?[0-9]{1,3}", re.ASCII)


class ConfigurationError(ValueError):
    """One line: the source, the key, what is wrong there and what would be right."""

    def __init__(self, reason: str, place: tuple[str, ...] = (), source: str = "") -> None:
        self.reason = reason
        self.place = place
        self.source = source
        super().__init__(": ".join(part for part in (source, ".".join(place), reason) if part))


@contextmanager
def at(key: object) -> Iterator[None]:
    """Whatever is refused inside is refused at this key."""
    try:
        yield
    except ConfigurationError as error:
        place = (_key_shown(key), *error.place)
        raise ConfigurationError(error.reason, place, error.source) from None


@attrs.frozen
class Kind:
    #: from what YAML or JSON gives to the value; raises ConfigurationError
    read: Callable[[Any], Any]
    #: raises ConfigurationError unless the value is one that may be
    check: Callable[[Any], None]
    #: from the value to what `read` takes
    write: Callable[[Any], Any]


def shown(value: object) -> str:
    """The value as a person would recognise it, on one short line."""
    match value:
        case bool():
            return str(value).lower()
        case Mapping():
            return "a mapping"
        case list() | tuple() | set():
            return "a list"
        case str() | int() | float():
            text = repr(value)
            return text if len(text) <= 60 else f"{text[:60]}..."
    return f"a {type(value).__name__}"


def _key_shown(key: object) -> str:
    plain = isinstance(key, str) and key.isprintable() and 0 < len(key) <= 100
    return str(key) if plain else shown(key)


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """The end of a complaint about a word that is not among the known ones."""
    words = {_folded(word): word for word in known}
    near = difflib.get_close_matches(_folded(str(given)[:100]), words, n=1)
    return f"; did you mean {words[near[0]]}?" if near else ""


def _folded(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "")


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(word.capitalize() for word in more)


def _validate(_: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    if value is None and attribute.default is None:
        return
    with at(_camel(attribute.name)):
        attribute.metadata[_KIND].check(value)


def field(kind: Kind, default: object = attrs.NOTHING) -> Any:
    """A field of a section; with default None it may be left out."""
    return attrs.field(default=default, validator=_validate, metadata={_KIND: kind})


def mapping(value: object) -> Mapping[Any, object]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{shown(value)} is not a mapping of keys to values")
    return value


def structured(cls: type[_Section], value: object) -> _Section:
    """The section that the document describes; a key that is missing or null has its default.

    Raises ConfigurationError.
    """
    attributes = {_camel(attribute.name): attribute for attribute in attrs.fields(cls)}
    values = {}
    for key, given in mapping(value).items():
        with at(key):
            if key not in attributes:
                known = f"; the keys here are {', '.join(attributes)}"
                raise ConfigurationError(f"unknown key{did_you_mean(key, attributes) or known}")
            if given is not None:
                attribute = attributes[key]
                values[attribute.name] = attribute.metadata[_KIND].read(given)
    return cls(**values)


def document(section: attrs.AttrsInstance) -> dict[str, Any]:
    """What `structured` reads as this section."""
    return {
        _camel(attribute.name): attribute.metadata[_KIND].write(value)
        for attribute in attrs.fields(type(section))
        if (value := getattr(section, attribute.name)) is not None
    }


def _same(value: Any) -> Any:
    return value


def _within(value: float, low: float, high: float, write: Callable[[float], object]) -> None:
    if not low <= value <= high:
        raise ConfigurationError(
            f"{write(value)} is not between {write(low)} and {write(high)}"
        )


def number(low: float, high: float) -> Kind:
    def read(value: object) -> float:
        if isinstance(value, str) and _EXPONENT.fullmatch(value):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigurationError(
                f"{shown(value)} is not a number between {low:g} and {high:g}"
            )
        # An integer may be too large for a float.
        return float(max(-1e300, min(1e300, value))) + 0.0

    def check(value: float) -> None:
        if math.isnan(value):
            raise ConfigurationError(f"nan is not between {low:g} and {high:g}")
        _within(value, low, high, "{:g}".format)

    return Kind(read, check, _same)


def whole(low: int, high: int) -> Kind:
    def read(value: object) -> int:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(
                f"{shown(value)} is not a whole number between {low} and {high}"
            )
        return value

    return Kind(read, lambda value: _within(value, low, high, shown), _same)


def duration(low: str, high: str) -> Kind:
    least, greatest = parse_duration(low), parse_duration(high)

    def read(value: object) -> float:
        if not isinstance(value, str):
            raise ConfigurationError(
                f"{shown(value)} is not a duration with its unit, such as 500ms, 10s or 1m30s"
            )
        try:
            return parse_duration(value)
        except DurationError as error:
            raise ConfigurationError(str(error)) from None

    def check(value: float) -> None:
        if not least <= value <= greatest:
            given = format_duration(value) if 0 <= value < math.inf else f"{value} s"
            raise ConfigurationError(f"{given} is not between {low} and {high}")

    return Kind(read, check, format_duration)


def choice(*options: str) -> Kind:
    def read(value: object) -> object:
        # YAML 1.1 reads a bare `off` as false.
        return "off" if value is False and "off" in options else value

    def check(value: object) -> None:
        if value not in options:
            allowed = f"{', '.join(options[:-1])} or {options[-1]}" if options[1:] else options[0]
            raise ConfigurationError(
                f"{shown(value)} is not {allowed}{did_you_mean(value, options)}"
            )

    return Kind(read, check, _same)


def flag() -> Kind:
    def check(value: object) -> None:
        if not isinstance(value, bool):
            raise ConfigurationError(f"{shown(value)} is not true or false")

    return Kind(_same, check, _same)


def text(pattern: re.Pattern[str], what: str) -> Kind:
    def check(value: object) -> None:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ConfigurationError(f"{shown(value)} is not {what}")

    return Kind(_same, check, _same)


def several(one: Kind) -> Kind:
    """One value, or a list of different ones; a tuple."""

    def read(value: object) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, list) else (value,)

    def check(values: tuple[Any, ...]) -> None:
        if not values:
            raise ConfigurationError("the list is empty")
        for value in values:
            one.check(value)
            if values.count(value) > 1:
                raise ConfigurationError(f"{shown(value)} occurs twice")

    return Kind(read, check, list)


def section(cls: type[attrs.AttrsInstance]) -> Kind:
    return Kind(lambda value: structured(cls, value), lambda _: None, document)
