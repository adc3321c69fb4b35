"""A batch planned again where the rules among its pods were in the way of the plan.

The first plan knows nothing of these rules. The next ones keep those that pods could not go where
they were planned for, as rows of a programme; then those that are in the way of that plan, too; and
so on. Whether a plan can be kept is always seen by keeping it: the rows only guide, and prove.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Pod
from kubedsm.objective.fragmentation import Fragmentation
from kubedsm.objective.objective import Objective
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import Packing
from kubedsm.optimizer.placing.beyond.choosing import proof_of
from kubedsm.optimizer.placing.beyond.integer_choice import (
    PLACED,
    QOS,
    Also,
    IntegerChoice,
    integer_choice,
)
from kubedsm.optimizer.placing.beyond.rule_rows import RuleRows
from kubedsm.optimizer.placing.dealing import DealtTier
from kubedsm.optimizer.placing.decision import Choice, by_pick
from kubedsm.optimizer.placing.rule_keeping import Kept
from kubedsm.optimizer.placing.split import Demand
from kubedsm.optimizer.programming.in_order import maximised_in_order
from kubedsm.optimizer.programming.programme import UNBOUNDED, Ints
from kubedsm.plugins.feasibility import EquivalenceClass


@attrs.frozen(eq=False)
class Attempt:
    choice: Choice
    kept: Kept
    #: no placement is better than was chosen, as far as that is proven
    bounding: bool = True

    @property
    def moved(self) -> Iterator[Pod]:
        """Those that are not where they were planned to be."""
        homes = {pod.uid: node for pod, node in self.kept.placed}
        for pod, node in (*self.choice.edge, *self.choice.cloud):
            if homes.get(pod.uid) != node:
                yield pod


class Keep(Protocol):
    def __call__(self, choice: Choice, *, anew: bool) -> Kept: ...


def solved_again(
    first: Attempt,
    rule_rows: RuleRows,
    like: Callable[[Pod], EquivalenceClass],
    choose: Callable[[Also, Kept], Choice | None],
    keep: Keep,
    deadline: Deadline,
) -> Iterator[Attempt]:
    """What else was tried.

    First with all constraints to be kept in the end. Where that is more than kube-scheduler would
    see to, also with each pod to keep its own as it comes only; `keep` is told which. `choose` is
    given what was kept the last time, to begin with.
    """
    attempt = first
    in_the_way = set(map(like, first.moved))
    for sound in (True, False) if rule_rows.lenient else (True,):
        rules = attrs.evolve(rule_rows, sound=sound)
        while not deadline.passed:
            concerned = frozenset(in_the_way)
            choice = choose(partial(rules.add, concerned=concerned), attempt.kept)
            if choice is None:
                break
            kept = keep(choice, anew=not sound)
            attempt = Attempt(choice, kept, bounding=not (sound and rules.lenient))
            yield attempt
            more = set(map(like, attempt.moved))
            if more <= in_the_way:
                break
            in_the_way |= more


def solved(
    edge: Packing,
    cloud: Packing,
    members: Sequence[Demand],
    objective: Objective,
    fragmentation: Fragmentation,
    bounds: Bounds,
    spread: ReplicaSpread | None,
    also: Also,
    begun: Kept,
) -> Choice | None:
    """The choice that a solver makes, no worse than what is begun with; None without an answer."""
    if bounds.solver is None:
        return None
    made = integer_choice(edge, cloud, members, objective, also)
    hint = _completed(made, _loads(edge, cloud, begun), bounds)
    found = maximised_in_order(made.programme, made.goals, bounds.solver, bounds.deadline, hint)
    if found.values is None:
        return None
    loads = found.values[made.loads]
    on_edge, in_cloud = loads[: len(edge.nodes)], loads[len(edge.nodes) :]
    chosen, others = by_pick(edge, made.picks(found.values))
    parts = (edge, on_edge, chosen), (cloud, in_cloud, others)
    if spread is None:
        at_edge, at_cloud = (packing.targets(of, pods) for packing, of, pods in parts)
    else:
        there = spread.copy()
        at_edge, at_cloud = (DealtTier.of(*part, there).targets for part in parts)
    fragmented = fragmentation.costs(edge.axes, edge.allocatable, edge.room_after(on_edge))
    proof = proof_of(found.certificates)
    told = tuple(c for c in found.certificates if c.goal in (PLACED, QOS) and not c.proven)
    return Choice(at_edge, at_cloud, int(fragmented.sum()), proof, told)


def _loads(edge: Packing, cloud: Packing, kept: Kept) -> Ints:
    """N x S, edge and cloud."""
    rows = {node.name: at for at, node in enumerate((*edge.nodes, *cloud.nodes))}
    kinds = {pod.uid: number for number, kind in enumerate(edge.kinds) for pod in kind.pods}
    loads = np.zeros((len(rows), len(edge.kinds)), dtype=np.int64)
    for pod, node in kept.placed:
        if node in rows:
            loads[rows[node], kinds[pod.uid]] += 1
    return loads


def _completed(made: IntegerChoice, loads: Ints, bounds: Bounds) -> Ints | None:
    """All values where the loads are these; None if the programme does not allow them."""
    upper = made.programme.upper.copy()
    if bounds.solver is None or (loads > upper[made.loads]).any():
        return None
    upper[made.loads] = loads
    columns, ones = made.loads.ravel(), np.ones(loads.size, dtype=np.int64)
    only = attrs.evolve(made.programme, upper=upper)
    only = only.with_row(columns, ones, int(loads.sum()), UNBOUNDED)
    return bounds.solver.maximise(only, np.zeros_like(upper), bounds.deadline).values
