"""Merge rules of each kind's lists (associative lists and sets), for strategic merge patch.

Source: the patchStrategy and patchMergeKey tags of k8s.io/api. A patch replaces any other list,
such as tolerations and taints.
"""

from collections.abc import Mapping

import attrs

from kubedsm_lab.emulator.api.resources import Resource


@attrs.frozen
class Fields:
    """Strategic-merge rules by field name; a field without rule merges as in a JSON merge patch."""

    named: "Mapping[str, Fields | Keyed | Unordered]" = attrs.field(factory=dict)


@attrs.frozen
class Keyed:
    """Strategic-merge rule of a list whose items are identified by a key field, such as `name`."""

    key: str
    item: Fields = attrs.field(factory=Fields)


@attrs.frozen
class Unordered:
    """Strategic-merge rule of a list that is merged as a set of plain values."""


ANY = Fields()
_BY_NAME = Keyed("name")
_METADATA = Fields({"finalizers": Unordered(), "ownerReferences": Keyed("uid")})
_CONTAINERS = Keyed(
    "name",
    Fields(
        {
            "env": _BY_NAME,
            "ports": Keyed("containerPort"),
            "volumeMounts": Keyed("mountPath"),
            "volumeDevices": Keyed("devicePath"),
        }
    ),
)
_POD_SPEC = Fields(
    {
        **dict.fromkeys(("containers", "initContainers", "ephemeralContainers"), _CONTAINERS),
        **dict.fromkeys(
            ("volumes", "imagePullSecrets", "schedulingGates", "resourceClaims"), _BY_NAME
        ),
        "hostAliases": Keyed("ip"),
        "topologySpreadConstraints": Keyed("topologyKey"),
    }
)
_CONDITIONS = {"conditions": Keyed("type")}
_STATUS = Fields(_CONDITIONS)
_WORKLOAD = {"spec": Fields({"template": Fields({"metadata": _METADATA, "spec": _POD_SPEC})})}
#: merge rules by kind, in addition to those of metadata and conditions
_OF_KIND: Mapping[str, Mapping[str, Fields | Keyed | Unordered]] = {
    "Pod": {
        "spec": _POD_SPEC,
        "status": Fields({**_CONDITIONS, "podIPs": Keyed("ip"), "hostIPs": Keyed("ip")}),
    },
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "Job"), _WORKLOAD),
    "Node": {
        "spec": Fields({"podCIDRs": Unordered()}),
        "status": Fields({**_CONDITIONS, "addresses": Keyed("type")}),
    },
    "Service": {"spec": Fields({"ports": Keyed("port")})},
    "ServiceAccount": {"secrets": _BY_NAME},
    "CSINode": {"spec": Fields({"drivers": _BY_NAME})},
}


def fields_of(resource: Resource) -> Fields:
    """Return the strategic-merge rules for the fields of the resource's kind."""
    return Fields({"metadata": _METADATA, "status": _STATUS, **_OF_KIND.get(resource.kind, {})})
