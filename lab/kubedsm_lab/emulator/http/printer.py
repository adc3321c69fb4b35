"""What a table of one kind of object looks like: its columns, and the cells of an object."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import attrs

from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.api.selectors import label_selector_of
from kubedsm_lab.emulator.http.durations import age

NONE = "<none>"
UNKNOWN = "<unknown>"


@attrs.frozen
class Column:
    name: str
    type: Literal["string", "integer", "boolean"] = "string"
    #: shown by `-o wide` only
    wide: bool = attrs.field(default=False, kw_only=True)
    description: str = attrs.field(default="", kw_only=True)


@attrs.frozen
class Printer:
    columns: tuple[Column, ...]
    #: (object, now) → one cell a column; now in seconds since the epoch
    cells: Callable[[Object, float], list[Any]]


NAME = Column("Name", description="Unique within its namespace, and not changeable.")
AGE = Column("Age", description="The time since creationTimestamp.")


def age_of(obj: Object, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def joined(words: Sequence[str], limit: int | None = None) -> str:
    """Comma-separated; beyond `limit` words only how many more there are."""
    if not words:
        return NONE
    if limit is not None and len(words) > limit:
        return ",".join(words[:limit]) + f" + {len(words) - limit} more..."
    return ",".join(words)


def equalities(labels: Mapping[str, str] | None) -> str:
    return joined([f"{key}={value}" for key, value in sorted((labels or {}).items())])


def label_selector(selector: Object | None) -> str:
    """A LabelSelector in the notation of the command line."""
    return str(label_selector_of(selector or {})) or NONE
