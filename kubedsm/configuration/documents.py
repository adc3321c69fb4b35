"""Documents that people write, YAML or JSON: read by one set of rules, refused by one error."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

T = TypeVar("T")

#: how much of what was written a complaint repeats
SHOWN = 80
HUGE_BITS = 100
#: everything that a document can be made of
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp")
)
#: what PyYAML raises; the last three come from its constructors, for scalars unlike their tag
UNREADABLE = (yaml.YAMLError, RecursionError, ValueError, KeyError, AttributeError)


class DocumentError(ValueError):
    """One line: the source, the key, what is wrong there and what would be right."""

    def __init__(self, reason: str, place: tuple[str, ...] = (), source: str = "") -> None:
        self.reason = reason
        self.place = place
        self.source = source
        super().__init__(": ".join(part for part in (source, ".".join(place), reason) if part))


@contextmanager
def at(*keys: object) -> Iterator[None]:
    """Whatever is refused inside is refused at this key."""
    try:
        yield
    except DocumentError as error:
        place = (*map(key_shown, keys), *error.place)
        raise DocumentError(error.reason, place, error.source) from None


@contextmanager
def reading(source: object) -> Iterator[None]:
    """Whatever is refused inside is refused of this source."""
    try:
        yield
    except DocumentError as error:
        raise DocumentError(error.reason, error.place, str(source)) from None


def shown(value: object) -> str:
    """The value as a person would recognise it, on one short line."""
    match value:
        case bool():
            return str(value).lower()
        case Mapping():
            return "a mapping"
        case list() | tuple() | set():
            return "a list"
        case int() if value.bit_length() > HUGE_BITS:
            return "a huge number"
        case str() | int():
            text = repr(value)
            return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        case float():
            return repr(value).removesuffix(".0")
    return f"a {type(value).__name__}"


def key_shown(key: object) -> str:
    """The key as complaints have it."""
    plain = isinstance(key, str) and key.isprintable() and 0 < len(key) <= SHOWN
    return str(key) if plain else shown(key)


def content(path: str | Path, most: int = -1) -> bytes:
    """What is in the file; of more than so many bytes one more. Raises DocumentError."""
    try:
        with Path(path).open("rb") as file:
            return file.read(most if most < 0 else most + 1)
    except OSError as error:
        raise DocumentError(error.strerror or str(error), source=str(path)) from None


def parsed(text: str | bytes) -> Any:
    """What the document says; nothing is None. Raises DocumentError."""
    return _parsed(text, lambda loader: [loader.get_single_node()])[0]


def parsed_all(text: str | bytes) -> list[Any]:
    """What each of the documents in the text says. Raises DocumentError."""

    def nodes(loader: yaml.SafeLoader) -> Iterator[yaml.Node | None]:
        while loader.check_node():
            yield loader.get_node()

    return _parsed(text, nodes)


def _parsed(
    text: str | bytes, nodes: Callable[[yaml.SafeLoader], Iterable[yaml.Node | None]]
) -> list[Any]:
    try:
        loader = yaml.SafeLoader(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
        values = []
        for node in nodes(loader):
            _refuse_odd_yaml(node, set())
            values.append(None if node is None else loader.construct_document(node))
    except DocumentError:
        raise
    except UnicodeError:
        raise DocumentError("not UTF-8 text") from None
    except RecursionError:
        raise DocumentError("nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        raise DocumentError(f"not YAML: {error.problem}{_where(error.problem_mark)}") from None
    except UNREADABLE as error:
        raise DocumentError(f"not YAML: {' '.join(str(error).split())[:200]}") from None
    return values


def _where(mark: yaml.Mark | None) -> str:
    return f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def lines(text: str | bytes) -> dict[tuple[str, ...], int]:
    """The lines of the keys, counted from 1, in text that `parsed` takes."""
    found: dict[tuple[str, ...], int] = {}

    def note(node: yaml.Node | None, place: tuple[str, ...]) -> None:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            found[(*place, key.value)] = key.start_mark.line + 1
            note(value, (*place, key.value))

    note(yaml.compose(text, yaml.SafeLoader), ())
    return found


def _refuse_odd_yaml(node: yaml.Node | None, seen: set[int]) -> None:
    """Refuse what a decoder would take and no user can have meant.

    A key given twice silently hides the first one; tags and merge keys run constructors that a
    document of ours has no use for.
    """
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if node.tag not in _PLAIN_TAGS:
        raise DocumentError(f"{node.tag!r} has no meaning here{_where(node.start_mark)}")
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_odd_yaml(item, seen)
    elif isinstance(node, yaml.MappingNode):
        keys = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise DocumentError(f"a key must be text{_where(key.start_mark)}")
            with at(key.value):
                if key.value in keys:
                    raise DocumentError(f"given twice{_where(key.start_mark)}")
                keys.add(key.value)
                _refuse_odd_yaml(key, seen)
                _refuse_odd_yaml(value, seen)


def converted(value: Any, shape: type[T]) -> T:
    """The value in that shape. Raises DocumentError."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        reason, place = located(error)
        raise DocumentError(reason, (place,) if place else ()) from None


def json_as(text: bytes, shape: type[T]) -> T:
    """What JSON of ours, or of a program's, says, in that shape. Raises DocumentError."""
    try:
        return msgspec.json.decode(text, type=shape)
    except msgspec.ValidationError as error:
        reason, place = located(error)
        raise DocumentError(reason, (place,) if place else ()) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DocumentError(f"not JSON: {error}") from None


_AT = re.compile(r"(?P<reason>.*?)(?: - at `(?P<key>key` in `)?\$(?P<path>.*)`)?", re.DOTALL)


def located(error: msgspec.ValidationError) -> tuple[str, str]:
    """What is wrong, and at which path; the path is empty for the value as a whole."""
    match = _AT.fullmatch(str(error))
    reason, path = (match["reason"], match["path"] or "") if match else (str(error), "")
    return reason[:1].lower() + reason[1:], path.removeprefix(".")
