"""Associative lists by kind, for strategic merge patch and server-side apply.

Source: the patchStrategy and patchMergeKey tags of k8s.io/api for strategic merge patch, and the
+listType, +listMapKey, +mapType and +structType comments for server-side apply. Other lists, such
as tolerations and taints, are one value.
"""

from collections.abc import Mapping

import attrs

from kubedsm_lab.emulator.api.resources import Resource


@attrs.frozen
class Fields:
    """Object whose fields merge; unnamed fields merge as in a JSON merge patch."""

    named: "Mapping[str, Fields | Keyed | Unordered]" = attrs.field(factory=dict)
    #: one value for server-side apply; strategic merge patch descends all the same
    atomic: bool = False


@attrs.frozen
class Keyed:
    """List of objects that are identified by a key."""

    #: key of strategic merge patch
    key: str
    item: Fields = attrs.field(factory=Fields)
    #: keys of server-side apply with the values of missing ones; without keys the list is one value
    keys: Mapping[str, str | None] = attrs.field(
        default=attrs.Factory(lambda self: {self.key: None}, takes_self=True)
    )


@attrs.frozen
class Unordered:
    """Set of plain values."""


ANY = Fields()
_ATOMIC = Fields(atomic=True)
_KEYED_BY_NAME = Keyed("name")
_METADATA = Fields({"finalizers": Unordered(), "ownerReferences": Keyed("uid", _ATOMIC)})
_SOURCE_OF_VALUE = Fields(
    dict.fromkeys(
        ("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"), _ATOMIC
    )
)
_CONTAINER = Fields(
    {
        "env": Keyed("name", Fields({"valueFrom": _SOURCE_OF_VALUE})),
        "ports": Keyed("containerPort", keys={"containerPort": None, "protocol": "TCP"}),
        "volumeMounts": Keyed("mountPath"),
        "volumeDevices": Keyed("devicePath"),
    }
)
_CONTAINERS = Keyed("name", _CONTAINER)


def _nest(named: "Mapping[str, Fields | Keyed | Unordered]") -> Fields:
    """Build an object from its fields by dotted path."""
    direct: dict[str, Fields | Keyed | Unordered] = {}
    below: dict[str, dict[str, Fields | Keyed | Unordered]] = {}
    for path, how in named.items():
        first, dot, rest = path.partition(".")
        if dot:
            below.setdefault(first, {})[rest] = how
        else:
            direct[first] = how
    return Fields(direct | {name: _nest(inner) for name, inner in below.items()})


_POD_SPEC = _nest(
    {
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "ephemeralContainers": _CONTAINERS,
        "volumes": _KEYED_BY_NAME,
        "imagePullSecrets": Keyed("name", _ATOMIC),
        "hostAliases": Keyed("ip"),
        "topologySpreadConstraints": Keyed(
            "topologyKey",
            Fields({"labelSelector": _ATOMIC}),
            keys={"topologyKey": None, "whenUnsatisfiable": None},
        ),
        "schedulingGates": _KEYED_BY_NAME,
        "resourceClaims": _KEYED_BY_NAME,
        "nodeSelector": _ATOMIC,
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution": _ATOMIC,
    }
)
_COMMON: Mapping[str, Fields | Keyed | Unordered] = {
    "metadata": _METADATA,
    "status.conditions": Keyed("type"),
}
_WORKLOAD = {
    "spec.selector": _ATOMIC,
    "spec.template.metadata": _METADATA,
    "spec.template.spec": _POD_SPEC,
}
#: fields beyond the common ones, by kind
_OF_KIND: Mapping[str, Mapping[str, Fields | Keyed | Unordered]] = {
    "Pod": {
        "spec": _POD_SPEC,
        "status.podIPs": Keyed("ip"),
        "status.hostIPs": Keyed("ip", keys={}),
    },
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet"), _WORKLOAD),
    "Job": {**_WORKLOAD, "status.conditions": Keyed("type", keys={})},
    "Node": {"spec.podCIDRs": Unordered(), "status.addresses": Keyed("type")},
    "Service": {
        "spec.ports": Keyed("port", keys={"port": None, "protocol": "TCP"}),
        "spec.selector": _ATOMIC,
    },
    "ServiceAccount": {"secrets": Keyed("name", _ATOMIC)},
    "PodDisruptionBudget": {"spec.selector": _ATOMIC},
    "Event": dict.fromkeys(("involvedObject", "regarding", "related"), _ATOMIC),
    "RoleBinding": {"roleRef": _ATOMIC},
    "ClusterRoleBinding": {"roleRef": _ATOMIC},
    "PersistentVolumeClaim": {"spec.selector": _ATOMIC, "spec.dataSource": _ATOMIC},
    "PersistentVolume": {"spec.nodeAffinity.required": _ATOMIC},
    "CSINode": {"spec.drivers": _KEYED_BY_NAME},
    "ResourceQuota": {"spec.scopeSelector": _ATOMIC},
}
_FIELDS = {kind: _nest({**_COMMON, **named}) for kind, named in _OF_KIND.items()}
_OTHER = _nest(_COMMON)


def fields_of(resource: Resource) -> Fields:
    return _FIELDS.get(resource.kind, _OTHER)
