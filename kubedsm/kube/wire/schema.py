"""Schema of the API server's JSON, restricted to the fields that KubeDSM reads.

Fields that servers may omit or set to null are optional. `decoding` interprets absent fields. The
decoder skips unknown fields.
"""

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from kubedsm.kube.client.api_errors import Status
from kubedsm.kube.wire.annotations import (
    MOVE_ANNOTATION,
    REQUEST_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
)
from kubedsm.model.model import (
    DELETION_COST_ANNOTATION,
    DEMAND_ANNOTATION,
    DO_NOT_DISRUPT_ANNOTATION,
    MIGRATION_ANNOTATION,
    QOS_ANNOTATION,
    RATE_ANNOTATION,
)

T = TypeVar("T")

Name = Annotated[str, msgspec.Meta(min_length=1)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Quantities = dict[str, str | int | float]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
#: object without a schema
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


class PodVolume(Wire, frozen=True):
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


class Owner(Wire, frozen=True):
    kind: str
    name: str
    uid: str | None = None
    controller: bool | None = None


class Annotations(Wire, frozen=True):
    """Annotations of API objects that KubeDSM reads."""

    do_not_disrupt: str | None = msgspec.field(default=None, name=DO_NOT_DISRUPT_ANNOTATION)
    deletion_cost: str | None = msgspec.field(default=None, name=DELETION_COST_ANNOTATION)
    move: str | None = msgspec.field(default=None, name=MOVE_ANNOTATION)
    requested_moves: str | None = msgspec.field(default=None, name=REQUEST_ANNOTATION)
    qos: str | None = msgspec.field(default=None, name=QOS_ANNOTATION)
    migration: str | None = msgspec.field(default=None, name=MIGRATION_ANNOTATION)
    rate: str | None = msgspec.field(default=None, name=RATE_ANNOTATION)
    demand: str | None = msgspec.field(default=None, name=DEMAND_ANNOTATION)
    mirror: str | None = msgspec.field(default=None, name="kubernetes.io/config.mirror")
    bind_completed: str | None = msgspec.field(default=None, name="pv.kubernetes.io/bind-completed")
    storage_class: str | None = msgspec.field(
        default=None, name="volume.beta.kubernetes.io/storage-class"
    )
    selected_node: str | None = msgspec.field(default=None, name=SELECTED_NODE_ANNOTATION)


class Metadata(Wire, frozen=True):
    name: Name
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] | None = None
    annotations: Annotations | None = None
    owner_references: list[Owner] | None = None
    generation: int = 0


class AnyObject(Wire, frozen=True):
    metadata: Metadata


class Requirements(Wire, frozen=True):
    requests: Quantities | None = None


class Container(Wire, frozen=True):
    name: str | None = None
    image: str | None = None
    resources: Requirements | None = None
    restart_policy: str | None = None
    ports: tuple[ContainerPort, ...] | None = None


class Toleration(Wire, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Named(Wire, frozen=True):
    name: str | None = None


class PodSpec(Wire, frozen=True):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Requirements | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[Named] | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    #: JSON texts, interpreted once for each text
    affinity: msgspec.Raw = msgspec.Raw()
    topology_spread_constraints: msgspec.Raw = msgspec.Raw()
    volumes: tuple[PodVolume, ...] | None = None
    resource_claims: tuple[Named, ...] | None = None
    termination_grace_period_seconds: float | None = None


class Condition(Wire, frozen=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class ContainerStatus(Wire, frozen=True):
    name: str | None = None
    resources: Requirements | None = None
    allocated_resources: Quantities | None = None


class PodStatus(Wire, frozen=True):
    phase: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Requirements | None = None
    allocated_resources: Quantities | None = None


class Pod(AnyObject, frozen=True):
    spec: PodSpec
    status: PodStatus | None = None


class Taint(Wire, frozen=True):
    key: str
    effect: str
    value: str | None = None


class NodeSpec(Wire, frozen=True):
    taints: tuple[Taint, ...] | None = None
    unschedulable: bool | None = None


class NodeAddress(Wire, frozen=True):
    address: str | None = None


class ContainerImage(Wire, frozen=True):
    names: tuple[str, ...] | None = None
    size_bytes: int | None = None


class NodeStatus(Wire, frozen=True):
    allocatable: Quantities | None = None
    addresses: tuple[NodeAddress, ...] | None = None
    images: tuple[ContainerImage, ...] | None = None


class Node(AnyObject, frozen=True):
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Phase(Wire, frozen=True):
    """Status with only a phase, of a Namespace or a PersistentVolumeClaim."""

    phase: str | None = None


class Namespace(AnyObject, frozen=True):
    status: Phase | None = None


class ClaimSpec(Wire, frozen=True):
    access_modes: tuple[str, ...] | None = None
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    selector: LabelSelector | None = None
    resources: Requirements | None = None


class Claim(AnyObject, frozen=True):
    spec: ClaimSpec | None = None
    status: Phase | None = None


class CSISource(Wire, frozen=True):
    driver: str | None = None
    volume_handle: str | None = None


class ClaimRef(Wire, frozen=True):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class VolumeSpec(Wire, frozen=True):
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None
    capacity: Quantities | None = None
    access_modes: tuple[str, ...] | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    storage_class_name: str | None = None
    claim_ref: ClaimRef | None = None


class Volume(AnyObject, frozen=True):
    spec: VolumeSpec | None = None
    status: Phase | None = None


class TopologyRequirement(Wire, frozen=True):
    key: str
    values: tuple[str, ...] | None = None


class TopologyTerm(Wire, frozen=True):
    match_label_expressions: tuple[TopologyRequirement, ...] | None = None


class StorageClass(AnyObject, frozen=True):
    volume_binding_mode: str | None = None
    provisioner: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


class CSIDriverSpec(Wire, frozen=True):
    storage_capacity: bool | None = None


class CSIDriver(AnyObject, frozen=True):
    spec: CSIDriverSpec | None = None


class StorageCapacity(AnyObject, frozen=True):
    storage_class_name: str
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class CSINodeAllocatable(Wire, frozen=True):
    count: Count | None = None


class CSINodeDriver(Wire, frozen=True):
    name: str
    allocatable: CSINodeAllocatable | None = None


class CSINodeSpec(Wire, frozen=True):
    drivers: tuple[CSINodeDriver, ...] | None = None


class CSINode(AnyObject, frozen=True):
    spec: CSINodeSpec | None = None


class Version(Wire, frozen=True):
    resource_version: str


class Versioned(Wire, frozen=True):
    metadata: Version


class _Event(msgspec.Struct, Generic[T], frozen=True, gc=False, tag_field="type"):
    object: T


class Added(_Event[T], Generic[T], frozen=True, gc=False, tag="ADDED"):
    pass


class Modified(_Event[T], Generic[T], frozen=True, gc=False, tag="MODIFIED"):
    pass


class Deleted(_Event[AnyObject], frozen=True, gc=False, tag="DELETED"):
    pass


class Bookmarked(_Event[Versioned], frozen=True, gc=False, tag="BOOKMARK"):
    pass


class Erred(_Event[Status], frozen=True, gc=False, tag="ERROR"):
    pass


class ListMetadata(Wire, frozen=True):
    resource_version: Name
    continue_: str | None = msgspec.field(default=None, name="continue")


class List(Wire, frozen=True):
    """One page of a Kubernetes list response, with objects not yet decoded: a malformed object
    affects no other.
    """

    metadata: ListMetadata
    items: tuple[msgspec.Raw, ...] | None = None


class ConfigMap(AnyObject, frozen=True):
    data: dict[str, str] | None = None


class ServerVersion(Wire, frozen=True):
    git_version: str


class TemplateMetadata(Wire, frozen=True):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class TemplateSpec(Wire, frozen=True):
    containers: list[Container] | None = None
    scheduler_name: str | None = None


class Template(Wire, frozen=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: TemplateSpec = TemplateSpec()


class WorkloadSpec(Wire, frozen=True):
    replicas: int | None = None
    min_ready_seconds: int | None = None
    selector: LabelSelector | None = None
    template: Template = Template()


class WorkloadStatus(Wire, frozen=True):
    replicas: int | None = None
    ready_replicas: int | None = None
    updated_replicas: int | None = None
    observed_generation: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    conditions: tuple[Condition, ...] | None = None


class Workload(AnyObject, frozen=True):
    spec: WorkloadSpec
    status: WorkloadStatus = WorkloadStatus()

    @property
    def wanted(self) -> int:
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def template_labels(self) -> frozenset[str]:
        return frozenset(self.spec.template.metadata.labels or ())

    @property
    def shrinking(self) -> bool:
        """Return True if the workload has more pods than desired replicas."""
        return (self.status.replicas or 0) > self.wanted


class ServiceSpec(Wire, frozen=True):
    selector: dict[str, str] | None = None
    traffic_distribution: str | None = None
    internal_traffic_policy: str | None = None


class Service(AnyObject, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class BudgetSpec(Wire, frozen=True):
    selector: LabelSelector | None = None


class BudgetStatus(Wire, frozen=True):
    disruptions_allowed: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class Budget(AnyObject, frozen=True):
    spec: BudgetSpec
    status: BudgetStatus = BudgetStatus()


class Items(Wire, Generic[T], frozen=True):
    items: tuple[T, ...] | None = None
