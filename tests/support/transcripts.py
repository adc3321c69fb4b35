"""Recorded exchanges with a real API server, as values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from support.recorded import API_SERVER, recorded

Object = dict[str, Any]


@attrs.frozen
class Exchange:
    #: position in the transcript, from 0; what the tables of the test refer to
    index: int
    scene: str
    note: str
    #: in the recorder's words; empty for the administrator
    asker: str
    method: str
    path: str
    content_type: str | None
    body: Any
    status: int
    #: JSON or text; None for a watch
    response: Any
    #: of a watch, in order; None for anything else
    events: list[Object] | None

    def __str__(self) -> str:
        return f"#{self.index} {self.method} {self.path} ({self.note or 'no note'})"


#: keys of a record, in the order of the fields
_KEYS = ("scene", "note", "as", "method", "path", "contentType", "body", "status", "response")


def load(path: Path = API_SERVER) -> list[Exchange]:
    return [
        Exchange(
            index, *(record.get(key, "" if key == "as" else None) for key in (*_KEYS, "watch"))
        )
        for index, record in enumerate(recorded(path))
    ]


def is_list(document: Any) -> bool:
    return isinstance(document, dict) and isinstance(document.get("items"), list)


def objects_of(document: Any) -> list[Object]:
    """Return the stored objects in a response: a single one, or the items of a list."""
    if not isinstance(document, dict):
        return []
    if is_list(document):
        return list(document["items"])
    return [document] if "uid" in document.get("metadata", {}) else []


def recorded_objects(exchanges: list[Exchange]) -> Iterator[Object]:
    """Yield every recorded state of every object, in order."""
    for exchange in exchanges:
        yield from objects_of(exchange.response)
        for event in exchange.events or ():
            yield from objects_of(event.get("object"))
