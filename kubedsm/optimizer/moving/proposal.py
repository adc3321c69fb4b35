"""Problem and result of the forms of `suggest`, before groups are selected."""

from collections.abc import Mapping, Sequence

import attrs

from kubedsm.model.model import NodeName, Resources, Tier, Uid, Workload
from kubedsm.objective.gains import Gain, Gains, net
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.migration_graph import Order
from kubedsm.optimizer.moving.move_order import Impasse, order_migrations
from kubedsm.optimizer.moving.suggestion import (
    Move,
    MoveKind,
    Moves,
    SuggestLimits,
    count_disruptions,
    sum_gains,
)
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.plugins.feasibility import Feasibility


@attrs.frozen(eq=False)
class Question:
    """Problem, gains, limits and exact-search limit of one suggestion."""

    problem: EdgeProblem
    gains: Gains
    #: gains in the unit of the price
    worths: Gains
    limits: SuggestLimits
    bounds: Bounds
    #: whether pods may wait for cloud capacity that other pods leave
    vacating: bool = True

    @property
    def price(self) -> int:
        """Price of a migration in nano-units."""
        return round(self.limits.price * NANO)

    def may_gain(self, workload: Workload) -> bool:
        """Return whether any migration could pay by what it brings to the workload."""
        share = self.gains.shares[workload]
        worths = self.worths if self.price else self.gains
        more = min(self.limits.max_moves, share.total - share.edge)
        return workload in self.problem.awaited or worths.of_workload(workload, more) > 0

    def cost(self, moves: Moves) -> int:
        """Return the price of the migrations; capacity for a pending pod is worth any price."""
        awaited = sum(move.source is None for move in moves)
        return self.price * (count_disruptions(moves) - awaited * self.limits.max_moves)

    def net(self, moves: Moves) -> Gain:
        """Return the benefit of the migrations less their price."""
        return net(sum_gains(self.worths, moves), self.cost(moves))


@attrs.frozen(eq=False)
class Proposal:
    moves: Moves = ()
    #: nothing better exists within the limits
    proven: bool = True
    #: how many states were compared
    states: int = 0
    #: better solutions that rules between pods rejected
    refused: tuple[Impasse, ...] = ()
    #: upper bound, if not proven
    certificate: Certificate | None = None


def drop_rejected(
    feasibility: Feasibility, moves: Sequence[Move], free: Mapping[NodeName, Resources]
) -> tuple[Order, tuple[Impasse, ...]]:
    """Return the migrations that rules between pods allow, and the impasses of the others.

    A rejected pod from the cloud is sent to another edge node that accepts it now.
    """
    refused: list[Impasse] = []
    others: dict[Uid, list[NodeName]] = {}
    edge = {node.name for node in feasibility.nodes if node.tier is Tier.EDGE}
    while isinstance(order := order_migrations(feasibility, moves, free), Impasse):
        move, uid = order.move, order.move.pod.uid
        if uid not in others:
            refused.append(order)
            others[uid] = []
            if move.kind is MoveKind.CLOUD_TO_EDGE:
                taking = feasibility.without_pod(uid).feasible(move.pod)
                others[uid] = [n for n in taking if n in edge and n != move.target]
        elsewhere = [attrs.evolve(move, target=others[uid].pop(0))] if others[uid] else []
        moves = [*(other for other in moves if other.pod.uid != uid), *elsewhere]
    kept = {move.pod.uid for move in order.moves}
    return order, tuple(left for left in refused if left.move.pod.uid not in kept)
