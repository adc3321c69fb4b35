"""What tenants ask for by annotations of their pods: the pod template's of a workload."""

import enum
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, NewType, Self

import attrs

from kubedsm.model.selectors import NodeSelectorTerm, Selector

QOS_ANNOTATION = "kubedsm.io/qos"
MIGRATION_ANNOTATION = "kubedsm.io/migration"
RATE_ANNOTATION = "kubedsm.io/rate"


@attrs.frozen(slots=True)
class Wishes:
    """Those of them that are there, as far as they are understood."""

    #: the edge share of the pod's workload
    qos: float | None = None
    #: empty if nothing is said
    migration: Literal["surge", "recreate", "off", ""] = ""
    #: error messages of invalid annotations
    ignored: tuple[str, ...] = ()
    #: declared requests/s of the pod's workload
    rate: float | None = None


Uid = NewType("Uid", str)
NodeName = NewType("NodeName", str)

#: A pod that a migration has taken from its owner, and not yet evicted, carries this label. With
#: the label and without the annotation that belongs to it, it has that from another hand.
MIGRATING_LABEL = "kubedsm.io/migrating"
#: "true" on a pod that must not be migrated
DO_NOT_DISRUPT_ANNOTATION = "kubedsm.io/do-not-disrupt"
TEMPLATE_HASH_LABEL = "pod-template-hash"
#: a ReplicaSet deletes equal pods by lowest cost first
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
#: No node is believed to have more of anything: bytes, millicores, devices. The API takes any 64
#: limit of an amount; sums and multiples stay within 64 bits.
MOST_OF_A_NODE = 2**50
#: address of a host port without an address
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  nothing is bound here


class Tier(enum.StrEnum):
    EDGE = "edge"
    CLOUD = "cloud"


@attrs.frozen(slots=True)
class Resources:
    """Amounts of resources: millicores, bytes, pods, and units of everything else.

    An amount may be negative: free room on a node that is over-committed is.
    """

    cpu: int = 0
    memory: int = 0
    pods: int = 0
    #: ephemeral-storage, hugepages and extended resources, by name, without zeros
    other: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> Self:
        other = tuple(
            sorted((n, a) for n, a in amounts.items() if a and n not in ("cpu", "memory", "pods"))
        )
        get = amounts.get
        return cls(get("cpu", 0), get("memory", 0), get("pods", 0), other)

    def items(self) -> tuple[tuple[str, int], ...]:
        return ("cpu", self.cpu), ("memory", self.memory), ("pods", self.pods), *self.other

    def amount(self, name: str) -> int:
        return next((amount for other, amount in self.items() if other == name), 0)

    @property
    def beyond_any_node(self) -> bool:
        """True if no node can hold that, now or ever: set such requests aside, compute with none.

        See `MOST_OF_A_NODE`.
        """
        return max(self.cpu, self.memory, self.pods) > MOST_OF_A_NODE or any(
            amount > MOST_OF_A_NODE for _, amount in self.other
        )

    def __add__(self, more: "Resources") -> "Resources":
        return self._add_scaled(more, 1)

    def __sub__(self, less: "Resources") -> "Resources":
        return self._add_scaled(less, -1)

    def _add_scaled(self, that: "Resources", sign: int) -> "Resources":
        other = self.other
        if that.other:
            amounts = dict(other)
            for name, amount in that.other:
                amounts[name] = amounts.get(name, 0) + sign * amount
            other = tuple(sorted((n, a) for n, a in amounts.items() if a))
        return Resources(
            self.cpu + sign * that.cpu,
            self.memory + sign * that.memory,
            self.pods + sign * that.pods,
            other,
        )


@attrs.frozen(slots=True)
class Taint:
    key: str
    value: str
    effect: str


@attrs.frozen(slots=True)
class Toleration:
    """Operator `Exists` or `Equal`; an empty key with Exists, or an empty effect, means any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        return (
            self.effect in ("", taint.effect)
            and self.key in ("", taint.key)
            and (self.operator == "Exists" or self._equals_taint(taint))
        )

    def _equals_taint(self, taint: Taint) -> bool:
        # Lt and Gt, behind a feature gate since Kubernetes 1.35, are unsupported.
        return self.operator == "Equal" and bool(self.key) and self.value == taint.value


@attrs.frozen(slots=True)
class HostPort:
    """A port that a container occupies on its node, of one address or of all."""

    port: int
    protocol: str = "TCP"
    ip: str = EVERY_ADDRESS


@attrs.frozen(slots=True)
class PodAffinityTerm:
    """Pods to be near to, or far from: those selected, in these namespaces or the selected ones.

    The pod's own namespace and labels are worked in: no term depends on whose it is.
    """

    topology_key: str
    selector: Selector
    namespaces: tuple[str, ...]
    namespace_selector: Selector = None


@attrs.frozen(slots=True)
class SpreadConstraint:
    """A topologySpreadConstraint; labels worked in too."""

    topology_key: str
    max_skew: int
    selector: Selector
    namespace: str
    min_domains: int = 1
    #: nodeAffinityPolicy, nodeTaintsPolicy: whether closed nodes are excluded
    honor_affinity: bool = True
    honor_taints: bool = False


@attrs.frozen(slots=True)
class ClaimReference:
    """A PersistentVolumeClaim that a pod mounts."""

    namespace: str
    name: str
    #: a generic ephemeral volume: the claim is made for the pod
    ephemeral: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


@attrs.frozen(slots=True)
class Disk:
    """A network disk named in the pod itself, by one of the volume types of old."""

    kind: str
    identity: tuple[str, ...]
    read_only: bool = False


@attrs.frozen(slots=True, cache_hash=True)
class Preferences:
    """What a pod would like of a node, if there is a choice; terms with their weights."""

    #: preferredDuringScheduling terms
    node_affinity: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    affinity: tuple[tuple[int, PodAffinityTerm], ...] = ()
    anti_affinity: tuple[tuple[int, PodAffinityTerm], ...] = ()
    #: constraints with whenUnsatisfiable ScheduleAnyway
    spread: tuple[SpreadConstraint, ...] = ()

    def __bool__(self) -> bool:
        """True if there are any."""
        return bool(self.node_affinity or self.affinity or self.anti_affinity or self.spread)


_NO_PREFERENCES = Preferences()


@attrs.frozen(slots=True, cache_hash=True)
class SchedulingRules:
    """What a pod demands of a node beside room. One field a family of Filter plugins."""

    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    #: requiredDuringScheduling terms, of which one must hold; None without terms
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    #: constraints with whenUnsatisfiable DoNotSchedule
    spread: tuple[SpreadConstraint, ...] = ()
    claims: tuple[ClaimReference, ...] = ()
    disks: tuple[Disk, ...] = ()
    #: spec.resourceClaims, by name
    resource_claims: tuple[str, ...] = ()
    preferences: Preferences = _NO_PREFERENCES

    @property
    def claim_keys(self) -> list[tuple[str, str]]:
        return [claim.key for claim in self.claims]


class Workload(NamedTuple):
    """The owner that makes interchangeable pods; a bare pod is its own workload."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@attrs.frozen(slots=True, cache_hash=True)
class PodClass:
    """What a pod itself asks for, all of it: equal for pods that are interchangeable to nodes.

    The axis of `match`; its hash is the score key of the rotating-score-cache paper. Where rules
    of pods about pods exist, the namespace and labels that those look at count as well: see
    `feasibility.EquivalenceClass`.
    """

    requests: Resources
    rules: SchedulingRules
    priority: int = 0
    #: whether the pod may preempt: preemptionPolicy is not Never
    preempts: bool = True


def _cap_amounts(allocatable: Resources) -> Resources:
    if not allocatable.beyond_any_node:
        return allocatable
    return Resources.of({name: min(n, MOST_OF_A_NODE) for name, n in allocatable.items()})


@attrs.frozen(slots=True)
class Node:
    name: NodeName
    labels: Mapping[str, str]
    #: capped at `MOST_OF_A_NODE`
    allocatable: Resources = attrs.field(converter=_cap_amounts)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    #: set by the mirror from the configured tier label; None is not ours to place on
    tier: Tier | None = None
    #: of whatever type: IP addresses, the host name
    addresses: tuple[str, ...] = ()
    #: bytes by name, at the last other change of the node
    images: Mapping[str, int] = attrs.field(factory=dict, eq=False)


@attrs.frozen(slots=True)
class Pod:
    uid: Uid
    namespace: str
    name: str
    workload: Workload
    pod_class: PodClass
    scheduler_name: str
    node_name: NodeName | None = None
    #: Pending, Running, Succeeded, Failed, Unknown
    phase: str = "Pending"
    ready: bool = False
    #: deletionTimestamp is set; the capacity is not free yet
    terminating: bool = False
    #: it carries the whole mark of a migration that took it from its owner; in a snapshot of the
    #: mirror, only if a plan of ours knows the pod
    detached: bool = False
    #: spec.schedulingGates is not empty
    gated: bool = False
    #: seconds since the epoch
    created: float = 0.0
    labels: Mapping[str, str] = attrs.field(factory=dict, eq=False)
    resource_version: str = attrs.field(default="", eq=False)
    #: the names of the scheduling gates
    gates: tuple[str, ...] = attrs.field(default=(), eq=False)
    #: why the pod must not be migrated; empty if it may be
    pinned: str = attrs.field(default="", eq=False)
    #: pinned by annotation, or a static pod of its node
    untouchable: bool = attrs.field(default=False, eq=False)
    deletion_cost: str | None = attrs.field(default=None, eq=False)
    #: annotations of the tenant; None without any
    wishes: Wishes | None = attrs.field(default=None, eq=False)
    #: images of all containers and init containers, with tag or digest
    images: tuple[str, ...] = attrs.field(default=(), eq=False)
    # Derived once, since every decision needs these values.
    requests: Resources = attrs.field(init=False, eq=False, repr=False)
    #: phase is Succeeded or Failed
    finished: bool = attrs.field(init=False, eq=False, repr=False)
    #: occupied capacity and node
    held: tuple[NodeName, Resources] | None = attrs.field(init=False, eq=False, repr=False)
    #: pending and ready to be bound
    waits_for_node: bool = attrs.field(init=False, eq=False, repr=False)
    counts_for_qos: bool = attrs.field(init=False, eq=False, repr=False)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __attrs_post_init__(self) -> None:
        requests, ended = self.pod_class.requests, self.phase in ("Succeeded", "Failed")
        counts = not (ended or self.terminating or self.detached)
        waits = self.node_name is None and not (ended or self.terminating or self.gated)
        held = None if self.node_name is None or ended else (self.node_name, requests)
        for name, value in (
            ("requests", requests),
            ("finished", ended),
            ("held", held),
            ("waits_for_node", waits),
            ("counts_for_qos", counts),
        ):
            object.__setattr__(self, name, value)


@attrs.frozen(slots=True)
class Tiers:
    """Which values of which node labels mean which tier."""

    #: the first label that a node carries decides
    labels: tuple[str, ...] = ("kubedsm.io/tier", "nodetype")
    edge: frozenset[str] = frozenset({"edge"})
    cloud: frozenset[str] = frozenset({"cloud"})

    def of(self, labels: Mapping[str, str]) -> Tier | None:
        value = next((labels[label] for label in self.labels if label in labels), None)
        if value in self.edge:
            return Tier.EDGE
        return Tier.CLOUD if value in self.cloud else None


@attrs.frozen(slots=True)
class Share:
    """How many of a workload's pods exist, and how many of them are on edge nodes."""

    edge: int = 0
    total: int = 0

    @property
    def ratio(self) -> float:
        return self.edge / self.total if self.total else 0.0


def shares_after(
    shares: Mapping[Workload, Share], more: Mapping[Workload, int]
) -> dict[Workload, Share]:
    """The shares once so many more pods of these workloads, or fewer, are on the edge."""
    after = dict(shares)
    for workload, change in more.items():
        if workload in after:
            edge, total = after[workload].edge, after[workload].total
            after[workload] = Share(min(max(edge + change, 0), total), total)
    return after


def serving_order(pod: Pod) -> tuple[int, float, str, str]:
    """The order in which pods are served: by priority, then the oldest, then by name."""
    return -pod.pod_class.priority, pod.created, pod.namespace, pod.name


def levels_of(pods: Iterable[Pod]) -> dict[Workload, int] | None:
    """The level of each workload; None if all these pods are of one priority."""
    levels: dict[Workload, int] = {}
    priorities = set()
    for pod in pods:
        priority = pod.pod_class.priority
        priorities.add(priority)
        levels[pod.workload] = max(priority, levels.get(pod.workload, priority))
    return levels if len(priorities) > 1 else None
