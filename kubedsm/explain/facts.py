"""Typed facts of an explanation, as encoded in JSON documents."""

from typing import Any

import msgspec

from kubedsm.explain.effects import Around, Effect
from kubedsm.explain.explanation import Words
from kubedsm.model.model import NodeName, Tier, Uid, Workload
from kubedsm.objective.site_shares import SiteLoss


class NodeVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """Filter and Score results of one node for one pod, as kube-scheduler's plugins define them."""

    node: NodeName
    tier: Tier | None
    #: kube-scheduler's verdict; the Filter plugin that rejects the node, and its reasons
    feasible: bool
    rule: str | None
    reasons: tuple[str, ...]
    #: verdict of KubeDSM's own tier rule
    tier_rule: str | None
    #: required change for feasibility
    change: str | None
    #: ranking of feasible nodes, in this order: QoS gained,
    score: float | None = None
    #: preference score below the best node's (see `plugins.preferences`),
    penalty: int | None = None
    #: replicas of the pod's workload on the node and, with several zones, in its zone,
    company: int | None = None
    #: load balance of the node with the pod, up to 100, below 0 when overloaded; compared within a
    #: tier, with its weight and less the penalty; then
    load: float | None = None
    #: on the edge the fragmentation added, in nodes; less is better
    fragmentation: float | None = None
    #: in the cloud kube-scheduler's LeastAllocated score, 0..100; more is better
    least_allocated: int | None = None
    #: False for a cloud node that the decision did not sample: `cloud.percentageOfNodes`
    looked_at: bool = True


class MigrationFacts(msgspec.Struct, frozen=True):
    """Facts about a pod's migration; migrations known only from Events have fewer fields."""

    at: str
    pod: str
    source: str | None = msgspec.field(default=None, name="from")
    target: str | None = msgspec.field(default=None, name="to")
    kind: str | None = None
    gain: float | None = None
    purpose: str | None = None
    group: int | None = None
    outcome: str = ""
    reason: str | None = None
    replacement: str | None = None
    #: the effect on response time, and the same as a line
    effect: Effect | None = None
    helped: str | None = None
    #: key of the migration; empty in an Event
    id: str = ""


class PodFacts(msgspec.Struct, frozen=True, rename="camel"):
    """Facts about a pod's placement: decision, decision time, and every node's verdict."""

    pod: str
    #: in name order
    nodes: tuple[NodeVerdict, ...]
    #: assigned node, or hypothetically selected node; for a decision, the selected node
    chosen: NodeName | None = None
    bound: bool = False
    #: the pod no longer exists
    gone: bool = False
    #: kube-scheduler's message for an unschedulable pod
    message: str | None = None
    #: RFC 3339; None without a recorded decision
    decided_at: str | None = None
    #: moment that the verdicts are of: "decision", "now", or None in a dump
    nodes_as_of: str | None = None
    #: migrations of the pod, including the migration with the pod as replacement
    moves: tuple[MigrationFacts, ...] = ()
    #: reason for the chosen node, in a line, as in the pod's Event
    summary: str | None = None
    #: how a pod with volumes would be migrated, or why not; None without volumes
    migration: str | None = None
    #: last packing result for an unschedulable pod
    packing: str | None = None
    #: capacity at the edge that a new pod waits for, and how long at most
    awaits: str | None = None
    #: schedulerName of a foreign pod, and instructions for opting in
    left_to: str | None = None
    opt_in: str | None = None
    #: "placed", "binding", "waiting", "gated" or "finished"; empty if the pod no longer exists
    state: str = ""
    terminating: bool = False
    gates: tuple[str, ...] = ()
    #: tier of the chosen node
    tier: Tier | None = None
    #: decision number, and the number of additional pods and migrations of the decision
    decision: int | None = None
    others: int = 0
    #: clause with the reason for the selected node
    reason: Words = ()
    #: decisions are recorded by the responding process
    recorded: bool = False


class PodChoice(msgspec.Struct, frozen=True):
    """Node that a placement decision selected for one pod of a batch."""

    pod: str
    node: NodeName | None
    tier: Tier | None
    #: kube-scheduler's message for an unschedulable pod
    message: str | None = None
    uid: Uid = Uid("")


class ResilienceFacts(msgspec.Struct, frozen=True):
    """Edge pods of a workload that the loss of any one site leaves."""

    workload: str
    #: site with the most pods, and their number
    site: str
    lost: int
    left: int
    #: how many `resilience` asks for
    needed: int

    @classmethod
    def of(cls, loss: SiteLoss) -> "ResilienceFacts":
        return cls(str(loss.workload), loss.site, loss.lost, loss.left, loss.needed)


class DecisionFacts(msgspec.Struct, frozen=True, rename="camel"):
    """Facts about one decision: a batch of new pods, or suggested migrations."""

    number: int
    at: str
    kind: str
    pods: tuple[PodChoice, ...]
    moves: tuple[MigrationFacts, ...]
    #: score of the workloads of a batch; for migrations, of all workloads of this scheduler
    qos: Around[float]
    proven: bool
    certificates: tuple[dict[str, Any], ...]
    cloud_nodes: dict[str, int] | None = None
    #: the time limit passed before the work limit
    out_of_time: bool = False
    #: of workloads with resilience
    resilience: tuple[ResilienceFacts, ...] = ()


class WorkloadPods(msgspec.Struct, frozen=True):
    """Pods of one workload on a node."""

    workload: str
    pods: int


class NodeFacts(msgspec.Struct, frozen=True):
    """Facts about a node: capacity and pods; cpu in millicores, memory in bytes."""

    node: str
    tier: Tier | None
    site: str
    #: empty for a node that accepts pods
    state: str
    allocatable: dict[str, int]
    free: dict[str, int]
    workloads: tuple[WorkloadPods, ...]
    #: recent migrations from and to the node
    moves: tuple[MigrationFacts, ...] = ()


class TierTimes(msgspec.Struct, frozen=True):
    """Mean response times at the edge and in the cloud, in seconds; None if unknown or unneeded."""

    edge: float | None = None
    cloud: float | None = None


class QosTargetFacts(msgspec.Struct, frozen=True, rename="camel"):
    """QoS target of a workload, and the underlying response times."""

    workload: str
    #: edge share, and its weight in the objective
    qos: float
    weight: float
    #: response times as measured
    measured: TierTimes = TierTimes()
    #: latency target in seconds, and the response times for conversion to an edge share
    latency_target: float | None = None
    taken: TierTimes = TierTimes()


class Answering(msgspec.Struct, frozen=True, rename="camel"):
    """Self-description of a running scheduler, from its diagnostics port."""

    #: workloads whose response time is longer at the edge
    slower: frozenset[Workload]
    #: it writes nothing, and so accepts no requests
    dry_run: bool = False
    #: uid of its cluster's namespace kube-system; empty if the scheduler does not know it yet
    cluster: str = ""
    #: decides nothing while another process leads
    standby: bool = False
    #: of a standby: the host that leads, in a cluster a pod; empty if unknown
    leader: str = ""


class SiteFacts(msgspec.Struct, frozen=True):
    """Demand for a workload by the users at one edge site, and the workload's replicas there."""

    #: empty: edge nodes without a site
    site: str
    #: fraction of the workload's requests from users at the site
    demand: float
    #: targeted number of replicas, and their present number
    wanted: int
    replicas: int


class WorkloadFacts(msgspec.Struct, frozen=True):
    """Edge share of one workload against its QoS target."""

    workload: str
    kind: str
    edge: int
    total: int
    #: targeted number of edge pods, and the number of missing pods
    wanted: int
    missing: int
    target: QosTargetFacts
    #: for workloads with demand by site, by name
    sites: tuple[SiteFacts, ...] = ()
    #: share of requests served from near their users; None without demand by site
    near: float | None = None
    #: None: the loss of a site does not matter
    resilience: ResilienceFacts | None = None
    #: reason why its migrations may not begin now, with the end of the deferral
    deferred: str = ""
