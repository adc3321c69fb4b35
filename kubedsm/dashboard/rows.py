"""Rows that viewers see of the cluster, and the messages that carry them.

Rows are flat and hold plain values; fields with default values are omitted. Times are seconds since
the epoch, cpu is in millicores, memory in bytes. A viewer gets a snapshot and then the changes; a
recording is the same messages in sequence.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from kubedsm.explain.node import NodeState
from kubedsm.model.model import Tier
from kubedsm.terminal.echo import escape_strings

#: gated: its schedulingGates are not removed yet; starting: a node is chosen, and its containers do
#: not run yet; not ready: they run
PodState = Literal["waiting", "gated", "starting", "not ready", "ready", "leaving"]
#: alone: without leader election; watching: the process follows the cluster and decides nothing
Role = Literal["leading", "standby", "alone", "watching"]
MoveState = Literal[
    "proposed", "planned", "moving", "completed", "rolled back", "failed", "dropped"
]


class _Row(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class NodeRow(_Row, frozen=True):
    """Node, by name."""

    #: None: KubeDSM schedules nothing there
    tier: Tier | None
    #: allocatable
    cpu: int
    memory: int
    #: maximum number of pods
    pods: int
    #: site of an edge node, if any
    site: str = ""
    state: NodeState = ""
    #: begin of the state, if it changed since the first look
    since: float = 0.0
    #: also where the state is a worse one
    cordoned: bool = False
    #: measured use, as parts of `cpu` and `memory`; None: not known
    cpu_used: float | None = None
    memory_used: float | None = None


class PodRow(_Row, frozen=True):
    """Pod, by namespace/name. Finished pods have no row."""

    #: key of its workload's row
    workload: str
    state: PodState
    created: float
    cpu: int = 0
    memory: int = 0
    #: node that it is on, or that is reserved for it; empty while it waits
    node: str = ""
    #: migration, planned or in progress, that creates or removes the pod
    move: str = ""
    #: reason why it waits, mostly kube-scheduler's message
    message: str = ""
    #: Filter plugins that reject nodes for it, such as NodeResourcesFit
    rules: tuple[str, ...] = ()
    #: node on which capacity is being freed for it
    room_on: str = ""
    #: schedulerName of another scheduler's pod
    scheduler: str = ""


class WorkloadRow(_Row, frozen=True):
    """Opted-in workload, by namespace/name."""

    kind: str
    #: pods at the edge, and all pods, those that wait included
    edge: int
    total: int
    #: QoS factor: edge share that it targets, None if the configuration is not known; its weight
    promise: float | None = None
    weight: float = 0.0
    #: pods below its QoS target
    missing: int = 0
    #: pods that are Ready, and pods that wait for a node
    ready: int = 0
    waiting: int = 0
    #: measured mean response times in milliseconds; None: not known
    edge_answers: float | None = None
    cloud_answers: float | None = None
    #: its response time is longer at the edge
    edge_slower: bool = False


class MoveRow(_Row, frozen=True):
    """Migration, by its key: its id or, while it is only proposed, its pod."""

    pod: str
    workload: str
    source: str
    target: str
    kind: str
    #: reason, in words
    purpose: str
    state: MoveState
    #: times of its decision, begin and end; 0: not yet
    at: float
    began: float = 0.0
    ended: float = 0.0
    #: number of its decision
    decision: int = 0
    gain: float = 0.0
    #: step in progress, such as "waiting for shop/cart-x to be Ready", and its begin
    step: str = ""
    since: float = 0.0
    #: steps that are over, and all steps
    done: int = 0
    steps: int = 0
    #: steps that are over: end of each, and words
    story: tuple[tuple[float, str], ...] = ()
    #: reason why it failed
    reason: str = ""
    #: replacement of the pod
    replacement: str = ""
    #: effect, in words
    helped: str = ""


class NewsRow(_Row, frozen=True):
    """News, by number: a decision, a migration, an Event, or a change of state."""

    at: float
    kind: Literal["batch", "suggestion", "move", "event", "state"]
    text: str
    #: keys of the rows that it is about; empty: none
    workload: str = ""
    pod: str = ""
    node: str = ""
    move: str = ""
    #: number of the decision
    decision: int = 0
    warning: bool = False


class StatusRow(_Row, frozen=True):
    """Status of the scheduler; its key is `now`."""

    #: current activity: "migrating 2 of 3: waiting for shop/cart-x to be Ready, 4 s"
    headline: str
    #: problems, a sentence each
    troubles: tuple[str, ...] = ()
    role: Role = "alone"
    #: host that leads, in a cluster a pod; empty if this process leads, or none is known
    leader: str = ""
    paused: bool = False
    dry_run: bool = False
    #: suggester.mode
    mode: str = ""
    #: id for `kubedsm approve` of the proposed migrations
    proposal: str = ""
    #: number and time of the configuration in force; reason why a newer one is refused
    generation: int = 0
    configured: float = 0.0
    refusal: str = ""
    #: bind latency of recent pods, in milliseconds
    bind_p50: float | None = None
    bind_p99: float | None = None
    #: greatest recent event loop lag, in milliseconds
    loop_lag: float | None = None
    #: totals: batches decided, pods bound, migrations completed
    batches: int = 0
    bound: int = 0
    moves_done: int = 0
    #: pods that wait for a node, migrations in progress, and planned migrations
    waiting: int = 0
    moving: int = 0
    planned: int = 0


Row = NodeRow | PodRow | WorkloadRow | MoveRow | NewsRow | StatusRow
Table = Literal["nodes", "pods", "workloads", "moves", "news", "status"]

#: rows of each table by key; None: the row is gone
Rows: TypeAlias = Mapping[Table, Mapping[str, Row | None]]


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot", rename="camel", omit_defaults=True):
    """All rows."""

    version: int
    #: seconds since the epoch
    at: float
    rows: Rows
    #: id of the process that sends it; each process counts versions anew
    run: str = ""


class Changes(msgspec.Struct, frozen=True, tag="changes", rename="camel"):
    """Rows that differ from the version before; None for rows that are gone."""

    version: int
    at: float
    rows: Rows


Message: TypeAlias = Snapshot | Changes
_encoder = msgspec.json.Encoder()


def encode_message(message: Message) -> bytes:
    """Encode as JSON, on one line, with unprintable characters escaped."""
    return escape_strings(_encoder.encode(message))


class _Tables(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tables with the type of their rows; tables of later versions are ignored."""

    nodes: dict[str, NodeRow | None] = {}
    pods: dict[str, PodRow | None] = {}
    workloads: dict[str, WorkloadRow | None] = {}
    moves: dict[str, MoveRow | None] = {}
    news: dict[str, NewsRow | None] = {}
    status: dict[str, StatusRow | None] = {}


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    type: Literal["snapshot", "changes"]
    version: int
    at: float
    rows: _Tables
    run: str = ""


_decoder = msgspec.json.Decoder(_Message)


def decode_message(line: bytes) -> Message:
    """Decode a message. Raise msgspec.DecodeError."""
    found = _decoder.decode(line)
    rows: Rows = msgspec.structs.asdict(found.rows)  # type: ignore[assignment]  # by its tables
    if found.type == "snapshot":
        return Snapshot(found.version, found.at, rows, found.run)
    return Changes(found.version, found.at, {table: some for table, some in rows.items() if some})
