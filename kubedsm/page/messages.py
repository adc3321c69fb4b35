"""What is told to viewers, one message after the other: a snapshot, then what has changed.

A recording is the same messages in a row: a snapshot, and all changes since.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from kubedsm.page.rows import Row, Table

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
    """As JSON, on one line."""
    return _encoder.encode(message)
