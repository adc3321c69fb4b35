"""Request bodies and options: media types, decoding, dry run, and Table requests."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast, get_args

import msgspec
import orjson

from kubedsm_lab.emulator.api.decoding import drop_unknown_fields
from kubedsm_lab.emulator.api.errors import (
    ApiError,
    bad_request,
    cannot_be_handled,
    invalid,
    invalid_value,
    not_supported,
    unsupported_media_type,
)
from kubedsm_lab.emulator.api.patching import PATCH_TYPES
from kubedsm_lab.emulator.api.resources import Resource
from kubedsm_lab.emulator.api.values import check_depth, without_null_fields
from kubedsm_lab.emulator.http import protobuf
from kubedsm_lab.emulator.http.tables import Include

_JSON = "application/json"
_FEW_BRACKETS = 100
_YAML = "application/yaml"
_OBJECT_TYPES = (_JSON, _YAML, protobuf.MEDIA_TYPE)


def object_in(resource: Resource, body: bytes, content_type: str) -> Any:
    """Decode the object in the body of a POST or PUT. Raises ApiError (400, 415)."""
    media_type = _media_type(content_type) or _JSON
    if media_type not in _OBJECT_TYPES:
        raise unsupported_media_type(_OBJECT_TYPES)
    what = f"the object provided is unrecognized (must be of type {resource.kind})"
    value = _decode_body(body, what, media_type)
    return without_null_fields(value) if b"null" in body and isinstance(value, dict) else value


def patch_in(body: bytes, content_type: str) -> tuple[Any, str]:
    """Decode the body of a PATCH; return the patch and its media type.

    Raises ApiError (400, 415).
    """
    media_type = _media_type(content_type)
    if media_type not in PATCH_TYPES:
        raise unsupported_media_type(PATCH_TYPES)
    return _decode_body(body, "error decoding patch", media_type), media_type


def options_in(body: bytes, content_type: str) -> Any:
    """Decode the DeleteOptions in the body of a DELETE; None if empty. Raises ApiError (400)."""
    if not body.strip():
        return None
    return _decode_body(body, "DeleteOptions", _media_type(content_type))


def is_dry_run(query: Mapping[str, str]) -> bool:
    """Return whether the query has dryRun=All. Raises ApiError (422) for other values."""
    asked = query.get("dryRun", "")
    if asked not in ("", "All"):
        raise invalid("CreateOptions", "meta.k8s.io", "", [not_supported("dryRun", asked, ["All"])])
    return bool(asked)


def parse_table_request(accept: str, query: Mapping[str, str]) -> Include | None:
    """Return the requested content of a Table's rows; None if no Table is requested.

    Raises ApiError (400, 406).
    """
    if not accept or accept == _JSON:
        return None
    acceptable = False
    for part in accept.split(","):
        media_type, *parameters = (piece.strip() for piece in part.split(";"))
        acceptable = acceptable or media_type in (_JSON, "application/*", "*/*")
        if media_type == _JSON and {"as=Table", "g=meta.k8s.io", "v=v1"} <= set(parameters):
            include = query.get("includeObject") or "Metadata"
            if include not in get_args(Include):
                raise bad_request(f'unrecognized includeObject value: "{include}"')
            return cast("Include", include)
    if not acceptable:
        message = f"only the following media types are accepted: {_JSON}"
        raise ApiError(406, "NotAcceptable", message, {})
    return None


def wants_metadata(accept: str) -> bool:
    """Return True if a request asks for PartialObjectMetadata or a list of it."""
    return "as=PartialObjectMetadata" in accept


def decode_strictly(
    resource: Resource, document: Any, body: bytes, mode: str, *, is_patch: bool = False
) -> tuple[Any, str]:
    """Return an object or a patch without unknown fields, and the warning about unknown and doubled
    fields; `mode` is the request's fieldValidation.

    Raises ApiError (400; 422 for patches) in mode Strict, and for unknown modes.
    """
    if mode not in ("", "Ignore", "Warn", "Strict"):
        supported = ["Ignore", "Strict", "Warn"]
        error = not_supported("fieldValidation", mode, supported)
        raise invalid("CreateOptions", "meta.k8s.io", "", [error])
    known, unknown = drop_unknown_fields(resource, document)
    # A second parser is slow; clients of people name the mode, controllers do not.
    doubled = _list_doubled(body) if mode in ("Warn", "Strict") else []
    problems = [
        *(f'unknown field "{path}"' for path in unknown),
        *(f'duplicate field "{path}"' for path in doubled),
    ]
    if problems and mode == "Strict":
        why = f"strict decoding error: {', '.join(problems)}"
        if is_patch:
            raise invalid(resource.kind, resource.group, "", [invalid_value("patch", known, why)])
        raise cannot_be_handled(resource, why)
    return known, "" if mode == "Ignore" else ", ".join(problems)


class _Mapping(dict[str, Any]):
    """JSON object that knows which of its keys occur more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counted = Counter(key for key, _ in pairs)
        self.doubled = [key for key, number in counted.items() if number > 1]


def _list_doubled(body: bytes) -> list[str]:
    """Return the paths of fields that a JSON body has more than once; none for another format."""
    try:
        return list(_walk_doubled(json.loads(body, object_pairs_hook=_Mapping), ""))
    except ValueError:
        return []


def _walk_doubled(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Mapping):
        yield from (f"{path}.{key}".lstrip(".") for key in value.doubled)
        for key, inside in value.items():
            yield from _walk_doubled(inside, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inside in enumerate(value):
            yield from _walk_doubled(inside, f"{path}[{index}]")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _decode_body(body: bytes, what: str, media_type: str) -> Any:
    try:
        if media_type == protobuf.MEDIA_TYPE:
            return protobuf.decode(body)
        if media_type == _YAML:
            # JSON has no dates, and only text as keys.
            value = orjson.loads(orjson.dumps(msgspec.yaml.decode(body)))
        else:
            value = orjson.loads(body)
    except (
        RecursionError,
        orjson.JSONDecodeError,
        orjson.JSONEncodeError,
        msgspec.DecodeError,
        protobuf.ProtobufError,
    ) as error:
        raise bad_request(f"{what}: parse error: {error}") from None
    # Only a body with many brackets can be deep.
    if body.count(b"{") + body.count(b"[") > _FEW_BRACKETS or media_type != _JSON:
        check_depth(value)
    return value
