"""Decoder of the protobuf bodies that kubectl sends: `create`, `auth` and `drain`.

Unsupported fields are skipped. Names and types of fields are
those of `api.decoding`. The envelope is that of
k8s.io/apimachinery/pkg/runtime/serializer/protobuf, field numbers are those of generated.proto in
k8s.io/api.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubedsm_lab.emulator.api.decoding import QUANTITIES, field_types, model_of
from kubedsm_lab.emulator.api.resources import Object, Resource

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BITS = 63
#: number of the envelope's field that holds the object
_RAW = 2

_METADATA = {1: "metadata"}
_WITH_SPEC = {1: "metadata", 2: "spec"}
_TARGET = {1: "kind", 2: "name", 3: "apiVersion"}
_ROLE = {1: "metadata", 2: "rules"}
_ROLE_BINDING = {1: "metadata", 2: "subjects", 3: "roleRef"}
#: by model: field numbers
_FIELDS: Mapping[str, Mapping[int, str]] = {
    "V1ObjectMeta": {
        1: "name", 2: "generateName", 3: "namespace", 5: "uid", 6: "resourceVersion",
        11: "labels", 12: "annotations", 14: "finalizers",
    },
    "V1LabelSelector": {1: "matchLabels"},
    "V1Pod": _WITH_SPEC,
    "V1PodTemplateSpec": _WITH_SPEC,
    "V1PodSpec": {
        2: "containers", 3: "restartPolicy", 4: "terminationGracePeriodSeconds",
        7: "nodeSelector", 8: "serviceAccountName", 19: "schedulerName",
    },
    "V1Container": {
        1: "name", 2: "image", 3: "command", 4: "args", 6: "ports", 7: "env", 8: "resources",
        14: "imagePullPolicy",
    },
    "V1ContainerPort": {1: "name", 2: "hostPort", 3: "containerPort", 4: "protocol"},
    "V1EnvVar": {1: "name", 2: "value"},
    "V1ResourceRequirements": {1: "limits", 2: "requests"},
    "V1Deployment": _WITH_SPEC,
    "V1DeploymentSpec": {1: "replicas", 2: "selector", 3: "template"},
    "V1Job": _WITH_SPEC,
    "V1JobSpec": {
        1: "parallelism", 2: "completions", 3: "activeDeadlineSeconds", 6: "template",
        7: "backoffLimit", 8: "ttlSecondsAfterFinished", 9: "completionMode", 10: "suspend",
    },
    "V1Service": _WITH_SPEC,
    "V1ServiceSpec": {1: "ports", 2: "selector", 3: "clusterIP", 4: "type", 10: "externalName"},
    "V1ServicePort": {1: "name", 2: "protocol", 3: "port", 4: "targetPort", 5: "nodePort"},
    "V1PodDisruptionBudget": _WITH_SPEC,
    "V1PodDisruptionBudgetSpec": {1: "minAvailable", 2: "selector", 3: "maxUnavailable"},
    "V1HorizontalPodAutoscaler": _WITH_SPEC,
    "V1HorizontalPodAutoscalerSpec": {
        1: "scaleTargetRef", 2: "minReplicas", 3: "maxReplicas",
        4: "targetCPUUtilizationPercentage",
    },
    "V1CrossVersionObjectReference": _TARGET,
    "V2HorizontalPodAutoscaler": _WITH_SPEC,
    "V2HorizontalPodAutoscalerSpec": {
        1: "scaleTargetRef", 2: "minReplicas", 3: "maxReplicas", 4: "metrics",
    },
    "V2CrossVersionObjectReference": _TARGET,
    "V2MetricSpec": {1: "type", 4: "resource"},
    "V2ResourceMetricSource": {1: "name", 2: "target"},
    "V2MetricTarget": {1: "type", 2: "value", 3: "averageValue", 4: "averageUtilization"},
    "V1ConfigMap": {1: "metadata", 2: "data", 4: "immutable"},
    "V1Namespace": _METADATA,
    "V1ServiceAccount": _METADATA,
    "V1ResourceQuota": _WITH_SPEC,
    "V1ResourceQuotaSpec": {1: "hard"},
    "V1PriorityClass": {
        1: "metadata", 2: "value", 3: "globalDefault", 4: "description", 5: "preemptionPolicy",
    },
    "V1Eviction": {1: "metadata", 2: "deleteOptions"},
    "V1DeleteOptions": {
        1: "gracePeriodSeconds", 2: "preconditions", 3: "orphanDependents",
        4: "propagationPolicy", 5: "dryRun",
    },
    "V1Preconditions": {1: "uid", 2: "resourceVersion"},
    "V1Role": _ROLE,
    "V1ClusterRole": _ROLE,
    "V1PolicyRule": {
        1: "verbs", 2: "apiGroups", 3: "resources", 4: "resourceNames", 5: "nonResourceURLs",
    },
    "V1RoleBinding": _ROLE_BINDING,
    "V1ClusterRoleBinding": _ROLE_BINDING,
    "RbacV1Subject": {1: "kind", 2: "apiGroup", 3: "name", 4: "namespace"},
    "V1RoleRef": {1: "apiGroup", 2: "kind", 3: "name"},
    "V1SelfSubjectAccessReview": {2: "spec"},
    "V1SelfSubjectAccessReviewSpec": {1: "resourceAttributes", 2: "nonResourceAttributes"},
    "V1ResourceAttributes": {
        1: "namespace", 2: "verb", 3: "group", 4: "version", 5: "resource", 6: "subresource",
        7: "name",
    },
    "V1NonResourceAttributes": {1: "path", 2: "verb"},
    "V1SelfSubjectReview": {},
    "V1SelfSubjectRulesReview": {2: "spec"},
    "V1SelfSubjectRulesReviewSpec": {1: "namespace"},
    "AuthenticationV1TokenRequest": {2: "spec"},
    "V1TokenRequestSpec": {1: "audiences", 4: "expirationSeconds"},
}  # fmt: skip


class ProtobufError(ValueError):
    """Malformed message, or unsupported kind."""


def decode(body: bytes) -> Object:
    """Return the object in JSON representation. Raises ProtobufError."""
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
    """Yield number and value of each field, in the order of the bytes."""
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
