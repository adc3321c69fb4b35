"""Reads the protobuf bodies that kubectl sends: `create`, `auth`, and `drain`.

Only reading, and only the fields those commands set; what is not named is skipped. The envelope
is k8s.io/apimachinery/pkg/runtime/serializer/protobuf, field numbers are those of the
generated.proto of k8s.io/api.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs

from kubedsm_lab.emulator.api.resources import Object

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BITS = 63


class ProtobufError(ValueError):
    """The bytes are no such message, or of a kind that cannot be read here."""


@attrs.frozen
class _Field:
    name: str
    kind: "Literal['text', 'int', 'bool', 'int-or-text', 'quantity'] | Mapping[int, _Field]"
    #: a list of them, or a map with text as keys
    repeated: Literal["", "list", "map"] = ""


_Message = Mapping[int, _Field]


def _text(name: str) -> _Field:
    return _Field(name, "text")


def _texts(name: str) -> _Field:
    return _Field(name, "text", "list")


def _map(name: str) -> _Field:
    return _Field(name, "text", "map")


_METADATA: _Message = {
    1: _text("name"), 2: _text("generateName"), 3: _text("namespace"), 5: _text("uid"),
    6: _text("resourceVersion"), 11: _map("labels"), 12: _map("annotations"),
    14: _texts("finalizers"),
}  # fmt: skip
_META = _Field("metadata", _METADATA)
_SELECTOR: _Message = {1: _map("matchLabels")}
_ENV: _Message = {1: _text("name"), 2: _text("value")}
_PORT: _Message = {
    1: _text("name"), 2: _Field("hostPort", "int"), 3: _Field("containerPort", "int"),
    4: _text("protocol"),
}  # fmt: skip
_RESOURCES: _Message = {
    1: _Field("limits", "quantity", "map"),
    2: _Field("requests", "quantity", "map"),
}
_CONTAINER: _Message = {
    1: _text("name"), 2: _text("image"), 3: _texts("command"), 4: _texts("args"),
    6: _Field("ports", _PORT, "list"), 7: _Field("env", _ENV, "list"),
    8: _Field("resources", _RESOURCES), 14: _text("imagePullPolicy"),
}  # fmt: skip
_POD_SPEC: _Message = {
    2: _Field("containers", _CONTAINER, "list"), 3: _text("restartPolicy"),
    4: _Field("terminationGracePeriodSeconds", "int"), 7: _map("nodeSelector"),
    8: _text("serviceAccountName"), 19: _text("schedulerName"),
}  # fmt: skip
_TEMPLATE: _Message = {1: _META, 2: _Field("spec", _POD_SPEC)}
_DEPLOYMENT_SPEC: _Message = {
    1: _Field("replicas", "int"),
    2: _Field("selector", _SELECTOR),
    3: _Field("template", _TEMPLATE),
}
_SERVICE_PORT: _Message = {
    1: _text("name"), 2: _text("protocol"), 3: _Field("port", "int"),
    4: _Field("targetPort", "int-or-text"), 5: _Field("nodePort", "int"),
}  # fmt: skip
_SERVICE_SPEC: _Message = {
    1: _Field("ports", _SERVICE_PORT, "list"), 2: _map("selector"), 3: _text("clusterIP"),
    4: _text("type"), 10: _text("externalName"),
}  # fmt: skip
_BUDGET_SPEC: _Message = {
    1: _Field("minAvailable", "int-or-text"),
    2: _Field("selector", _SELECTOR),
    3: _Field("maxUnavailable", "int-or-text"),
}
_TARGET: _Message = {1: _text("kind"), 2: _text("name"), 3: _text("apiVersion")}
_OLD_AUTOSCALER_SPEC: _Message = {
    1: _Field("scaleTargetRef", _TARGET), 2: _Field("minReplicas", "int"),
    3: _Field("maxReplicas", "int"), 4: _Field("targetCPUUtilizationPercentage", "int"),
}  # fmt: skip
_METRIC_TARGET: _Message = {
    1: _text("type"), 2: _Field("value", "quantity"), 3: _Field("averageValue", "quantity"),
    4: _Field("averageUtilization", "int"),
}  # fmt: skip
_RESOURCE_METRIC: _Message = {1: _text("name"), 2: _Field("target", _METRIC_TARGET)}
_METRIC: _Message = {1: _text("type"), 4: _Field("resource", _RESOURCE_METRIC)}
_AUTOSCALER_SPEC: _Message = {
    1: _Field("scaleTargetRef", _TARGET), 2: _Field("minReplicas", "int"),
    3: _Field("maxReplicas", "int"), 4: _Field("metrics", _METRIC, "list"),
}  # fmt: skip
_JOB_SPEC: _Message = {
    1: _Field("parallelism", "int"), 2: _Field("completions", "int"),
    3: _Field("activeDeadlineSeconds", "int"), 6: _Field("template", _TEMPLATE),
    7: _Field("backoffLimit", "int"), 8: _Field("ttlSecondsAfterFinished", "int"),
    9: _text("completionMode"), 10: _Field("suspend", "bool"),
}  # fmt: skip
_PRIORITY_CLASS: _Message = {
    1: _META, 2: _Field("value", "int"), 3: _Field("globalDefault", "bool"),
    4: _text("description"), 5: _text("preemptionPolicy"),
}  # fmt: skip
_DELETE_OPTIONS: _Message = {
    1: _Field("gracePeriodSeconds", "int"),
    2: _Field("preconditions", {1: _text("uid"), 2: _text("resourceVersion")}),
    3: _Field("orphanDependents", "bool"),
    4: _text("propagationPolicy"),
    5: _texts("dryRun"),
}
_RULE: _Message = {
    1: _texts("verbs"), 2: _texts("apiGroups"), 3: _texts("resources"), 4: _texts("resourceNames"),
    5: _texts("nonResourceURLs"),
}  # fmt: skip
_ROLE: _Message = {1: _META, 2: _Field("rules", _RULE, "list")}
_SUBJECT: _Message = {
    1: _text("kind"),
    2: _text("apiGroup"),
    3: _text("name"),
    4: _text("namespace"),
}
_ROLE_REFERENCE: _Message = {1: _text("apiGroup"), 2: _text("kind"), 3: _text("name")}
_ROLE_BINDING: _Message = {
    1: _META, 2: _Field("subjects", _SUBJECT, "list"), 3: _Field("roleRef", _ROLE_REFERENCE),
}  # fmt: skip
_ASKED: _Message = {
    1: _text("namespace"), 2: _text("verb"), 3: _text("group"), 4: _text("version"),
    5: _text("resource"), 6: _text("subresource"), 7: _text("name"),
}  # fmt: skip
_ACCESS_REVIEW: _Message = {
    1: _Field("resourceAttributes", _ASKED),
    2: _Field("nonResourceAttributes", {1: _text("path"), 2: _text("verb")}),
}
_TOKEN_REQUEST: _Message = {1: _texts("audiences"), 4: _Field("expirationSeconds", "int")}
#: by kind, or by version and kind where the two forms differ
_KINDS: Mapping[str, _Message] = {
    "ClusterRole": _ROLE,
    "ClusterRoleBinding": _ROLE_BINDING,
    "ConfigMap": {1: _META, 2: _map("data"), 4: _Field("immutable", "bool")},
    "DeleteOptions": _DELETE_OPTIONS,
    "Deployment": {1: _META, 2: _Field("spec", _DEPLOYMENT_SPEC)},
    "Eviction": {1: _META, 2: _Field("deleteOptions", _DELETE_OPTIONS)},
    "autoscaling/v1 HorizontalPodAutoscaler": {1: _META, 2: _Field("spec", _OLD_AUTOSCALER_SPEC)},
    "autoscaling/v2 HorizontalPodAutoscaler": {1: _META, 2: _Field("spec", _AUTOSCALER_SPEC)},
    "Job": {1: _META, 2: _Field("spec", _JOB_SPEC)},
    "Namespace": {1: _META},
    "Pod": {1: _META, 2: _Field("spec", _POD_SPEC)},
    "PodDisruptionBudget": {1: _META, 2: _Field("spec", _BUDGET_SPEC)},
    "PriorityClass": _PRIORITY_CLASS,
    "ResourceQuota": {1: _META, 2: _Field("spec", {1: _Field("hard", "quantity", "map")})},
    "Role": _ROLE,
    "RoleBinding": _ROLE_BINDING,
    "SelfSubjectAccessReview": {2: _Field("spec", _ACCESS_REVIEW)},
    "SelfSubjectReview": {},
    "SelfSubjectRulesReview": {2: _Field("spec", {1: _text("namespace")})},
    "Service": {1: _META, 2: _Field("spec", _SERVICE_SPEC)},
    "ServiceAccount": {1: _META},
    "TokenRequest": {2: _Field("spec", _TOKEN_REQUEST)},
}
_ENVELOPE: _Message = {1: _Field("type", {1: _text("apiVersion"), 2: _text("kind")})}


def decode(body: bytes) -> Object:
    """The object, as its JSON would be. Raises ProtobufError."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("it does not begin as a Kubernetes protobuf message does")
    envelope = body[len(_MAGIC) :]
    of_type = _message(envelope, _ENVELOPE).get("type", {})
    kind = of_type.get("kind", "")
    message = _KINDS.get(f"{of_type.get('apiVersion', '')} {kind}") or _KINDS.get(kind)
    if message is None:
        raise ProtobufError(f"{of_type.get('kind')} can only be read as JSON or YAML here")
    raw = next((value for number, value in _parts(envelope) if number == 2), b"")  # noqa: PLR2004 - the field that holds the object
    if not isinstance(raw, bytes):
        raise ProtobufError("its object is not a message")
    return {**of_type, **_message(raw, message)}


def _message(data: bytes, fields: _Message) -> Object:
    found: Object = {}
    for number, value in _parts(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.repeated == "map":
            entry = _message(_bytes(value), {1: _text("key"), 2: _Field("value", field.kind)})
            found.setdefault(field.name, {})[entry.get("key", "")] = entry.get("value", "")
        elif field.repeated == "list":
            found.setdefault(field.name, []).append(_value(value, field))
        else:
            read = _value(value, field)
            # Go writes the empty text of a field that is not set
            if read != "":
                found[field.name] = read
    return found


def _value(value: int | bytes, field: _Field) -> Any:
    if field.kind == "int":
        return _integer(value)
    if field.kind == "bool":
        return bool(_integer(value))
    data = _bytes(value)
    if field.kind == "text":
        return _utf8(data)
    if field.kind == "quantity":
        return _message(data, {1: _text("string")}).get("string", "0")
    if field.kind == "int-or-text":
        return _int_or_text(data)
    return _message(data, field.kind)


def _int_or_text(data: bytes) -> int | str | None:
    fields = {1: _Field("type", "int"), 2: _Field("int", "int"), 3: _text("text")}
    read = _message(data, fields)
    value: int | str | None = read.get("text", "") if read.get("type") else read.get("int", 0)
    return value


def _parts(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field number and value of each field, in the order of the bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire_type == _LENGTH:
            length, at = _varint(data, at)
        elif wire_type in (_FIXED32, _FIXED64):
            length = 4 if wire_type == _FIXED32 else 8
        else:
            raise ProtobufError(f"wire type {wire_type} at byte {at}")
        if at + length > len(data):
            raise ProtobufError(f"it ends within the field at byte {at}")
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= _MOST_VARINT_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint has no high bit
            return value, at
        shift += 7
    raise ProtobufError(f"it ends within the number at byte {at}")


def _integer(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ProtobufError("a number was expected")
    return value - 2**64 if value >= 2**63 else value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("text or a message was expected")
    return value


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ProtobufError("a text is not UTF-8") from None
