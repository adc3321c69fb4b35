"""What the suggester says: moves, their score before and after, and what it left alone."""

import enum
from collections.abc import Mapping
from typing import NamedTuple

import attrs
from attrs import validators

from kubedsm.core.world.model import NodeName, Pod, Share, Uid, Workload


class MoveKind(enum.StrEnum):
    CLOUD_TO_EDGE = "cloud-to-edge"
    EDGE_TO_CLOUD = "edge-to-cloud"
    EDGE_TO_EDGE = "edge-to-edge"


@attrs.frozen(slots=True)
class Move:
    pod: Pod
    source: NodeName
    target: NodeName
    kind: MoveKind
    #: moves of one group are taken or left together
    group: int
    #: of its group: the QoS, in points, that would be lost without it, a move, at the highest
    #: priority at which any would
    gain: float


@attrs.frozen(slots=True)
class Score:
    """Of the whole cluster."""

    #: nano-units of QoS, of all priorities together
    qos: int
    shares: Mapping[Workload, Share]
    #: of all edge nodes together, 2^-32 of a node each
    fragmentation: int


class Rejected(NamedTuple):
    pod: Pod
    reason: str


class Awaited(NamedTuple):
    """A pod that waits for a node, and where the moves leave room for it."""

    pod: Pod
    node: NodeName


@attrs.frozen(slots=True)
class Suggestion:
    """Moves worth their disruption.

    `needs` says, for every move, which moves must be over (the old pod DELETED) before it may
    start: those that free its room, or without which a rule about other pods could refuse it. The
    cloud's room is counted as if nothing left it, so that no move into the cloud needs room. Moves
    that need each other are a cycle, to be broken through the cloud, which can hold one pod of
    each cycle beside what goes there anyway.
    """

    before: Score
    #: once the moves are carried out and the awaited pods are placed
    after: Score
    moves: tuple[Move, ...] = ()
    needs: Mapping[Uid, frozenset[Uid]] = attrs.field(factory=dict)
    awaited: tuple[Awaited, ...] = ()
    #: the best that was not taken, most useful first
    rejected: tuple[Rejected, ...] = ()
    #: nothing better exists within the limits; never said of the paper's form
    proven: bool = True
    #: how many states were compared
    states: int = 0


@attrs.frozen(slots=True)
class SuggestLimits:
    """How much a suggestion may move. Of a kind that is capped at 0 there is no move."""

    #: in all; a pending pod that gets room on the edge counts as one. Only `exact` asks: the
    #: paper's form has the other two
    max_moves: int = attrs.field(default=6, validator=validators.ge(0))
    max_cloud_to_edge: int = attrs.field(default=5, validator=validators.ge(0))
    max_edge_reorder: int = attrs.field(default=3, validator=validators.ge(0))
    #: points of QoS a move, at the highest priority that gains
    min_gain: float = attrs.field(default=0.0, validator=validators.ge(0.0))
    defragment: bool = False
