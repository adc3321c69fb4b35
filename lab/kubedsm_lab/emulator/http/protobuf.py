"""Decoder of the protobuf request bodies that kubectl sends: `create`, `auth` and `drain`.

Unsupported fields are skipped. Names and types of fields are those of `api.decoding`. The envelope
is that of k8s.io/apimachinery/pkg/runtime/serializer/protobuf, field numbers are those of
generated.proto in k8s.io/api.
"""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import msgspec

from kubedsm_lab.emulator.api.decoding import QUANTITIES, field_types, model_of
from kubedsm_lab.emulator.api.resources import Object, Resource

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BITS = 63
#: number of the envelope's field that holds the object
_RAW = 2

#: by model: field names by number
_FIELDS: Mapping[str, Mapping[int, str]] = msgspec.json.decode(
    files(__package__).joinpath("protobuf_fields.json").read_bytes(),
    type=dict[str, dict[int, str]],
)


class ProtobufError(ValueError):
    """Error: the protobuf message is malformed, or its kind unsupported."""


def decode(body: bytes) -> Object:
    """Decode a protobuf message into the object's JSON form. Raises ProtobufError."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("it does not begin as a Kubernetes protobuf message does")
    envelope = dict(_parts(body[len(_MAGIC) :]))
    identity = dict(_parts(_bytes(envelope.get(1, b""))))
    version, kind = (_read_text(identity.get(number, b"")) for number in (1, 2))
    group, _, short = version.rpartition("/")
    model = model_of(Resource(group, short, "", kind))
    if model not in _FIELDS:
        raise ProtobufError(f"{kind} can only be read as JSON or YAML here")
    return {
        "apiVersion": version,
        "kind": kind,
        **_read_message(_bytes(envelope.get(_RAW, b"")), model),
    }


def _read_message(data: bytes, model: str) -> Object:
    found: Object = {}
    for number, part in _parts(data):
        name = _FIELDS[model].get(number)
        if name is None:
            continue
        kind = field_types()[model][name]
        if kind.startswith("dict("):
            entry = dict(_parts(_bytes(part)))
            value = _read_value(entry.get(2, b""), name, kind[len("dict(str, ") : -1])
            found.setdefault(name, {})[_read_text(entry.get(1, b""))] = value
        elif kind.startswith("list["):
            value = _read_value(part, name, kind[len("list[") : -1])
            found.setdefault(name, []).append(value)
        # Go serializes unset fields as empty text
        elif (value := _read_value(part, name, kind)) != "":
            found[name] = value
    return found


def _read_value(part: int | bytes, name: str, kind: str) -> Any:
    if kind in ("int", "bool"):
        number = _read_integer(part)
        return bool(number) if kind == "bool" else number
    if kind == "str" and name not in QUANTITIES:
        return _read_text(part)
    if kind not in ("str", "object"):
        return _read_message(_bytes(part), kind)
    inner = dict(_parts(_bytes(part)))
    if kind == "str":
        return _read_text(inner.get(1, b"0"))
    # IntOrString: its type, number and text
    return _read_text(inner.get(3, b"")) if inner.get(1) else _read_integer(inner.get(2, 0))


def _parts(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field number and raw value of each field in a protobuf message, in wire order."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if wire_type == _LENGTH:
            length, at = _read_varint(data, at)
        elif wire_type in (_FIXED32, _FIXED64):
            length = 4 if wire_type == _FIXED32 else 8
        else:
            raise ProtobufError(f"wire type {wire_type} at byte {at}")
        if at + length > len(data):
            raise ProtobufError(f"it ends within the field at byte {at}")
        yield number, data[at : at + length]
        at += length


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= _MOST_VARINT_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint has no high bit
            return value, at
        shift += 7
    raise ProtobufError(f"it ends within the number at byte {at}")


def _read_integer(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ProtobufError("a number was expected")
    return value - 2**64 if value >= 2**63 else value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("text or a message was expected")
    return value


def _read_text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise ProtobufError("a text is not UTF-8") from None
