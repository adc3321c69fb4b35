"""Rows of the cluster as displayed to viewers, and the messages for their transmission.

Rows are flat and hold plain values; fields with default values are omitted. Times are seconds since
the epoch, cpu is in millicores, memory in bytes. A viewer gets a snapshot and then the changes; a
recording is the same messages in sequence.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Literal, TypeAlias, TypedDict, cast

import msgspec

from kubedsm.explain.node import NodeState
from kubedsm.model.model import Tier
from kubedsm.observability.health_rules import State
from kubedsm.terminal.echo import escape_strings

#: gated: with schedulingGates; starting: on a selected node, without running containers; not ready:
#: with running containers
PodState = Literal["waiting", "gated", "starting", "not ready", "ready", "leaving"]
#: alone: without leader election; watching: the process follows the cluster and decides nothing
Role = Literal["leading", "standby", "alone", "watching"]
MoveState = Literal[
    "proposed", "planned", "moving", "completed", "rolled back", "failed", "dropped"
]


class _Row(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class NodeRow(_Row, frozen=True):
    """Dashboard row of a node, keyed by node name."""

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
    #: beginning of the state, if different since the first evaluation
    since: float = 0.0
    #: also in combination with a worse state
    cordoned: bool = False
    #: measured use, as parts of `cpu` and `memory`; None: not known
    cpu_used: float | None = None
    memory_used: float | None = None


class PodRow(_Row, frozen=True):
    """Dashboard row of a pod, keyed by namespace/name; finished pods have no row."""

    #: key of its workload's row
    workload: str
    state: PodState
    created: float
    cpu: int = 0
    memory: int = 0
    #: assigned or reserved node; empty for a pending pod
    node: str = ""
    #: planned or unfinished migration of the pod, or for the pod as replacement
    move: str = ""
    #: reason for pending, usually kube-scheduler's message
    message: str = ""
    #: rejecting Filter plugins, such as NodeResourcesFit
    rules: tuple[str, ...] = ()
    #: node with preemption or migrations in favour of the pod
    room_on: str = ""
    #: schedulerName of another scheduler's pod
    scheduler: str = ""


class WorkloadRow(_Row, frozen=True):
    """Dashboard row of a workload that uses this scheduler, keyed by namespace/name."""

    kind: str
    #: number of edge pods, and of all pods including pending pods
    edge: int
    total: int
    #: QoS factor (targeted edge share), None for unknown configuration; objective weight
    target: float | None = None
    weight: float = 0.0
    #: missing pods relative to the QoS target
    missing: int = 0
    #: edge pods above the QoS target, which stay until other workloads need the capacity
    surplus: int = 0
    #: number of Ready pods, and of pending pods
    ready: int = 0
    waiting: int = 0
    #: measured mean response times in milliseconds; None: not known
    edge_answers: float | None = None
    cloud_answers: float | None = None
    #: longer response time at the edge
    edge_slower: bool = False


class MoveRow(_Row, frozen=True):
    """Dashboard row of a migration, keyed by id or, for a proposed migration, by pod."""

    pod: str
    workload: str
    source: str
    target: str
    kind: str
    #: reason, in words
    purpose: str
    state: MoveState
    #: times of decision, beginning and completion; 0: not yet
    at: float
    began: float = 0.0
    ended: float = 0.0
    #: decision number
    decision: int = 0
    #: unfinished step, such as "waiting for shop/cart-x to be Ready", and the beginning
    step: str = ""
    since: float = 0.0
    #: number of finished steps, and of all steps
    done: int = 0
    steps: int = 0
    #: finished steps: completion time and description
    story: tuple[tuple[float, str], ...] = ()
    #: failure reason
    reason: str = ""
    #: replacement of the pod
    replacement: str = ""
    #: effect, in words
    helped: str = ""


class NewsRow(_Row, frozen=True):
    """Dashboard row of recent activity: a decision, a migration, an Event, or a state change."""

    at: float
    kind: Literal["batch", "suggestion", "move", "event", "state"]
    text: str
    #: keys of the associated rows; empty: none
    workload: str = ""
    pod: str = ""
    node: str = ""
    move: str = ""
    #: number of the decision
    decision: int = 0
    warning: bool = False


class SiteRow(_Row, frozen=True):
    """Dashboard row of an edge site: demand of the users there, and the replicas there of all
    workloads with demand.
    """

    #: empty: edge nodes without a site
    site: str
    #: part of the demand that is served from there, and its target
    reached: float
    target: float
    #: replicas present, and missing
    replicas: int
    missing: int = 0


class StatusRow(_Row, frozen=True):
    """Dashboard row with the scheduler's status, under the key `now`."""

    #: current activity: "migrating 2 of 3: waiting for shop/cart-x to be Ready, 4 s"
    headline: str
    #: violated health rules that determine the state, and notices, a sentence each
    troubles: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    #: by `observability.health_rules`
    state: State = "healthy"
    role: Role = "alone"
    #: leading host, in a cluster a pod; empty if unknown, or for the leading process
    leader: str = ""
    paused: bool = False
    dry_run: bool = False
    #: suggester.mode
    mode: str = ""
    #: id for `kubedsm approve` of the proposed migrations
    proposal: str = ""
    #: number and time of the effective configuration; refusal reason of a newer configuration
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
    #: edge capacity of nodes that accept pods, and free: cpu in millicores, memory in bytes
    edge_cpu: int = 0
    edge_cpu_free: int = 0
    edge_memory: int = 0
    edge_memory_free: int = 0
    #: standard deviation of the edge shares of workloads with a target
    share_deviation: float | None = None
    #: number of pending pods, of unfinished migrations, and of planned migrations
    waiting: int = 0
    moving: int = 0
    planned: int = 0
    #: sites with demand, in name order
    sites: tuple[SiteRow, ...] = ()
    #: name of the cluster: of `--page-name`, of the kubeconfig's context, or the uid's beginning
    cluster: str = ""


Row = NodeRow | PodRow | WorkloadRow | MoveRow | NewsRow | StatusRow


class Rows(TypedDict, total=False):
    """Rows of each table by key; None: the row is gone. Decoding ignores unknown tables."""

    nodes: dict[str, NodeRow | None]
    pods: dict[str, PodRow | None]
    workloads: dict[str, WorkloadRow | None]
    moves: dict[str, MoveRow | None]
    news: dict[str, NewsRow | None]
    status: dict[str, StatusRow | None]


def list_tables(rows: Rows) -> Iterable[tuple[str, dict[str, Row | None]]]:
    """Return the name and the rows of each table."""
    return cast(dict[str, dict[str, Row | None]], rows).items()


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot", rename="camel", omit_defaults=True):
    """Message with all rows of the dashboard, sent to a new viewer."""

    version: int
    #: seconds since the epoch
    at: float
    rows: Rows
    #: id of the sending process; versions are per process
    run: str = ""


class Changes(msgspec.Struct, frozen=True, tag="changes", rename="camel"):
    """Message with the dashboard rows that changed since the previous version; None for a deleted
    row.
    """

    version: int
    at: float
    rows: Rows


Message: TypeAlias = Snapshot | Changes


def list_decisions(message: Message) -> Iterator[int]:
    """Yield the numbers of the decisions that rows refer to."""
    for row in (*message.rows.get("news", {}).values(), *message.rows.get("moves", {}).values()):
        if row is not None:
            yield row.decision


#: bytes of a message at most: all rows of a large cluster
_LONGEST = 256 * 2**20
_encoder = msgspec.json.Encoder()


def encode_message(message: Message) -> bytes:
    """Encode a message of dashboard rows as a line of JSON, with unprintable characters escaped."""
    return escape_strings(_encoder.encode(message))


_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def decode_message(line: bytes) -> Message:
    """Decode a message of dashboard rows from JSON. Raise msgspec.DecodeError."""
    return _decoder.decode(line)


async def split_messages(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the messages of a stream or a recording, and empty lines as signs of life. Raise
    msgspec.DecodeError for an endless message.
    """
    text = bytearray()
    async for piece in pieces:
        text += piece
        if b"\n" in piece:
            *lines, text = text.split(b"\n")
            for line in lines:
                yield bytes(line.removeprefix(b"data: ").removeprefix(b":"))
        elif len(text) > _LONGEST:
            raise msgspec.DecodeError("a message is too long")
    if not text.startswith(b"data: "):  # a stream ends its messages: without it, one was cut off
        yield bytes(text)
