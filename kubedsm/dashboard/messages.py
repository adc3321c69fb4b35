"""What is told to viewers, one message after the other: a snapshot, then what has changed.

A recording is the same messages in a row: a snapshot, and all changes since.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from kubedsm.dashboard.rows import (
    MoveRow,
    NewsRow,
    NodeRow,
    PodRow,
    Row,
    StatusRow,
    Table,
    WorkloadRow,
)
from kubedsm.terminal.echo import escape_strings

#: of each table, its rows by their keys; None: the row is gone
Rows: TypeAlias = Mapping[Table, Mapping[str, Row | None]]


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot", rename="camel", omit_defaults=True):
    """All rows there are."""

    version: int
    #: seconds since the epoch
    at: float
    rows: Rows
    #: of the process that tells it; versions count anew in each
    run: str = ""


class Changes(msgspec.Struct, frozen=True, tag="changes", rename="camel"):
    """The rows that differ from those of the version before, and None for those that are gone."""

    version: int
    at: float
    rows: Rows


Message: TypeAlias = Snapshot | Changes
_encoder = msgspec.json.Encoder()


def encoded(message: Message) -> bytes:
    """As JSON, on one line, with unprintable characters escaped."""
    return escape_strings(_encoder.encode(message))


class _Tables(msgspec.Struct, frozen=True, omit_defaults=True):
    """By its types each row is known for what it is; a table of a later version is left out."""

    nodes: dict[str, NodeRow | None] = {}
    pods: dict[str, PodRow | None] = {}
    workloads: dict[str, WorkloadRow | None] = {}
    moves: dict[str, MoveRow | None] = {}
    news: dict[str, NewsRow | None] = {}
    status: dict[str, StatusRow | None] = {}


class _Told(msgspec.Struct, frozen=True, rename="camel"):
    type: Literal["snapshot", "changes"]
    version: int
    at: float
    rows: _Tables
    run: str = ""


_decoder = msgspec.json.Decoder(_Told)


def decoded(line: bytes) -> Message:
    """Raises msgspec.DecodeError if that is no message."""
    told = _decoder.decode(line)
    rows: Rows = msgspec.structs.asdict(told.rows)  # type: ignore[assignment]  # by its tables
    if told.type == "snapshot":
        return Snapshot(told.version, told.at, rows, told.run)
    return Changes(told.version, told.at, {table: some for table, some in rows.items() if some})
