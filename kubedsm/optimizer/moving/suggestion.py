"""Migration suggestions as values: migrations with their steps, QoS scores before and after, and
why other pods stay.
"""

import enum
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, Self

import attrs
from attrs import validators

from kubedsm.model.model import MIGRATING_LABEL, NodeName, Pod, Share, Tier, Workload
from kubedsm.model.node_index import Step
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation
from kubedsm.objective.gains import LEAST_GAIN, Gain, Gains, leading_gain
from kubedsm.objective.objective import NANO, Objective, QosTargets, quality
from kubedsm.objective.site_shares import SiteLoss
from kubedsm.optimizer.programming.in_order import Certificate

#: characters of a suggestion's name
ID_LENGTH = 8


class MoveKind(enum.StrEnum):
    CLOUD_TO_EDGE = "cloud-to-edge"
    EDGE_TO_CLOUD = "edge-to-cloud"
    EDGE_TO_EDGE = "edge-to-edge"
    CLOUD_TO_CLOUD = "cloud-to-cloud"

    @classmethod
    def between(cls, source: Tier, target: Tier) -> Self:
        return cls(f"{source.value}-to-{target.value}")


@attrs.frozen(slots=True)
class Move:
    """Migration of a running pod, or first placement of a pending pod.

    Without source and kind, the pod gets its first node.
    """

    pod: Pod
    source: NodeName | None
    target: NodeName
    kind: MoveKind | None
    #: node that the pod goes to first, so that others get its capacity
    stopover: NodeName | None = None
    #: migrations of one group are selected together
    group: int = 0
    #: QoS lost without its group, in points a migration, at the highest
    #: priority that loses
    gain: float = 0.0
    #: migrations of the plan that the migration belongs to, this one included; 0: no plan
    plan: int = 0
    #: spreads replicas of the workload over nodes, or brings the pod to a preferred node
    rebalances: bool = False
    #: the pod's node affinity prefers the target
    preferred: bool = False
    #: pending pods that get the capacity
    room_for: str = ""
    #: load score of the pod at source and target, if the migration balances load
    load_scores: tuple[float, float] | None = None

    @property
    def evens(self) -> bool:
        """True if the migration stays within a tier for a preference, replica spread or load
        balance, without QoS gain.
        """
        return self.rebalances or self.load_scores is not None

    @property
    def purpose(self) -> str:
        """Purpose of the migration in words, for Events and logs."""
        if self.load_scores is not None:
            here, there = self.load_scores
            return f"to balance load: score {here:.0f} -> {there:.0f}"
        if self.room_for:
            return f"to free capacity for {self.room_for}"
        if self.preferred:
            return f"to {self.target}, which the pod's node affinity prefers"
        if self.rebalances:
            return f"to spread {self.pod.workload} over nodes"
        of_plan = f" of a plan of {self.plan}" if self.plan else ""
        return f"QoS score {self.gain:+.3f} per migration{of_plan}"


Moves = tuple[Move, ...]
_WITHIN_A_TIER = frozenset({MoveKind.EDGE_TO_EDGE, MoveKind.CLOUD_TO_CLOUD})


@attrs.frozen(slots=True)
class Leg:
    """Migration step: a whole migration, or its part before or after a stopover in the cloud."""

    move: Move
    source: NodeName
    target: NodeName
    #: names of legs that must be over, the old pod deleted, before this one starts
    needs: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return str(self.move.pod) if self.target == self.move.target else first_leg(self.move)

    @property
    def continues(self) -> str:
        """Name of the earlier migration step whose new pod this step migrates onwards from the
        stopover; empty otherwise.
        """
        return "" if self.source == self.move.source else first_leg(self.move)


def first_leg(move: Move) -> str:
    """Return the name of the migration step (leg) in which the pod leaves its source node."""
    return str(move.pod) if move.stopover is None else f"{move.pod}-out"


def split_into_legs(move: Move, needs: frozenset[str]) -> Iterator[Leg]:
    """Yield the one or two steps (legs) of a migration; `needs`: names of steps that the last step
    waits for.
    """
    if move.source is None:
        return
    if move.stopover is None:
        yield Leg(move, move.source, move.target, needs)
        return
    yield Leg(move, move.source, move.stopover)
    yield Leg(move, move.stopover, move.target, needs | {first_leg(move)})


def order_legs(legs: Iterable[Leg]) -> tuple[Leg, ...]:
    """Return the migration steps (legs) in topological order of their dependencies, ties by name.

    Raise ValueError for a cycle, or for an unknown prerequisite. Uses graphlib: the event loop's
    process does not import networkx.
    """
    by_name = {leg.name: leg for leg in legs}
    sorter = TopologicalSorter({name: leg.needs for name, leg in by_name.items()})
    try:
        sorter.prepare()
        known = all(leg.needs <= by_name.keys() for leg in by_name.values())
    except CycleError:
        known = False
    if not known:
        raise ValueError(f"legs wait for each other, or for no leg: {', '.join(by_name)}")
    ready, ordered = set[str](), list[Leg]()
    while sorter:
        ready.update(sorter.get_ready())
        name = min(ready)
        ready.remove(name)
        ordered.append(by_name[name])
        sorter.done(name)
    return tuple(ordered)


def list_steps(moves: Collection[Move]) -> list[Step]:
    """Return the arrivals and departures of pods at nodes by the migrations."""
    departures = [(move.pod, move.source, -1) for move in moves if move.source is not None]
    return [*((move.pod, move.target, 1) for move in moves), *departures]


def list_arrivals(moves: Iterable[Move]) -> Iterator[Step]:
    """Yield the arrivals of pods at targets and stopovers, as if no pod ever left its source."""
    for move in moves:
        for name in {move.target, move.stopover or move.target}:
            yield move.pod, name, 1


def count_edge_changes(moves: Iterable[Move]) -> dict[Workload, int]:
    """Return the change in the number of each workload's pods at the edge by the migrations."""
    changes: dict[Workload, int] = {}
    for move in moves:
        if move.kind not in _WITHIN_A_TIER:
            change = -1 if move.kind is MoveKind.EDGE_TO_CLOUD else 1
            changes[move.pod.workload] = changes.get(move.pod.workload, 0) + change
    return changes


def sum_gains(gains: Gains, moves: Iterable[Move]) -> Gain:
    return gains.of_changes(count_edge_changes(moves))


def count_stopovers(moves: Iterable[Move]) -> int:
    return sum(move.stopover is not None for move in moves)


def count_legs(moves: Collection[Move]) -> int:
    """Return how often pods change their node in the migrations: twice for a migration with a
    stopover.
    """
    return len(moves) + count_stopovers(moves)


def count_migrations(moves: Iterable[Move]) -> int:
    """Return how many of the pods are running already; pending pods that get their first node do
    not count.
    """
    return sum(move.source is not None for move in moves)


def count_disruptions(moves: Collection[Move]) -> int:
    """Return the number of migration steps of running pods; each costs the price of a migration."""
    return count_migrations(moves) + count_stopovers(moves)


def gain_per_disruption(gain: Gain, moves: Collection[Move]) -> tuple[float, ...]:
    """Return the QoS score gained per migration step (disruption), by priority level."""
    number = max(1, count_disruptions(moves))
    return tuple(amount / NANO / number for amount in gain)


def is_worthwhile(gains: Gains, moves: Collection[Move]) -> bool:
    return leading_gain(gain_per_disruption(sum_gains(gains, moves), moves)) > LEAST_GAIN


@attrs.frozen(slots=True)
class ClusterScore:
    """QoS score of the whole cluster, with edge shares and fragmentation."""

    #: nano-units of QoS, of all priorities together
    qos: int
    shares: Mapping[Workload, Share]
    #: of all edge nodes together, 2^-32 of a node each
    fragmentation: int

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        qos_targets: QosTargets,
        objective: Objective,
        fragmentation: Fragmentation,
    ) -> Self:
        shares = snapshot.census.shares
        cost = fragmentation.of(snapshot.in_turn(Tier.EDGE))
        return cls(quality(shares, qos_targets, objective), shares, cost)


class Cause(enum.StrEnum):
    """Reasons why a pod is not migrated, as message templates with placeholders in braces."""

    #: as the pod itself says
    PINNED = "{}"
    OF_ANOTHER_SCHEDULER = "it belongs to another scheduler"
    NOT_REPLACED = "it belongs to a {}"
    FINISHED = "it has finished"
    TERMINATING = "it is being deleted"
    NAMESPACE_TERMINATING = "its namespace is being deleted"
    DETACHED = "it is being migrated"
    MARKED = f"it carries the label {MIGRATING_LABEL}"
    GATED = "it is gated"
    ON_NO_NODE = "it is not on a node"
    BEYOND_ANY_NODE = "it requests more than any node has"
    ON_NO_TIER = "its node is neither edge nor cloud"
    NOT_RUNNING = "it is not running"
    NOT_READY = "it is not ready"
    CLAIM_NOT_SHARED = "its volume claim {} can be mounted on one node at a time"
    LOCAL_VOLUME = "its volume {} is reachable only from its node"
    MIGRATION_OFF = "its migration mode is off"
    WORKLOAD_MOVING = "a pod of its workload is being migrated"
    WORKLOAD_RESTING = "its workload is in the cool-down after a migration"
    WORKLOAD_DEFERRED = "{}"
    SITE_AWAY = "a site of its workload is unreachable or still stabilising"
    EDGE_SLOWER = "the edge answers its workload's requests more slowly than the cloud"
    BY_SITE = "its workload has demand by site, or resilience"
    REFUSED_BY_A_RULE = "{}: {}"
    NO_GAIN = "its group of migrations gains no QoS"
    BELOW_ITS_PRICE = "its group gains {:.1f} pod-seconds, no more than its price of {:.1f}"
    BELOW_PRICE_ALONE = "migrating it gains {:.1f} pod-seconds, no more than its price of {:.1f}"
    TARGET_MET = "its workload meets its QoS target"
    NOT_DEFRAGMENTING = "its group changes no QoS, and defragment is off"
    TOO_LITTLE_DEFRAGMENTED = (
        "its group changes no QoS, and takes less than 1 % of a node from fragmentation"
    )
    CROWDS_REPLICAS = (
        "its group changes no QoS, and would bring replicas of a workload onto one node or zone"
    )
    NEEDS_A_STOPOVER = "its group changes no QoS, and its migrations wait for each other's capacity"
    NO_EDGE_NODE = "there is no edge node"
    NO_NODE_IS_LARGE_ENOUGH = "no edge node is large enough for it, even if empty"
    NO_NODE_TAKES_IT = "no edge node accepts it: {}"
    MOST_MOVES = "maxMoves ({}) is reached"
    MOST_FROM_THE_CLOUD = "maxCloudToEdge ({}) is reached"
    NO_ROOM_IN_THE_CLOUD = "{}, and the cloud has no capacity for the pods that would have to leave"
    NO_MORE_MOVES = (
        "{}, and {} more migrations would not free enough at a benefit above their price"
    )
    NO_MOVES = "{}, and no migrations within the limits free enough at a benefit above their price"
    ROOM_ANYWAY = "it fits without a migration"
    NOT_PICKED = "the paper's algorithm did not pick it"
    WORTH_NOTHING = "migrating it gains nothing"
    NOT_FOUND = "not found within the search limits"

    def of(self, *told: object) -> "Reason":
        return Reason(self, told)


#: Reasons that depend on the migration price.
_AT_A_PRICE = frozenset({Cause.BELOW_ITS_PRICE, Cause.BELOW_PRICE_ALONE, Cause.NO_MOVES})


class Reason(NamedTuple):
    cause: Cause
    told: tuple[object, ...]

    def __str__(self) -> str:
        return self.cause.format(*self.told)


class NotTaken(NamedTuple):
    pod: Pod
    why: Reason

    @property
    def reason(self) -> str:
        return str(self.why)


@attrs.frozen(slots=True)
class Suggestion:
    """Suggested migrations of running pods whose benefit exceeds their disruption, with scores and
    explanations.

    The legs can be carried out in any order in which each comes after its needs: legs freeing its
    capacity, or without which a rule between pods could reject it.
    """

    before: ClusterScore
    #: after the migrations and the placement of awaited pods
    after: ClusterScore
    moves: tuple[Move, ...] = ()
    #: legs of the migrations
    legs: tuple[Leg, ...] = ()
    #: pending pods, and the nodes on which the migrations make room for them
    awaited: tuple[Move, ...] = ()
    #: migrations of a plan that follow these
    rest: tuple[Move, ...] = ()
    #: best pods staying, greatest benefit first
    rejected: tuple[NotTaken, ...] = ()
    #: no better suggestion exists within the limits; never set by the paper's form
    proven: bool = True
    #: value and upper bound of the benefit, at the highest priority at which
    #: anything might be gained; None within the bounds
    certificate: Certificate | None = None
    #: of the migrated workloads with resilience
    worst_losses: tuple[SiteLoss, ...] = ()
    #: the time limit passed before the work limit
    out_of_time: bool = False

    @property
    def placed(self) -> tuple[Move, ...]:
        """All pods with a new node: migrations, and placements of pending pods."""
        return (*self.moves, *self.awaited)

    @property
    def id(self) -> str:
        """Stable name of the suggestion: a hash of pods, sources and targets.

        Empty without migrations.
        """
        moves = sorted(f"{move.pod.uid} {move.source} {move.target}" for move in self.moves)
        digest = hashlib.sha256("\n".join(moves).encode()).hexdigest()
        return digest[:ID_LENGTH] if moves else ""

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """Optimality certificates of the suggestion that are not proven, in the same form as for
        placement decisions.
        """
        return () if self.certificate is None or self.proven else (self.certificate,)

    @property
    def may_pay_later(self) -> bool:
        """True if a rejected migration may become worthwhile once its gain is expected to last
        longer.
        """
        return any(left.why.cause in _AT_A_PRICE for left in self.rejected)


@attrs.frozen(slots=True)
class SuggestLimits:
    """Limits of a migration suggestion, such as the number of migrations and the price of each. A
    cap of 0 forbids that type of migration.
    """

    #: legs in all; a pending pod that gets capacity on the edge counts
    #: as one. `exact` only: the paper's form has the other two limits
    max_moves: int = attrs.field(default=6, validator=validators.ge(0))
    max_cloud_to_edge: int = attrs.field(default=5, validator=validators.ge(0))
    max_edge_reorder: int = attrs.field(default=3, validator=validators.ge(0))
    #: pod-seconds at the edge that a migration must exceed, at the highest
    #: priority that gains. `exact` only; at 0 QoS counts, however short it lasts
    price: float = attrs.field(default=0.0, validator=validators.ge(0.0))
    defragment: bool = False
    #: part of the edge's CPU and memory that migrations leave free
    headroom: float = attrs.field(default=0.0, validator=[validators.ge(0.0), validators.le(1.0)])
    #: whether replica spread counts, and one further migration, within
    #: the limits, spreads replicas that share a node; `exact` only
    spread: bool = False

    def permit(self, moves: Collection[Move]) -> bool:
        """Return True if the numbers of migrations are within the limits."""
        kinds = [move.kind for move in moves]
        return (
            count_legs(moves) <= self.max_moves
            and kinds.count(MoveKind.CLOUD_TO_EDGE) <= self.max_cloud_to_edge
            and kinds.count(MoveKind.EDGE_TO_EDGE) <= self.max_edge_reorder
        )

    def without(self, moves: Collection[Move]) -> "SuggestLimits":
        """Return the limits that the migrations leave for others."""
        kinds = [move.kind for move in moves]
        to_edge, inside = map(kinds.count, (MoveKind.CLOUD_TO_EDGE, MoveKind.EDGE_TO_EDGE))
        return attrs.evolve(
            self,
            max_moves=max(self.max_moves - count_legs(moves), 0),
            max_cloud_to_edge=max(self.max_cloud_to_edge - to_edge, 0),
            max_edge_reorder=max(self.max_edge_reorder - inside, 0),
        )
