"""Reading and validation of handwritten YAML and JSON documents."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from kubedsm.terminal.problems import Problem

#: as a path
STDIN = "-"
#: characters of user input that an error message repeats
SHOWN = 80
HUGE_BITS = 100

CONFIGURATION = "a configuration of KubeDSM"
DUMP = "a dump of a cluster"
CLUSTER = "a file of nodes"
SERVICES = "a file of services"
SCENARIO = "a load scenario"
KUBECONFIG = "a kubeconfig"
#: command-line option for each document type
_FOR = {
    CONFIGURATION: " (for --config)",
    DUMP: " (for --from)",
    CLUSTER: " (for --cluster)",
    SERVICES: " (for --services)",
    SCENARIO: " (for `kubedsm replay`)",
    KUBECONFIG: " (for --kubeconfig)",
}
#: distinguishing list of each document type without a kind
_LISTS = {"items": DUMP, "nodes": CLUSTER, "services": SERVICES, "apis": SCENARIO}
_SECTIONS = ("services", "suggester", "migration", "batch", "objective", "tiers", "optimiser")


class DocumentError(Problem, ValueError):
    """Error in a configuration file or other input document: one line that names source, key,
    mistake and remedy.
    """

    def __init__(self, reason: str, place: tuple[str, ...] = (), source: str = "") -> None:
        self.reason = reason
        self.place = place
        self.source = source
        super().__init__(": ".join(part for part in (source, ".".join(place), reason) if part))


@contextmanager
def at(*keys: object) -> Iterator[None]:
    """Context manager: prefix the location in validation errors with a document key, such as
    `services.shop`.
    """
    try:
        yield
    except DocumentError as error:
        place = (*map(key_shown, keys), *error.place)
        raise DocumentError(error.reason, place, error.source) from None


@contextmanager
def reading(source: object) -> Iterator[None]:
    """Context manager: add the source (file or ConfigMap) to validation errors without a source."""
    try:
        yield
    except DocumentError as error:
        named = error.source or source_of(source)
        raise DocumentError(error.reason, error.place, named) from None


def source_of(path: object) -> str:
    """Return the name of a file for messages; `-` is standard input."""
    return "standard input" if str(path) == STDIN else str(path)


def shown(value: object) -> str:
    """Format a configuration value on one short line for an error message."""
    match value:
        case None:
            return "null"
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
    """Format a configuration key for an error message."""
    plain = isinstance(key, str) and key.isprintable() and 0 < len(key) <= SHOWN
    return str(key) if plain else shown(key)


def content(path: str | Path, most: int = -1) -> bytes:
    """Read a document file up to the size limit of `most` bytes, plus one byte to detect longer
    files. Raises DocumentError.
    """
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


_AT = re.compile(r"(?P<reason>.*?)(?: - at `(?P<key>key` in `)?\$(?P<path>.*)`)?", re.DOTALL)


def split_location(error: msgspec.ValidationError) -> tuple[str, str]:
    """Split a msgspec error into reason and path; the path is empty for the whole document."""
    match = _AT.fullmatch(str(error))
    reason, path = (match["reason"], match["path"] or "") if match else (str(error), "")
    return reason[:1].lower() + reason[1:], path.removeprefix(".")


def what_it_is(said: Any) -> str:
    """Describe a document's type, such as kubeconfig or cluster dump; empty if not recognised."""
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


def explain_mistake(said: Any, wanted: str, also: Iterable[str] = ()) -> str:
    """Return an error message if the document's type is not `wanted`; else empty."""
    found = what_it_is(said)
    if not found or found == wanted or found in also:
        return ""
    return f"this is {found}{_FOR.get(found, '')}, not {wanted}"


def refuse_others(said: Any, wanted: str, also: Iterable[str] = ()) -> None:
    """Raise DocumentError if the document is of another recognised type than `wanted`."""
    if why := explain_mistake(said, wanted, also):
        raise DocumentError(why)
