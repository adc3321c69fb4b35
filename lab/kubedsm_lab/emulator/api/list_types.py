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
_CONDITIONS = Keyed("type")
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
_SELECTED = Fields({"labelSelector": _ATOMIC})
_POD_SPEC = Fields(
    {
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "ephemeralContainers": _CONTAINERS,
        "volumes": _KEYED_BY_NAME,
        "imagePullSecrets": Keyed("name", _ATOMIC),
        "hostAliases": Keyed("ip"),
        "topologySpreadConstraints": Keyed(
            "topologyKey", _SELECTED, keys={"topologyKey": None, "whenUnsatisfiable": None}
        ),
        "schedulingGates": _KEYED_BY_NAME,
        "resourceClaims": _KEYED_BY_NAME,
        "nodeSelector": _ATOMIC,
        "affinity": Fields(
            {"nodeAffinity": Fields({"requiredDuringSchedulingIgnoredDuringExecution": _ATOMIC})}
        ),
    }
)
_STATUS = Fields({"conditions": _CONDITIONS})
_WORKLOAD = Fields(
    {
        "metadata": _METADATA,
        "spec": Fields(
            {
                "selector": _ATOMIC,
                "template": Fields({"metadata": _METADATA, "spec": _POD_SPEC}),
            }
        ),
        "status": _STATUS,
    }
)
_BINDING = Fields({"metadata": _METADATA, "roleRef": _ATOMIC})
_OTHER = Fields({"metadata": _METADATA, "status": _STATUS})
_OF_KIND: Mapping[str, Fields] = {
    "Pod": Fields(
        {
            "metadata": _METADATA,
            "spec": _POD_SPEC,
            "status": Fields(
                {
                    "conditions": _CONDITIONS,
                    "podIPs": Keyed("ip"),
                    "hostIPs": Keyed("ip", keys={}),
                }
            ),
        }
    ),
    "Deployment": _WORKLOAD,
    "ReplicaSet": _WORKLOAD,
    "StatefulSet": _WORKLOAD,
    "Job": Fields({**_WORKLOAD.named, "status": Fields({"conditions": Keyed("type", keys={})})}),
    "Node": Fields(
        {
            "metadata": _METADATA,
            "spec": Fields({"podCIDRs": Unordered()}),
            "status": Fields({"conditions": _CONDITIONS, "addresses": Keyed("type")}),
        }
    ),
    "Service": Fields(
        {
            "metadata": _METADATA,
            "spec": Fields(
                {
                    "ports": Keyed("port", keys={"port": None, "protocol": "TCP"}),
                    "selector": _ATOMIC,
                }
            ),
            "status": _STATUS,
        }
    ),
    "ServiceAccount": Fields({"metadata": _METADATA, "secrets": Keyed("name", _ATOMIC)}),
    "PodDisruptionBudget": Fields(
        {"metadata": _METADATA, "spec": Fields({"selector": _ATOMIC}), "status": _STATUS}
    ),
    "Event": Fields(
        {"metadata": _METADATA} | dict.fromkeys(("involvedObject", "regarding", "related"), _ATOMIC)
    ),
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "PersistentVolumeClaim": Fields(
        {
            "metadata": _METADATA,
            "spec": Fields({"selector": _ATOMIC, "dataSource": _ATOMIC}),
            "status": _STATUS,
        }
    ),
    "PersistentVolume": Fields(
        {
            "metadata": _METADATA,
            "spec": Fields({"nodeAffinity": Fields({"required": _ATOMIC})}),
        }
    ),
    "CSINode": Fields({"metadata": _METADATA, "spec": Fields({"drivers": _KEYED_BY_NAME})}),
    "ResourceQuota": Fields(
        {"metadata": _METADATA, "spec": Fields({"scopeSelector": _ATOMIC}), "status": _STATUS}
    ),
}


def fields_of(resource: Resource) -> Fields:
    return _OF_KIND.get(resource.kind, _OTHER)
