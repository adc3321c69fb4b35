"""One-line errors about malformed API objects, with the object's name and the field."""

from collections.abc import Mapping

import msgspec

from kubedsm.config.documents import split_location
from kubedsm.kube.client.port import ClusterError

#: JSON
Source = bytes | msgspec.Raw
#: msgspec's exceptions for malformed input: syntax, schema, encoding, nesting depth
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


class FieldError(ValueError):
    """Error: an API object has an invalid field."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class WireError(ClusterError):
    """Error: an API object violates the schema."""

    def __init__(
        self,
        kind: str,
        path: str,
        reason: str,
        *,
        namespace: str = "",
        name: str = "",
        uid: str = "",
    ) -> None:
        named = "/".join(part for part in (namespace, name) if part)
        subject = f"{kind} {named}" if named else kind
        text = ": ".join(part for part in (subject, path, reason) if part)
        super().__init__(" ".join(text.split()))
        self.kind = kind
        self.path = path
        self.reason = reason
        #: identity, as far as readable
        self.namespace = namespace
        self.name = name
        self.uid = uid


def unreadable(kind: str, error: Exception, source: Source, inside: str = "") -> WireError:
    """Convert a decoding error of msgspec to a WireError with the object's name and field."""
    if isinstance(error, RecursionError):
        return wire_error(kind, "", "nested too deep", source, inside)
    if not isinstance(error, msgspec.ValidationError):
        return WireError(kind, "", f"not JSON: {error}")
    reason, path = split_location(error)
    if inside and path.startswith(inside):
        path = path.removeprefix(inside).removeprefix(".")
    return wire_error(kind, path, reason, source, inside)


def wire_error(kind: str, path: str, reason: str, source: Source, inside: str = "") -> WireError:
    """Return a WireError that includes the object's name, if readable."""
    try:
        shape = msgspec.json.decode(source)
    except UNREADABLE:
        shape = {}
    if inside:
        shape = shape.get(inside) if isinstance(shape, Mapping) else {}
    metadata = shape.get("metadata") if isinstance(shape, Mapping) else {}
    known = {
        field: value
        for field in ("namespace", "name", "uid")
        if isinstance(metadata, Mapping) and isinstance(value := metadata.get(field), str)
    }
    return WireError(kind, path, reason, **known)
