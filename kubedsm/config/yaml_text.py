"""Event-based YAML (and JSON) parser on libyaml, with limits for untrusted documents.

Limits apply to nesting depth and to alias expansion. Duplicate keys, tags and merge keys are
refused, since a lenient decoder would hide mistakes. Keys and dates are text.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from kubedsm.config.documents import DocumentError, at, refuse_others

#: the pure Python parser is ten times slower
FAST = bool(yaml.__with_libyaml__)
_PARSER = yaml.CSafeLoader if FAST else yaml.SafeLoader
#: maximum nesting depth
_DEEPEST = 200
#: maximum number of values repeated by aliases
_MOST_REPEATED = 100_000
_TAG = "tag:yaml.org,2002:"
_COLLECTIONS = {None, "!", f"{_TAG}map", f"{_TAG}seq"}
_TEXT = {f"{_TAG}{name}" for name in ("str", "timestamp", "value")}
_AS_TEXT = yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG
_RESOLVERS = yaml.SafeLoader.yaml_implicit_resolvers
_CONSTRUCTORS = yaml.constructor.SafeConstructor()
_CONSTRUCTED = {
    f"{_TAG}null": _CONSTRUCTORS.construct_yaml_null,
    f"{_TAG}bool": _CONSTRUCTORS.construct_yaml_bool,
    f"{_TAG}int": _CONSTRUCTORS.construct_yaml_int,
    f"{_TAG}float": _CONSTRUCTORS.construct_yaml_float,
}
#: PyYAML's exceptions; constructors raise the last three for scalars unlike their tag
_UNREADABLE = (yaml.YAMLError, ValueError, KeyError, AttributeError)


def parse_yaml(text: str | bytes, wanted: str = "") -> Any:
    """Parse text with a single YAML document; return None for empty text.

    wanted: expected document type. Raises DocumentError.
    """
    said = None
    for number, (value, where) in enumerate(_parse_documents(text)):
        if number:
            raise DocumentError(f"another document begins{where}; there must be one only")
        said = value
        if wanted:
            refuse_others(said, wanted)
    return said


def parse_all_yaml(text: str | bytes) -> list[Any]:
    """Parse every document in the text. Raises DocumentError."""
    return [value for value, _ in _parse_documents(text)]


def _parse_documents(text: str | bytes) -> Iterator[tuple[Any, str]]:
    """Yield each YAML document in the text, with its starting position."""
    try:
        parser = _PARSER(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
        while not isinstance(event := parser.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                yield _Document(parser).value(), _position_of(event.start_mark)
    except DocumentError:
        raise
    except UnicodeError:
        raise DocumentError("not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        # libyaml of PyYAML 6.0.4 limits the depth itself, before the events reach us.
        if "nesting" in (error.problem or ""):
            raise DocumentError("nested too deeply") from None
        raise DocumentError(
            f"not YAML: {error.problem}{_position_of(error.problem_mark)}"
        ) from None
    except _UNREADABLE as error:
        raise DocumentError(f"not YAML: {' '.join(str(error).split())[:200]}") from None


def _position_of(mark: Any) -> str:
    return f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""


class _Document:
    """Iterative parser of one YAML document, whose nesting cannot exhaust the Python stack."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        #: anchored value and number of contained values, by anchor
        self._anchors: dict[str, tuple[Any, int]] = {}
        #: cache of constructed plain scalars
        self._plain: dict[str, Any] = {}
        #: stack of open collections: container, pending key, anchor, count at the start
        self._open: list[tuple[Any, str | None, str | None, int]] = []
        self._repeated = 0

    def value(self) -> Any:  # noqa: C901 - the loop over a hundred thousand lines
        next_event, opened = self._parser.get_event, self._open
        inside: Any = None
        key: str | None = None
        count = 0
        while True:
            event = next_event()
            kind = type(event)
            count += 1
            if kind is yaml.ScalarEvent:
                if key is None and type(inside) is dict:
                    key = self._read_key(event, inside)
                    continue
                value = self._read_scalar(event)
                if event.anchor is not None:
                    self._anchors[event.anchor] = value, 1
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._check_opening(event, key, inside)
                opened.append((inside, key, event.anchor, count))
                inside, key = {} if kind is yaml.MappingStartEvent else [], None
                continue
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                value = inside
                inside, key, anchor, since = opened.pop()
                if anchor is not None:
                    self._anchors[anchor] = value, count - since
            elif kind is yaml.AliasEvent:
                value, size = self._resolve_alias(event, key, inside)
                count += size
            else:  # the document's end, without a value
                return None
            if inside is None:
                return value
            if key is None:
                inside.append(value)
            else:
                inside[key] = value
                key = None

    def _check_opening(self, event: Any, key: str | None, inside: Any) -> None:
        """Refuse a YAML mapping or sequence that is misplaced, tagged or too deeply nested."""
        if key is None and isinstance(inside, dict):
            with at(*self._current_place()):
                raise DocumentError(f"a key must be text{_position_of(event.start_mark)}")
        if event.tag not in _COLLECTIONS:
            self._refuse_tag(event.tag, event, key)
        if len(self._open) >= _DEEPEST:
            raise DocumentError("nested too deeply")

    def _read_key(self, event: Any, inside: dict[str, Any]) -> str:
        name: str = event.value
        tag = self._resolve_tag(event)
        if tag not in _CONSTRUCTED and tag not in _TEXT:
            self._refuse_tag(tag, event, name)
        if name in inside:
            with at(*self._current_place(), name):
                raise DocumentError(f"given twice{_position_of(event.start_mark)}")
        if event.anchor is not None:
            self._anchors[event.anchor] = name, 1
        return name

    def _read_scalar(self, event: Any) -> Any:
        text = event.value
        if event.tag is not None or not event.implicit[0]:
            return (
                text
                if event.tag is None
                else self._construct_scalar(self._resolve_tag(event), event)
            )
        if text[:1] not in _RESOLVERS:
            return text
        if text not in self._plain:
            self._plain[text] = self._construct_scalar(self._resolve_tag(event), event)
        return self._plain[text]

    def _resolve_tag(self, event: Any) -> str:
        """Return the YAML tag of a scalar value: explicit, or resolved from the scalar's text."""
        tag: str | None = event.tag
        if tag is not None and tag != "!":
            return tag
        if event.implicit[0]:
            for resolved, pattern in _RESOLVERS.get(event.value[:1], ()):
                if pattern.match(event.value):
                    return str(resolved)
        return _AS_TEXT

    def _construct_scalar(self, tag: str, event: Any) -> Any:
        if tag in _TEXT:
            return event.value
        if tag not in _CONSTRUCTED:
            self._refuse_tag(tag, event)
        return _CONSTRUCTED[tag](yaml.ScalarNode(tag, event.value))

    def _resolve_alias(self, event: Any, key: str | None, inside: Any) -> tuple[Any, int]:
        if event.anchor not in self._anchors:
            where = _position_of(event.start_mark)
            raise DocumentError(f"not YAML: found undefined alias {event.anchor!r}{where}")
        if key is None and isinstance(inside, dict):
            raise DocumentError(f"an alias is no key{_position_of(event.start_mark)}")
        value, size = self._anchors[event.anchor]
        self._repeated += size
        if self._repeated > _MOST_REPEATED:
            raise DocumentError("its aliases repeat too much")
        return value, size

    def _refuse_tag(self, tag: str, event: Any, *key: str | None) -> None:
        with at(*self._current_place(), *(each for each in key if each is not None)):
            raise DocumentError(f"{tag!r} has no meaning here{_position_of(event.start_mark)}")

    def _current_place(self) -> list[str]:
        return [key for _, key, _, _ in self._open if key is not None]


def list_key_lines(text: str | bytes) -> dict[tuple[str, ...], int]:
    """Return the line number of each key in YAML text, counted from 1."""
    found: dict[tuple[str, ...], int] = {}

    def note(node: yaml.Node | None, place: tuple[str, ...]) -> None:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            found[(*place, key.value)] = key.start_mark.line + 1
            note(value, (*place, key.value))

    note(yaml.compose(text, yaml.SafeLoader), ())
    return found
