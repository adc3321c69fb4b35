"""The shapes of the API's JSON where pods, nodes and volumes say what goes where.

Like `schema`, of which this is the part that is converted once for many pods.
"""

from typing import Any

import msgspec

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
#: as it came: read when it is first seen, by way of its JSON text
Unread = dict[str, Any]


class Wire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pass


class Requirement(Wire, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelector(Wire, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(Wire, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredSchedulingTerm(Wire, frozen=True):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[PreferredSchedulingTerm, ...] | None = msgspec.field(
        default=None, name=_PREFERRED
    )


class PodAffinityTerm(Wire, frozen=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodAffinityTerm(Wire, frozen=True):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Wire, frozen=True):
    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[WeightedPodAffinityTerm, ...] | None = msgspec.field(
        default=None, name=_PREFERRED
    )


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire, frozen=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class ClaimSource(Wire, frozen=True):
    claim_name: str


class Volume(Wire, frozen=True):
    name: str | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Unread | None = None
    host_path: Unread | None = None
    empty_dir: Unread | None = None
    gce_persistent_disk: Unread | None = None
    aws_elastic_block_store: Unread | None = None
    rbd: Unread | None = None
    iscsi: Unread | None = None


class ContainerPort(Wire, frozen=True):
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class VolumeNodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = None
