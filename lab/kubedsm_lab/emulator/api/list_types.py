"""Merge rules of each kind's lists (associative lists and sets), for strategic merge patch.

Source: the patchStrategy and patchMergeKey tags of k8s.io/api. A patch replaces any other list,
such as tolerations and taints.
"""

from collections.abc import Mapping

import attrs

from kubedsm_lab.emulator.api.resources import Resource

#: rules by field name; a field without rule merges as in a JSON merge patch
Fields = Mapping[str, "Fields | ListType"]


@attrs.frozen
class ListType:
    """Strategic-merge rule of a list, whose items are identified by a key field, such as `name`;
    without key the list is merged as a set of plain values.
    """

    key: str = ""
    item: Fields = attrs.field(factory=dict)


_SET, _BY_NAME = ListType(), ListType("name")
_METADATA: Fields = {"finalizers": _SET, "ownerReferences": ListType("uid")}
_CONTAINERS = ListType(
    "name",
    {
        "env": _BY_NAME,
        "ports": ListType("containerPort"),
        "volumeMounts": ListType("mountPath"),
        "volumeDevices": ListType("devicePath"),
    },
)
_POD_SPEC: Fields = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers"), _CONTAINERS),
    **dict.fromkeys(("volumes", "imagePullSecrets", "schedulingGates", "resourceClaims"), _BY_NAME),
    "hostAliases": ListType("ip"),
    "topologySpreadConstraints": ListType("topologyKey"),
}
_STATUS: Fields = {"conditions": ListType("type")}
_WORKLOAD: Fields = {"spec": {"template": {"metadata": _METADATA, "spec": _POD_SPEC}}}
#: merge rules by kind, in addition to those of metadata and conditions
_OF_KIND: Mapping[str, Fields] = {
    "Pod": {
        "spec": _POD_SPEC,
        "status": {**_STATUS, "podIPs": ListType("ip"), "hostIPs": ListType("ip")},
    },
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "Job"), _WORKLOAD),
    "Node": {
        "spec": {"podCIDRs": _SET},
        "status": {**_STATUS, "addresses": ListType("type")},
    },
    "Service": {"spec": {"ports": ListType("port")}},
    "ServiceAccount": {"secrets": _BY_NAME},
    "CSINode": {"spec": {"drivers": _BY_NAME}},
}


def fields_of(resource: Resource) -> Fields:
    """Return the strategic-merge rules for the fields of the resource's kind."""
    return {"metadata": _METADATA, "status": _STATUS, **_OF_KIND.get(resource.kind, {})}
