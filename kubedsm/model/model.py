"""Immutable cluster values: nodes, pods, resources, scheduling rules, and tenant annotations."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from statistics import pstdev
from typing import Literal, NamedTuple, NewType, Self

import attrs
import msgspec

from kubedsm.model.selectors import NodeSelectorTerm, Requirement, Selector

QOS_ANNOTATION = "kubedsm.io/qos"
MIGRATION_ANNOTATION = "kubedsm.io/migration"
RATE_ANNOTATION = "kubedsm.io/rate"
DEMAND_ANNOTATION = "kubedsm.io/demand"


@attrs.frozen(slots=True)
class Wishes:
    """Tenant's annotations on a pod template (QoS, migration mode and others), parsed and
    validated.
    """

    #: the edge share of the pod's workload
    qos: float | None = None
    #: empty without annotation
    migration: Literal["surge", "recreate", "off", ""] = ""
    #: error messages of invalid annotations
    ignored: tuple[str, ...] = ()
    #: declared requests/s of the pod's workload
    rate: float | None = None
    #: declared demand of the pod's workload: sites with weights
    demand: tuple[tuple[str, float], ...] = ()


Uid = NewType("Uid", str)
NodeName = NewType("NodeName", str)

#: label of a pod that a migration has detached from its owner and not yet evicted; forged if the
#: migration annotation is missing
MIGRATING_LABEL = "kubedsm.io/migrating"
#: pod that only pulls images ahead of a migration
PULL_LABEL = "kubedsm.io/pre-pull"
#: "true" on a pod that must not be migrated
DO_NOT_DISRUPT_ANNOTATION = "kubedsm.io/do-not-disrupt"
#: kinds of workloads whose pods end by themselves, or are not replaced: no services
ENDING_KINDS = ("CronJob", "Job", "Pod")
TEMPLATE_HASH_LABEL = "pod-template-hash"
#: a ReplicaSet deletes equal pods by lowest cost first
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
#: maximum allocatable amount of a resource, whatever a node reports: sums and multiples stay
#: within 64 bits
MOST_OF_A_NODE = 2**50
#: address of a host port without an address
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  nothing is bound here


class Tier(enum.StrEnum):
    EDGE = "edge"
    CLOUD = "cloud"


class Resources(msgspec.Struct, frozen=True, order=True, gc=False):
    """Amounts of resources: millicores, bytes, pods, and units of everything else.

    Sorted by cpu, memory, pods and others in turn; the order says nothing about fit.
    Free capacity of an over-committed node is negative.
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
        return dict(self.items()).get(name, 0)

    @property
    def beyond_any_node(self) -> bool:
        """True if a request exceeds `MOST_OF_A_NODE`: exclude such requests from arithmetic."""
        return max(self.cpu, self.memory, self.pods) > MOST_OF_A_NODE or (
            bool(self.other) and any(amount > MOST_OF_A_NODE for _, amount in self.other)
        )

    def __sub__(self, less: "Resources") -> "Resources":
        return self.__add__(less, -1)

    def __add__(self, that: "Resources", sign: int = 1) -> "Resources":
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
    """Toleration of taints, with operator `Exists` or `Equal`, or numeric `Gt` or `Lt`.

    An empty key with Exists, or an empty effect, matches any.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        return (
            self.effect in ("", taint.effect)
            and self.key in ("", taint.key)
            and (self.operator == "Exists" or (bool(self.key) and self._accepts(taint.value)))
        )

    def _accepts(self, value: str) -> bool:
        if self.operator in ("Gt", "Lt"):
            return Requirement(self.key, self.operator, (self.value,)).accepts(value)
        return self.operator == "Equal" and self.value == value


@attrs.frozen(slots=True)
class HostPort:
    """Host port of a container, on one node address or on all addresses."""

    port: int
    protocol: str = "TCP"
    ip: str = EVERY_ADDRESS


@attrs.frozen(slots=True)
class PodAffinityTerm:
    """Required or preferred affinity or anti-affinity to selected pods of selected namespaces.

    Independent of the owning pod: its namespace and matchLabelKeys are already resolved.
    """

    topology_key: str
    selector: Selector
    namespaces: tuple[str, ...]
    namespace_selector: Selector = None


@attrs.frozen(slots=True)
class SpreadConstraint:
    """Topology spread constraint of a pod, with matchLabelKeys and policies resolved."""

    topology_key: str
    max_skew: int
    selector: Selector
    namespace: str
    min_domains: int = 1
    #: nodeAffinityPolicy, nodeTaintsPolicy: exclude nodes that reject the pod
    honor_affinity: bool = True
    honor_taints: bool = False


@attrs.frozen(slots=True)
class ClaimReference:
    """Reference of a pod to a PersistentVolumeClaim."""

    namespace: str
    name: str
    #: uid of the pod whose generic ephemeral volume it is, which must own the claim; else None
    owner: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


@attrs.frozen(slots=True)
class Disk:
    """Network disk in the pod spec, by a legacy in-tree volume type."""

    kind: str
    identity: tuple[str, ...]
    read_only: bool = False


@attrs.frozen(slots=True, cache_hash=True)
class Preferences:
    """Preferred scheduling rules of a pod: weighted node and pod affinity terms, and soft spread
    constraints.
    """

    #: preferredDuringScheduling terms
    node_affinity: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    affinity: tuple[tuple[int, PodAffinityTerm], ...] = ()
    anti_affinity: tuple[tuple[int, PodAffinityTerm], ...] = ()
    #: constraints with whenUnsatisfiable ScheduleAnyway
    spread: tuple[SpreadConstraint, ...] = ()

    def __bool__(self) -> bool:
        """Return True if the pod has any preferred scheduling rule."""
        return bool(self.node_affinity or self.affinity or self.anti_affinity or self.spread)


_NO_PREFERENCES = Preferences()


@attrs.frozen(slots=True, cache_hash=True)
class SchedulingRules:
    """Required scheduling rules of a pod, except resources; one field per Filter plugin family."""

    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    #: alternative requiredDuringScheduling terms; None without terms
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

    @cached_property
    def speaks_of_others(self) -> bool:
        """Return True if feasibility depends on other pods or volumes, in addition to the node."""
        return bool(self.claims or self._speaks_of_pods)

    @cached_property
    def is_plain(self) -> bool:
        """Return True if required and preferred scheduling rules depend on the node and on volume
        claims alone.
        """
        return not (self._speaks_of_pods or self.preferences)

    @property
    def _speaks_of_pods(self) -> bool:
        of_pods = self.affinity or self.anti_affinity or self.spread
        return bool(of_pods or self.ports or self.disks or self.resource_claims)

    @property
    def claim_keys(self) -> list[tuple[str, str]]:
        return [claim.key for claim in self.claims]


class Workload(NamedTuple):
    """Controller of interchangeable pods, such as a Deployment; a pod without a controller is its
    own workload.
    """

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@attrs.frozen(slots=True, cache_hash=True)
class PodClass:
    """Scheduling requirements of a pod: equal for pods that nodes cannot distinguish.

    The axis of `match`, and the score key of the rotating-score-cache paper. Inter-pod rules
    distinguish pods by namespace and labels too: see `feasibility.EquivalenceClass`.
    """

    requests: Resources
    rules: SchedulingRules
    priority: int = 0
    #: preemptionPolicy is not Never
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
    #: set by the mirror from the configured tier label; None: excluded from scheduling
    tier: Tier | None = None
    #: IP addresses and host names
    addresses: tuple[str, ...] = ()
    #: image sizes in bytes; image changes alone are no change of the node
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
    #: label and annotation of a migration are present; in snapshots of the mirror, only for pods of
    #: running plans
    detached: bool = False
    #: spec.schedulingGates is not empty
    gated: bool = False
    #: seconds since the epoch
    created: float = 0.0
    labels: Mapping[str, str] = attrs.field(factory=dict, eq=False)
    resource_version: str = attrs.field(default="", eq=False)
    #: names of the scheduling gates
    gates: tuple[str, ...] = attrs.field(default=(), eq=False)
    #: reason against any migration; empty for movable pods
    pinned: str = attrs.field(default="", eq=False)
    #: pinned by annotation, or a static pod of its node
    untouchable: bool = attrs.field(default=False, eq=False)
    deletion_cost: str | None = attrs.field(default=None, eq=False)
    #: annotations of the tenant; None without any
    wishes: Wishes | None = attrs.field(default=None, eq=False)
    #: images of all containers and init containers, with tag or digest
    images: tuple[str, ...] = attrs.field(default=(), eq=False)
    # Derived at construction, because every decision reads these fields.
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
        derive = object.__setattr__
        derive(self, "requests", requests)
        derive(self, "finished", ended)
        derive(self, "held", held)
        derive(self, "waits_for_node", waits)
        derive(self, "counts_for_qos", counts)


@attrs.frozen(slots=True)
class Tiers:
    """Node labels, and their values, that assign nodes to the edge tier and the cloud tier."""

    #: the first label that a node carries decides
    labels: tuple[str, ...] = ("kubedsm.io/tier", "nodetype")
    edge: frozenset[str] = frozenset({"edge"})
    cloud: frozenset[str] = frozenset({"cloud"})

    def of(self, labels: Mapping[str, str]) -> Tier | None:
        value = next((labels[label] for label in self.labels if label in labels), None)
        if value in self.edge:
            return Tier.EDGE
        return Tier.CLOUD if value in self.cloud else None


class Share(msgspec.Struct, frozen=True, gc=False):
    """Edge share of a workload: number of pods at the edge, and total number of pods."""

    edge: int = 0
    total: int = 0
    #: edge pods by site, sorted, for workloads with demand by site; None: not counted.
    #: Edge nodes without a site have the empty name.
    sites: tuple[tuple[str, int], ...] | None = None

    @property
    def ratio(self) -> float:
        return self.edge / self.total if self.total else 0.0

    def add(self, more: int, site: str = "") -> "Share":
        """Return the share after `more` pods came to edge nodes of the site."""
        if self.sites is None:
            return Share(self.edge + more, self.total)
        return self.add_each({site: more})

    def add_each(self, more: Mapping[str, int]) -> "Share":
        """Return the share after pods came to edge nodes of several sites."""
        edge = self.edge + sum(more.values())
        if self.sites is None:
            return Share(edge, self.total)
        sites = dict(self.sites)
        for site, number in more.items():
            sites[site] = sites.get(site, 0) + number
        return Share(edge, self.total, tuple(sorted(sites.items())))


def shares_after(
    shares: Mapping[Workload, Share], more: Mapping[Workload, int]
) -> dict[Workload, Share]:
    """Return the edge shares of workloads after adding (or, if negative, removing) pods at the
    edge.
    """
    after = dict(shares)
    for workload, change in more.items():
        if workload in after:
            share = after[workload]
            after[workload] = share.add(min(max(share.edge + change, 0), share.total) - share.edge)
    return after


def deviation_of_shares(ratios: Sequence[float]) -> float | None:
    """Return the standard deviation of edge shares over workloads: 0 for equal shares, None without
    workloads.
    """
    return pstdev(ratios) if ratios else None


def serving_order(pod: Pod) -> tuple[int, float, str, str]:
    """Sort key by which pending pods are scheduled: priority, then creation time, then name."""
    return -pod.pod_class.priority, pod.created, pod.namespace, pod.name


def levels_of(priorities: Iterable[tuple[Workload, int]]) -> dict[Workload, int] | None:
    """Return the highest pod priority of each workload as its priority level; None if all
    priorities are equal.
    """
    ranked = sorted(priorities, key=itemgetter(1))
    return dict(ranked) if ranked and ranked[0][1] != ranked[-1][1] else None
