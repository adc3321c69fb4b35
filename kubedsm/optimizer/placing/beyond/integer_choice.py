"""The choice about a batch as an integer programme, for what is beyond the bounds of the tables.

It says what `decision.make_decision` says, in the same order: most pods placed, those of the
greatest turn first; QoS by level; then the most even shares, by level; then where pods like to be.
A variable counts the pods of a kind on a node. Further ones count whose pods are on the edge, and
each of a workload's steps up in QoS is one that is taken or not.

A cloud that has room for the whole batch is one node without limits: then it costs nothing that
there are many nodes.
"""

from collections.abc import Callable, Iterator, Sequence

import attrs
import numpy as np

from kubedsm.model.node_index import Mask
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.objective import NANO, Objective
from kubedsm.optimizer.matching.problem import Packing, Turn
from kubedsm.optimizer.placing.split import Demand, Picks
from kubedsm.optimizer.programming.in_order import Goal
from kubedsm.optimizer.programming.programme import Programme, Rows

#: Called with the rows and the N x S variables, to add rows and variables to them.
Also = Callable[[Rows, Ints], None]
#: What the goals are called.
PLACED, QOS, EVEN, LIKED = "pods placed", "QoS", "evenness", "preferences"
#: by how much gains that are equal differ at most for being rounded
_ROUNDED = 2


@attrs.frozen(eq=False)
class IntegerChoice:
    """Made by `integer_choice`."""

    members: Sequence[Demand]
    programme: Programme
    goals: tuple[Goal, ...]
    #: N x S, the variables: edge nodes, then those of the cloud, or one that stands for all of it
    loads: Ints
    #: S, how many are placed of each kind
    placed: Ints
    #: P, both: of which member the edge may have pods of which kind; and the variables of these
    owners: Ints
    kinds: Ints
    taken: Ints
    #: of each member, as many steps as it has pods
    steps: tuple[Ints, ...]

    def hint(self, on_edge: Ints, in_cloud: Ints, picks: Picks) -> Ints:
        """The values of a choice that was made otherwise; those that `also` added are 0.

        on_edge, in_cloud: its loads, N x S each.
        """
        values = np.zeros(len(self.programme.upper), dtype=np.int64)
        others = self.loads[len(on_edge) :]
        loads = in_cloud if len(others) == len(in_cloud) else in_cloud.sum(axis=0, keepdims=True)
        values[self.loads] = np.concatenate((on_edge, loads))
        values[self.placed] = values[self.loads].sum(axis=0)
        for member, kind, variable in zip(
            self.owners.tolist(), self.kinds.tolist(), self.taken.tolist(), strict=True
        ):
            number = picks.get((self.members[member].workload, kind), 0)
            values[variable] = number
            steps = self.steps[member]
            values[steps[int(values[steps].sum()) :][:number]] = 1
        return values

    def picks(self, values: Ints) -> Picks:
        """Whose pods are on the edge."""
        return {
            (self.members[member].workload, kind): int(values[variable])
            for member, kind, variable in zip(
                self.owners.tolist(), self.kinds.tolist(), self.taken.tolist(), strict=True
            )
            if values[variable]
        }


def integer_choice(
    edge: Packing,
    cloud: Packing,
    members: Sequence[Demand],
    objective: Objective,
    also: Also | None = None,
    roomy: Ints | None = None,
) -> IntegerChoice:
    """The programme of a batch; both packings have the same kinds, and the members their pods.

    roomy: S, if the cloud has room for so many pods of each kind, and never for more, and it does
    not matter on which of its nodes they are.
    """
    rows = Rows()
    on_edge = _on_nodes(rows, edge)
    in_cloud = _on_nodes(rows, cloud) if roomy is None else rows.variables(roomy[None])
    loads = np.concatenate((on_edge, in_cloud))
    placed = rows.variables(edge.counts)
    pods = np.array([member.counts for member in members], dtype=np.int64, ndmin=2)
    owners, kinds = np.nonzero(pods)
    taken = rows.variables(pods[owners, kinds])
    for kind in range(len(placed)):
        _equal(rows, loads[:, kind], placed[kind : kind + 1])
        _equal(rows, on_edge[:, kind], taken[kinds == kind])
    steps = tuple(_steps(rows, member.scores(objective)) for member in members)
    for member, of_member in enumerate(steps):
        _equal(rows, taken[owners == member], of_member)
    if also is not None:
        also(rows, loads)
    programme = rows.programme()
    size = len(programme.upper)
    least = cloud.penalties if roomy is None else cloud.least_penalties[None]
    disliked = _weights(size, loads, -np.concatenate((edge.penalties, least)))
    goals = (
        *(Goal(PLACED, _weights(size, placed, kinds), of=turn) for turn, kinds in turns_of(edge)),
        *_worth_most(members, steps, objective, size),
        Goal(LIKED, disliked),
    )
    return IntegerChoice(members, programme, goals, loads, placed, owners, kinds, taken, steps)


def _on_nodes(rows: Rows, packing: Packing) -> Ints:
    """Variables, N x S, and what keeps them within the room of the nodes."""
    upper = packing.fitting
    variables = rows.variables(upper)
    for resource, asked in enumerate(packing.requests.T):
        wanted = np.flatnonzero(asked)
        tight = np.flatnonzero(upper @ asked > packing.free[:, resource])
        coefficients = np.broadcast_to(asked[wanted], (len(tight), len(wanted)))
        rows.add_each(variables[np.ix_(tight, wanted)], coefficients, packing.free[tight, resource])
    return variables


def _steps(rows: Rows, scores: Ints) -> Ints:
    """A variable for each pod more of a workload; in order, where greater gains follow lesser."""
    steps = rows.variables(np.ones(len(scores) - 1, dtype=np.int64))
    if (np.diff(scores, 2) > _ROUNDED).any():
        ones = np.ones((len(steps) - 1, 1), dtype=np.int64)
        rows.add_each(
            np.column_stack((steps[1:], steps[:-1])), np.hstack((ones, -ones)), 0 * ones[:, 0]
        )
    return steps


def _equal(rows: Rows, these: Ints, those: Ints) -> None:
    signs = np.repeat([1, -1], [len(these), len(those)])
    rows.add(np.concatenate((these, those)), signs, 0, 0)


def turn_called(turn: Turn) -> str:
    priority, overdue = turn
    return f"priority {priority}, overdue {overdue}" if overdue else f"priority {priority}"


def turns_of(packing: Packing) -> Iterator[tuple[str, Mask]]:
    """Of each turn, the greatest first: what it is called, and its kinds."""
    turns = [kind.rank.turn for kind in packing.kinds]
    for turn in sorted(set(turns), reverse=True):
        yield turn_called(turn), np.array([each == turn for each in turns], dtype=np.bool_)


def level_called(level: int) -> str:
    return f"priority {level}"


def levels_of(members: Sequence[Demand]) -> Iterator[tuple[str, list[int]]]:
    """Of each level, the greatest first: what it is called, and which members have it."""
    for level in sorted({member.level for member in members}, reverse=True):
        of_level = [at for at, member in enumerate(members) if member.level == level]
        yield level_called(level), of_level


def _worth_most(
    members: Sequence[Demand], steps: Sequence[Ints], objective: Objective, size: int
) -> Iterator[Goal]:
    scores = [member.scores(objective) for member in members]
    uneven = [-member.uneven for member in members]
    for name, values, unit in ((QOS, scores, int(NANO)), (EVEN, uneven, 1)):
        for called, of_level in levels_of(members):
            weights = np.zeros(size, dtype=np.int64)
            for at in of_level:
                weights[steps[at]] = np.diff(values[at])
            yield Goal(name, weights, slack=len(of_level), of=called, unit=unit)


def _weights(size: int, variables: Ints, weights: Ints | Mask) -> Ints:
    every = np.zeros(size, dtype=np.int64)
    every[variables] = weights
    return every
