"""Documents that people write, YAML or JSON: read by one set of rules, refused by one error."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kubedsm.terminal.problems import Problem

T = TypeVar("T")

#: as a path
STDIN = "-"
#: how much of what was written a complaint repeats
SHOWN = 80
HUGE_BITS = 100

CONFIGURATION = "a configuration of KubeDSM"
DUMP = "a dump of a cluster"
CLUSTER = "a file of nodes"
SERVICES = "a file of services"
SCENARIO = "a load scenario"
KUBECONFIG = "a kubeconfig"
#: which option takes it
_FOR = {
    CONFIGURATION: " (for --config)",
    DUMP: " (for --from)",
    CLUSTER: " (for --cluster)",
    SERVICES: " (for --services)",
    SCENARIO: " (for `kubedsm replay`)",
    KUBECONFIG: " (for --kubeconfig)",
}
#: keys that a document has of which nothing else says what it is
_LISTS = {"items": DUMP, "nodes": CLUSTER, "services": SERVICES, "apis": SCENARIO}
_SECTIONS = ("services", "suggester", "migration", "batch", "objective", "tiers", "optimiser")


class DocumentError(Problem, ValueError):
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
    """Whatever is refused inside is refused of this source, unless it has named one already."""
    try:
        yield
    except DocumentError as error:
        named = error.source or source_of(source)
        raise DocumentError(error.reason, error.place, named) from None


def source_of(path: object) -> str:
    """What complaints call a file."""
    return "standard input" if str(path) == STDIN else str(path)


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
    size = most if most < 0 else most + 1
    with reading(path):
        try:
            if str(path) == STDIN:
                return _standard_input(size)
            with Path(path).open("rb") as file:
                return file.read(size)
        except OSError as error:
            raise DocumentError(error.strerror or str(error)) from None


def _standard_input(size: int) -> bytes:
    if sys.stdin is None or sys.stdin.closed:
        raise DocumentError("closed")
    found = sys.stdin.buffer.read(size)
    if not found:
        raise DocumentError("empty, or read for something else already")
    return found


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


def what_it_is(said: Any) -> str:
    """Nothing if that is not known."""
    if not isinstance(said, Mapping):
        return ""
    kind = said.get("kind")
    if kind == "KubeDSMConfiguration":
        return CONFIGURATION
    if "clusters" in said and "contexts" in said:
        return KUBECONFIG
    of_kubernetes = "apiVersion" in said and not str(said["apiVersion"]).startswith("kubedsm.io/")
    if of_kubernetes and isinstance(kind, str) and kind.isalnum() and len(kind) <= SHOWN:
        article = "an" if kind[0] in "AEIO" else "a"
        return DUMP if isinstance(said.get("items"), list) else f"{article} {kind}"
    for key, what in _LISTS.items():
        entries = said.get(key)
        if isinstance(entries, list) and entries and isinstance(entries[0], Mapping):
            return what
    return CONFIGURATION if any(isinstance(said.get(k), Mapping) for k in _SECTIONS) else ""


def mistaken(said: Any, wanted: str, also: Iterable[str] = ()) -> str:
    """What is wrong if the document is known to be something else; nothing if not."""
    found = what_it_is(said)
    if not found or found == wanted or found in also:
        return ""
    return f"this is {found}{_FOR.get(found, '')}, not {wanted}"


def refuse_others(said: Any, wanted: str, also: Iterable[str] = ()) -> None:
    """Raises DocumentError if the document is known to be something else."""
    if why := mistaken(said, wanted, also):
        raise DocumentError(why)
