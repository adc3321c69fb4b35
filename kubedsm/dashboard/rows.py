"""What viewers see of the cluster, as rows of tables: flat, of plain values, and small.

Fields with their default values are left out when they are sent. Times are seconds since the
epoch, cpu is in millicores, memory in bytes.
"""

from typing import Literal

import msgspec

from kubedsm.model.model import Tier

#: why a node takes no pods, the worst of it; empty if it does. Cut off: its site is, and what runs
#: there goes on unheard; settling: its site is back, and nothing is put there yet
NodeState = Literal["", "cordoned", "settling", "not ready", "unreachable", "cut off"]
#: gated: its schedulingGates are to be taken off first; starting: a node is chosen, its containers
#: do not run yet; not ready: they run
PodState = Literal["waiting", "gated", "starting", "not ready", "ready", "leaving"]
#: alone: without election; watching: the cluster is followed, and nothing is decided here
Role = Literal["leading", "standby", "alone", "watching"]
MoveState = Literal["proposed", "planned", "moving", "completed", "taken back", "failed", "dropped"]


class _Row(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class NodeRow(_Row, frozen=True):
    """By name."""

    #: None: not ours to place on
    tier: Tier | None
    #: what can be requested of it
    cpu: int
    memory: int
    #: how many pods it takes
    pods: int
    #: of an edge node, if it is at one
    site: str = ""
    state: NodeState = ""
    #: since when it is in that state, if it has changed since we look
    since: float = 0.0
    #: also where the state says something worse
    cordoned: bool = False
    #: what is in use, as measured: parts of `cpu` and `memory`; None: not known
    cpu_used: float | None = None
    memory_used: float | None = None


class PodRow(_Row, frozen=True):
    """By namespace/name. Pods that have finished and left their room are not in it."""

    #: namespace/name, the key of its row
    workload: str
    state: PodState
    created: float
    cpu: int = 0
    memory: int = 0
    #: the one it is on, or on its way to; empty while it waits
    node: str = ""
    #: the move, planned or under way, that it was made for, or that takes it away
    move: str = ""
    #: of a pod that waits: why, mostly in kube-scheduler's words
    message: str = ""
    #: the rules by which nodes reject it, such as NodeResourcesFit
    rules: tuple[str, ...] = ()
    #: of one that waits: the node on which room is being made for it
    room_on: str = ""
    #: of another scheduler's pod
    scheduler: str = ""


class WorkloadRow(_Row, frozen=True):
    """By namespace/name; of those with pods of ours."""

    kind: str
    #: pods on the edge, pods in all, those that wait included
    edge: int
    total: int
    #: QoS factor: the share of its pods that should be on the edge, None if the configuration is
    #: not known; and its weight
    promise: float | None = None
    weight: float = 0.0
    #: pods that would have to be on the edge, and are not
    missing: int = 0
    #: of the pods, those that are Ready, and those that wait for a node
    ready: int = 0
    waiting: int = 0
    #: milliseconds that a request takes, the mean, as measured there; None: not known
    edge_answers: float | None = None
    cloud_answers: float | None = None
    #: the edge answers it more slowly than the cloud
    edge_slower: bool = False


class MoveRow(_Row, frozen=True):
    """By the id of its order, or, while it is only proposed, by its pod."""

    pod: str
    workload: str
    source: str
    target: str
    kind: str
    #: what it is made for, in words: "its promise lacks 1 pod of 3"
    purpose: str
    state: MoveState
    #: when it was decided, when it began, and when all was over; 0: not yet
    at: float
    began: float = 0.0
    ended: float = 0.0
    #: the number of its decision
    decision: int = 0
    gain: float = 0.0
    #: what goes on now, in words: "waiting for shop/cart-x to be Ready"; and since when
    step: str = ""
    since: float = 0.0
    #: the steps that are over, of so many
    done: int = 0
    steps: int = 0
    #: what was done until now: when each step was over, and that in words
    story: tuple[tuple[float, str], ...] = ()
    #: why it did not end well
    reason: str = ""
    #: the pod in its place
    replacement: str = ""
    #: what it brought, in words
    helped: str = ""


class NewsRow(_Row, frozen=True):
    """One thing that happened, by number: a decision, a move's end, an Event, a change of state."""

    at: float
    kind: Literal["batch", "suggestion", "move", "event", "state"]
    text: str
    #: what it is about, in each case a key of that table; empty: nothing
    workload: str = ""
    pod: str = ""
    node: str = ""
    move: str = ""
    #: the number of the decision
    decision: int = 0
    warning: bool = False


class StatusRow(_Row, frozen=True):
    """How things stand in all; its key is `now`."""

    #: what is going on, in words: "moving 2 of 3: waiting for shop/cart-x to be Ready, 4 s"
    headline: str
    #: whether anything is wrong, and what, each in a sentence
    troubles: tuple[str, ...] = ()
    role: Role = "alone"
    #: host that leads, in a cluster a pod; empty if this process leads, or none is known
    leader: str = ""
    paused: bool = False
    dry_run: bool = False
    #: suggester.mode
    mode: str = ""
    #: what `kubedsm approve` takes, if moves are proposed
    proposal: str = ""
    #: configurations taken so far, when the last one was, and why what was given since is refused
    generation: int = 0
    configured: float = 0.0
    refusal: str = ""
    #: milliseconds from seen waiting to seen on a node, of the last pods that were bound
    bind_p50: float | None = None
    bind_p99: float | None = None
    #: milliseconds by which the event loop is late, at most lately
    loop_lag: float | None = None
    #: so far: batches decided on, pods bound, moves completed
    batches: int = 0
    bound: int = 0
    moves_done: int = 0
    #: now: pods that wait for a node, moves under way, and those that wait for their turn
    waiting: int = 0
    moving: int = 0
    planned: int = 0


Row = NodeRow | PodRow | WorkloadRow | MoveRow | NewsRow | StatusRow
Table = Literal["nodes", "pods", "workloads", "moves", "news", "status"]
