"""What is said of a pod and of each node, in the form in which it is sent and printed."""

from typing import Annotated, Any

import msgspec

from kubedsm.model.model import NodeName, Tier


class NodeAnswer(msgspec.Struct, frozen=True, rename="camel"):
    node: NodeName
    tier: Tier | None
    #: kube-scheduler's verdict; the rule that it is refused by, and why
    feasible: bool
    rule: str | None
    reasons: tuple[str, ...]
    #: what the tier rule says, which is ours
    tier_rule: str | None
    #: what would have to change
    change: str | None
    #: what the scheduler ranks nodes by, in this order: points of QoS won, how much less than the
    #: best of them the pod prefers it (see `core.rules.preferences`),
    score: float | None = None
    penalty: int | None = None
    #: how many of its replicas it would join, on the node and, of several, in its zone,
    company: int | None = None
    #: within a tier, how evenly the node is used with it, if that is measured: up to 100, below 0
    #: where it is used too much. The greatest wins, with its weight and less the penalty; then
    load: float | None = None
    #: on the edge, how much fragmentation is added, in nodes; the least wins
    fragmentation: float | None = None
    #: in the cloud, kube-scheduler's LeastAllocated, 0..100; the greatest wins
    least_allocated: int | None = None
    #: False for one of the cloud that the decision passed over: `cloud.percentageOfNodes`
    looked_at: bool = True


class ResponseAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Mean response times, in seconds: of all requests, and of those answered in a tier."""

    all: float
    edge: float | None = None
    cloud: float | None = None


class Expected(msgspec.Struct, frozen=True):
    before: float
    after: float


class Brought(msgspec.Struct, frozen=True):
    before: ResponseAnswer
    after: ResponseAnswer


class EffectAnswer(msgspec.Struct, frozen=True):
    """See `effects.Effect`."""

    expected: Expected
    measured: Brought | None = None
    untold: str | None = None
    together: Annotated[int, msgspec.Meta(ge=1)] = 1


class MoveAnswer(msgspec.Struct, frozen=True):
    """A move; of one that only Events tell of, no more than what they say."""

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
    #: what it was to bring and what it brought, and the same in a line
    effect: EffectAnswer | None = None
    helped: str | None = None


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    pod: str
    #: in name order
    nodes: tuple[NodeAnswer, ...]
    #: the node it is on, or that it would be put on now; of a decision, the node decided on
    chosen: NodeName | None = None
    bound: bool = False
    #: whether it is not there any more
    gone: bool = False
    #: kube-scheduler's words for a pod that no node takes
    message: str | None = None
    #: RFC 3339; None if this is no decision that was made
    decided_at: str | None = None
    #: of which moment the nodes are told: decision, now, or neither, as in a dump
    nodes_as_of: str | None = None
    #: moves of the pod, and the one that it was made for
    moves: tuple[MoveAnswer, ...] = ()
    #: why it was put where it was, in a line
    summary: str | None = None
    #: of a pod that every node refused: what was found when all were thought to be packed anew
    packing: str | None = None
    #: of a pod that is not ours: the schedulerName that it has, and what would make it ours
    left_to: str | None = None
    opt_in: str | None = None

    def as_json(self) -> dict[str, Any]:
        said: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return said
