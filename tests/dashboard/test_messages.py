"""What is told is understood as it was meant, also by another version."""

import json
from typing import get_args

import msgspec
import pytest

from kubedsm.dashboard.rows import (
    Changes,
    NodeRow,
    PodRow,
    Snapshot,
    StatusRow,
    Table,
    decode_message,
    encode_message,
)
from kubedsm.model.model import Tier

TABLES = {table: {} for table in get_args(Table)}
NODES = {"e1": NodeRow(Tier.EDGE, 1, 2, 3, state="cordoned"), "x": NodeRow(None, 1, 2, 3)}


@pytest.mark.parametrize(
    "message",
    [
        Snapshot(7, 1.5, {**TABLES, "nodes": NODES, "status": {"now": StatusRow("quiet")}}, "run"),
        Changes(8, 2.5, {"pods": {"a/b": None, "a/c": PodRow("a/w", "waiting", 1.0)}}),
        Changes(9, 3.5, {}),
    ],
)
def test_a_message_comes_back_as_it_was(message):
    assert decode_message(encode_message(message)) == message


def test_what_a_later_version_adds_is_left_out():
    later = json.loads(encode_message(Changes(1, 1.0, {"nodes": NODES})))
    later["rows"]["nodes"]["e1"]["colour"] = "blue"
    later["rows"]["clouds"] = {"c": {}}
    assert decode_message(json.dumps(later).encode()) == Changes(1, 1.0, {"nodes": NODES})


@pytest.mark.parametrize("line", [b"", b"{", b'{"type":"other"}', b'{"type":"changes"}'])
def test_what_is_no_message_is_refused(line):
    with pytest.raises(msgspec.DecodeError):
        decode_message(line)
