"""A batch kept within the rules about other pods: ports, affinity, spread, volumes.

`match` knows what a class and a node say of each other, and what the pods that are there already
say. What the pods of the batch say of each other is checked here, one after the other, each seeing
those before it; a pod whose node rejects it waits while others of the batch may still change that,
goes to the best other node then, or stays out.

There is an order in which each pod of the batch keeps its rules as it comes: the one given. In the
end each keeps them with all others in place, too, unless that keeps out pods that kube-scheduler
would place.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import attrs

from kubedsm.model.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from kubedsm.model.model import NodeName, Pod, Uid
from kubedsm.model.serving_order import serving_order
from kubedsm.model.surroundings import Surroundings
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.placing.open_nodes import OpenNodes
from kubedsm.optimizer.placing.other_starts import begun_anew
from kubedsm.optimizer.placing.settling import GainAtEdge, Placed, Settling, TurnOf
from kubedsm.plugins.feasibility import Feasibility, Rejection
from kubedsm.plugins.scene import speaks_of_others

#: Taking pods out makes room for others, which may be in the way of the next ones.
_ROUNDS = 3


@attrs.frozen(slots=True)
class Kept:
    #: pod and node, in an order in which the rules allow each after those before it
    placed: tuple[Placed, ...]
    #: why not, for every node, of those that no node takes any more
    rejections: Mapping[Uid, Mapping[NodeName, Rejection]]
    #: whether all is as planned, and keeps the rules with all the others in place
    as_planned: bool
    #: each keeps its rules with all the others in place
    sound: bool = True


def keep_rules(
    feasibility: Feasibility,
    surroundings: Surroundings,
    planned: Sequence[Placed],
    left_over: Iterable[Pod],
    gain: GainAtEdge,
    turn: TurnOf,
    deadline: Deadline = NO_DEADLINE,
    *,
    proven: bool = False,
    spread: ReplicaSpread | None = None,
    anew: bool = True,
) -> Kept:
    """What of these placements the rules allow, after mending what they do not.

    proven: no more pods can be placed than are planned, those of the greatest turn first.
    anew: where pods stay out that kube-scheduler, which takes one pod after the other and lets the
    later ones break the rules of the earlier, might place, that is done instead.

    Greater turns are settled first, so that they never stay out for lesser ones; all at once where
    that is so by the plan, and all of it can be kept. A pod that was left over gets a node too, if
    the others of its turn leave one to it.

    Once the deadline has passed, the remaining pods are placed in turn, without a deadline: each
    keeps its rules as it comes, though later pods may break these.
    """
    left_over = list(left_over)
    concerned = (*(pod for pod, _ in planned), *left_over)
    if not any(speaks_of_others(pod.pod_class) for pod in concerned):
        return Kept(tuple(planned), _rejections(feasibility, planned, left_over), as_planned=True)
    wanted = {pod.uid: node for pod, node in planned}
    ordered = sorted(concerned, key=serving_order)
    ordered.sort(key=turn, reverse=True)
    by_turn = [list(level) for _, level in groupby(ordered, key=turn)]

    def begun(*, forgetful: bool = False) -> Settling:
        return Settling(
            feasibility.index,
            feasibility.room,
            OpenNodes(feasibility, surroundings, ordered),
            feasibility.skews(ordered),
            surroundings,
            gain,
            turn,
            deadline,
            spread.copy() if spread is not None else None,
            forgetful=forgetful,
        )

    batch = begun()
    settled = True
    try:
        for levels in ([ordered], by_turn) if proven and len(by_turn) > 1 else (by_turn,):
            batch = begun()
            _settle(batch, levels, wanted)
            if batch.homes == wanted:
                break
    except OutOfTimeError:
        if deadline.strict:
            raise
        settled = False
        batch.place_in_turn(ordered, wanted)
    as_planned = settled and batch.homes == wanted
    if anew and settled and not as_planned:
        most = wanted if proven else {pod.uid for pod in ordered}
        batch = begun_anew(batch, ordered, wanted, most, lambda: begun(forgetful=True))
    out = [pod for pod in ordered if pod.uid not in batch.placed]
    return Kept(
        tuple(batch.placed.values()),
        {pod.uid: batch.rejections(pod) for pod in out},
        as_planned=as_planned,
        sound=settled and not batch.forgetful,
    )


def _settle(
    batch: Settling, levels: Sequence[Sequence[Pod]], wanted: Mapping[Uid, NodeName]
) -> None:
    """One level after the other; raises OutOfTimeError."""
    for level in levels:
        batch.settle([(p, wanted[p.uid]) for p in level if p.uid in wanted])
        batch.retry(p for p in level if p.uid not in batch.placed)
        batch.make_sound()
    if batch.homes != wanted:
        batch.promote()
    for _ in range(_ROUNDS):
        batch.retry(pod for level in levels for pod in level if pod.uid not in batch.placed)
        if not batch.make_sound():
            break
    while batch.make_sound():  # each time with fewer pods
        pass


def _rejections(
    feasibility: Feasibility, placed: Iterable[Placed], left_over: Sequence[Pod]
) -> dict[Uid, dict[NodeName, Rejection]]:
    if left_over:
        for pod, node in placed:
            feasibility = feasibility.with_pod(pod, node)
    return {pod.uid: feasibility.rejections(pod) for pod in left_over}
