"""The question how pods that no node takes get room, if all others may be packed anew."""

from collections.abc import Container, Mapping, Sequence

import attrs

from kubedsm.model.model import Pod, Tier, Uid, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.objective import quality
from kubedsm.optimizer.moving.suggestion import ClusterScore, Leg, Move, Suggestion
from kubedsm.optimizer.packing.pack import Packed, Part, find_stuck, split_parts
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.planner.plurals import counted, named
from kubedsm.planner.requests import Known
from kubedsm.planner.suggest_request import AboutMoves

#: why a pod gets no room
NO_ROOM = (
    "moving others would not help: no node takes it even if empty, or all free room is too little"
)
NONE_PROVEN = "no packing of the pods that may be moved places more: proven"
NONE_FOUND = "no packing of the pods that may be moved was found that places more; not proven"
BELOW_PRICE = (
    "{} would make room, but it is worth {:.1f} pod-seconds, not more than their price of {:.1f}"
)


@attrs.frozen(slots=True)
class Packing:
    """What is to be done: first those that are evicted go, then the moves are made."""

    #: moves that make room, and which pods are to have it; None if there are none
    suggestion: Suggestion | None = None
    evicted: tuple[Pod, ...] = ()
    #: how sure it is that nothing better could be done; none if nothing was thought about
    certificates: tuple[Certificate, ...] = ()
    #: what keeps the other pods that were refused
    left: Mapping[Uid, str] = attrs.field(factory=dict)
    #: whether any were left alone only because they are, or were, being moved; or for want of
    #: time, as an urgent question came
    rests: bool = False
    #: whether moves were left out that are worth more the longer what they gain is to last
    may_pay_later: bool = False


@attrs.frozen(slots=True)
class RoomByPacking(AboutMoves):
    name = "packing"
    #: the pods that wait
    refused: frozenset[Uid] = frozenset()

    def answered(self, known: Known) -> Packing:
        """Raise TypeError if the policy does not pack."""
        policy, configuration = known.policy(), known.configuration()
        if not isinstance(policy, KubeDSM):
            raise TypeError(f"{policy} does not pack")
        seen, settings = self.seen(known), configuration.optimiser
        waiting = find_stuck(seen, self.refused)
        left = dict.fromkeys(self.refused - waiting, NO_ROOM)
        if not waiting:
            return Packing(left=left)
        rests = set[Workload]()
        packed = policy.pack(
            _only(seen, waiting),
            self.movable(known, rests),
            known.deadline(self),
            tier_share=settings.tier_share,
            allow_evictions=settings.allow_evictions,
        )
        left |= dict.fromkeys(waiting, NONE_PROVEN if packed.placed_proven else NONE_FOUND)
        paying = []
        for part in split_parts(packed.legs, packed.awaited, packed.evicted):
            worth = sum(self.quiet.lasting(move.pod.workload) for move in part.awaited)
            cost = configuration.migration.price * part.disruptions
            if worth > cost:
                paying.append(part)
            else:
                told = BELOW_PRICE.format(counted(part.disruptions, "move"), worth, cost)
                left |= {move.pod.uid: told for move in part.awaited}
        awaited = {move.pod.uid for part in paying for move in part.awaited}
        return Packing(
            suggestion_of(seen, policy, packed, paying) if awaited else None,
            tuple(pod for part in paying for pod in part.evicted),
            packed.certificates,
            {uid: why for uid, why in left.items() if uid not in awaited},
            rests=bool(rests) or known.interrupted(),
            may_pay_later=len(awaited) < len(packed.awaited),
        )


def _only(snapshot: Snapshot, waiting: Container[Uid]) -> Snapshot:
    """The same with no other pods waiting."""
    others = {
        uid: attrs.evolve(pod, gated=True)
        for uid, pod in snapshot.pods.items()
        if pod.waits_for_node and uid not in waiting
    }
    return snapshot.instead(others)


def suggestion_of(
    snapshot: Snapshot, policy: KubeDSM, packed: Packed, parts: Sequence[Part]
) -> Suggestion:
    """The parts as its groups."""
    legs: list[Leg] = []
    awaited: list[Move] = []
    for number, part in enumerate(parts):
        whom = named([str(move.pod) for move in part.awaited])
        awaited += [attrs.evolve(move, group=number) for move in part.awaited]
        for leg in part.legs:
            move = attrs.evolve(leg.move, group=number, room_for=whom)
            legs.append(attrs.evolve(leg, move=move))
    moves = tuple({leg.move.pod.uid: leg.move for leg in legs}.values())
    targets = {move.pod.uid: move.target for move in (*moves, *awaited)}
    after = snapshot.without(pod.uid for part in parts for pod in part.evicted)
    return Suggestion(
        before=score_of(snapshot, policy),
        after=score_of(after.with_placed(targets), policy),
        moves=moves,
        legs=tuple(legs),
        awaited=tuple(awaited),
        proven=packed.proven,
    )


def score_of(snapshot: Snapshot, policy: KubeDSM) -> ClusterScore:
    """How the cluster is."""
    shares, promises = snapshot.shares(), policy.qos_targets_in(snapshot)
    fragmentation = Fragmentation(policy.measure, request_mix(snapshot))
    return ClusterScore(
        quality(shares, promises, policy.objective),
        shares,
        fragmentation.of(snapshot.of_tier(Tier.EDGE), snapshot.free),
    )
