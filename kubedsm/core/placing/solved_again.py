"""A batch planned again where the rules among its pods were in the way of the plan.

The first plan knows nothing of these rules. The next ones keep those that pods could not go where
they were planned for, as rows of a programme; then those that are in the way of that plan, too; and
so on. Whether a plan can be kept is always seen by keeping it: the rows only guide, and prove.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

import attrs

from kubedsm.core.goals.fragmentation import Fragmentation
from kubedsm.core.goals.objective import Objective
from kubedsm.core.goals.replica_spread import ReplicaSpread
from kubedsm.core.packing.match import Bounds
from kubedsm.core.packing.problem import Packing
from kubedsm.core.placing.dealing import DealtTier
from kubedsm.core.placing.decision import Choice, by_pick
from kubedsm.core.placing.integer_choice import Also, integer_choice
from kubedsm.core.placing.proof import NO_PROOF, Proof
from kubedsm.core.placing.rule_keeping import Kept
from kubedsm.core.placing.rule_rows import RuleRows
from kubedsm.core.placing.split import Demand
from kubedsm.core.rules.feasibility import EquivalenceClass
from kubedsm.core.solving.in_order import Certificate, maximised_in_order
from kubedsm.core.world.deadline import Deadline
from kubedsm.core.world.model import Pod


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
    choose: Callable[[Also], Choice | None],
    keep: Keep,
    deadline: Deadline,
) -> Iterator[Attempt]:
    """What else was tried.

    First with all constraints to be kept in the end. Where that is more than kube-scheduler would
    see to, also with each pod to keep its own as it comes only; `keep` is told which.
    """
    in_the_way = set(map(like, first.moved))
    for sound in (True, False) if rule_rows.lenient else (True,):
        rules = attrs.evolve(rule_rows, sound=sound)
        while not deadline.passed:
            choice = choose(partial(rules.add, concerned=frozenset(in_the_way)))
            if choice is None:
                break
            kept = keep(choice, anew=not sound)
            attempt = Attempt(choice, kept, bounding=not (sound and rules.lenient))
            yield attempt
            more = set(map(like, attempt.moved))
            if more <= in_the_way:
                break
            in_the_way |= more
    yield Attempt(first.choice, keep(first.choice, anew=True))


def solved(
    edge: Packing,
    cloud: Packing,
    members: Sequence[Demand],
    objective: Objective,
    fragmentation: Fragmentation,
    bounds: Bounds,
    spread: ReplicaSpread | None,
    also: Also,
) -> Choice | None:
    """The choice that a solver makes; None if it finds none in time."""
    if bounds.solver is None:
        return None
    made = integer_choice(edge, cloud, members, objective, also)
    found = maximised_in_order(made.programme, made.goals, bounds.solver, bounds.deadline)
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
    return Choice(at_edge, at_cloud, int(fragmented.sum()), _proof(found.certificates))


def _proof(certificates: Iterable[Certificate]) -> Proof:
    open_goals = [c.goal.split()[0] for c in certificates if not c.proven]
    return attrs.evolve(
        NO_PROOF,
        placed="pods" not in open_goals,
        qos=not {"QoS", "evenness"} & set(open_goals),
        preferences="preferences" not in open_goals,
    )
