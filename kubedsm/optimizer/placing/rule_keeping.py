"""Repair of planned placements that violate rules between pods: ports, affinity, spread, volumes.

Pods are placed sequentially, each under the constraints with preceding pods. A rejected pod waits
if other pods may open its node, and otherwise goes to the best other node, or stays unplaced.
In the final state all constraints are satisfied, unless this excludes pods that kube-scheduler
would place. In that case the batch is restarted in other orders: unschedulable pods first, or
affinity groups in one topology domain after another.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from kubedsm.model.model import NodeName, Pod, Uid, serving_order
from kubedsm.model.node_index import Column, Mask
from kubedsm.model.residents import Selection
from kubedsm.model.surroundings import Surroundings
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.placing.settling import GainAtEdge, OpenNodes, Placed, Settling, TurnOf
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility, Rejection

#: Rounds of serving unschedulable pods first, and of removing pods that break constraints.
_ROUNDS = 3
#: Domains to try for an affinity group.
_DOMAINS = 8


@attrs.frozen(slots=True)
class _Start:
    """Restart of a batch: planned nodes, and an affinity group assigned to a topology domain."""

    #: intended nodes
    wanted: Mapping[Uid, NodeName]
    #: group drawn to the domain
    drawn: frozenset[Uid] = frozenset()
    domain: Mask | None = None


def restart_batch(
    batch: Settling,
    ordered: Sequence[Pod],
    wanted: Mapping[Uid, NodeName],
    most: Container[Uid],
    begin: Callable[[], Settling],
) -> Settling:
    """Return the better of a batch's placement and of placements in other pod orders, by number of
    placed pods in scheduling order.

    wanted: planned nodes. most: upper bound on placed pods.
    begin: constructor of an empty batch where subsequent pods may violate preceding constraints.
    """

    def count_served(placed: Container[Uid]) -> list[int]:
        """Return the number of placed pods by turn, greatest turn first; greater is better."""
        number = Counter(batch.turn(pod) for pod in ordered if pod.uid in placed)
        return [number[turn] for turn in dict.fromkeys(map(batch.turn, ordered))]

    best, enough = batch, count_served(most)
    try:
        for start in _list_starts(batch, ordered, wanted, begin):
            if count_served(best.placed) >= enough:
                break
            for other in _restart_rounds(start, ordered, begin):
                best = max(best, other, key=lambda b: count_served(b.placed))
    except OutOfTimeError:
        pass
    return best


def _restart_rounds(
    start: _Start, ordered: Sequence[Pod], begin: Callable[[], Settling]
) -> Iterator[Settling]:
    """Enumerate restarted placements, each beginning with the previously unschedulable pods."""
    first: set[Uid] = set()
    for _ in range(_ROUNDS):
        tried = begin()
        tried.deadline.check()
        if start.domain is not None:
            tried.drawn.update(dict.fromkeys(start.drawn, start.domain))
        tried.place_in_line(sorted(ordered, key=lambda pod: pod.uid not in first), start.wanted)
        homes = _oldest_first(tried, ordered)
        came = {uid: number for number, uid in enumerate(homes)}
        line = sorted(ordered, key=lambda pod: came.get(pod.uid, len(came)))
        in_turns = begin()
        in_turns.place_in_line(
            sorted(line, key=in_turns.turn, reverse=True), {**start.wanted, **homes}
        )
        yield in_turns
        out = {pod.uid for pod in ordered if pod.uid not in tried.placed}
        if out <= first:
            break
        first |= out


def _oldest_first(batch: Settling, ordered: Iterable[Pod]) -> dict[Uid, NodeName]:
    """Return planned nodes with identical pods exchanged: oldest pods take the first nodes."""
    alike: defaultdict[EquivalenceClass, deque[Pod]] = defaultdict(deque)
    for pod in ordered:
        alike[batch.open.like(pod)].append(pod)
    return {alike[batch.open.like(p)].popleft().uid: node for p, node in batch.placed.values()}


def _list_starts(
    batch: Settling,
    ordered: Sequence[Pod],
    wanted: Mapping[Uid, NodeName],
    begin: Callable[[], Settling],
) -> Iterator[_Start]:
    """Enumerate restarts: as planned, without plan, and with affinity groups in each domain."""
    yield _Start(wanted)
    yield _Start({})
    out = [pod for pod in ordered if pod.uid not in batch.placed]
    for terms in dict.fromkeys(pod.pod_class.rules.affinity for pod in out):
        near = [Selection.of(term) for term in terms]
        drawn = frozenset(
            pod.uid
            for pod in ordered
            if pod.pod_class.rules.affinity == terms
            or any(s.covers(pod.namespace, pod.labels, batch.surroundings) for s in near)
        )
        others = {uid: node for uid, node in wanted.items() if uid not in drawn}
        group = [pod for pod in ordered if pod.uid in drawn]
        for key in sorted({term.topology_key for term in terms}):
            for domain in _list_domains(key, group, begin()):
                yield _Start(others, drawn, domain)


def _list_domains(key: str, group: Iterable[Pod], batch: Settling) -> list[Mask]:
    """Return the feasible domains of a topology key, by decreasing free CPU; edge CPU first."""
    column, likes = batch.nodes.label(key), {batch.open.like(pod): pod for pod in group}
    openable = [batch.open.feasibility.verdict(pod).openable for pod in likes.values()]
    open_to = np.any(openable, axis=0)
    free = np.where(open_to, np.maximum(batch.room.column("cpu"), 0), 0)
    best = np.lexsort((-column.sums(free, batch.on_edge), -column.sums(free)))
    number = column.sums(open_to.astype(np.int64))
    return [column.codes == code for code in best[:_DOMAINS].tolist() if number[code]]


@attrs.frozen(slots=True)
class Kept:
    """Placement of a batch that satisfies affinity, spread and port rules between pods, with the
    nodes' rejections of unplaced pods.
    """

    #: placements in an order that the constraints allow
    placed: tuple[Placed, ...]
    #: rejections of unschedulable pods by every node
    rejections: Mapping[Uid, Mapping[NodeName, Rejection]]
    #: whether all is as planned, and keeps the constraints with all the others in place
    as_planned: bool
    #: all pods keep their constraints in the end
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
    restart: bool = True,
    sites: Column | None = None,
) -> Kept:
    """Repair a planned placement so that rules between pods hold: place pods on planned or
    alternative nodes, or not at all.

    proven: no placement has more pods.
    restart: retry in other orders if kube-scheduler might place the unplaced pods.
    Greater turns are placed first. After the deadline, remaining pods are placed in turn, and
    subsequent pods may violate constraints of preceding pods.
    """
    left_over = list(left_over)
    concerned = (*(pod for pod, _ in planned), *left_over)
    if not any(pod.pod_class.rules.speaks_of_others for pod in concerned):
        return Kept(
            tuple(planned), _list_rejections(feasibility, planned, left_over), as_planned=True
        )
    wanted = {pod.uid: node for pod, node in planned}
    ordered = sorted(concerned, key=serving_order)
    ordered.sort(key=turn, reverse=True)
    by_turn = [list(level) for _, level in groupby(ordered, key=turn)]

    def begin(*, forgetful: bool = False) -> Settling:
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
            sites=sites,
        )

    batch = begin()
    settled = True
    try:
        for levels in ([ordered], by_turn) if proven and len(by_turn) > 1 else (by_turn,):
            batch = begin()
            _settle_levels(batch, levels, wanted)
            if batch.homes == wanted:
                break
    except OutOfTimeError:
        if deadline.strict:
            raise
        settled = False
        batch.place_in_turn(ordered, wanted)
    as_planned = settled and batch.homes == wanted
    if restart and settled and not as_planned:
        most = wanted if proven else {pod.uid for pod in ordered}
        batch = restart_batch(batch, ordered, wanted, most, lambda: begin(forgetful=True))
    out = [pod for pod in ordered if pod.uid not in batch.placed]
    return Kept(
        tuple(batch.placed.values()),
        {pod.uid: batch.rejections(pod) for pod in out},
        as_planned=as_planned,
        sound=settled and not batch.forgetful,
    )


def _settle_levels(
    batch: Settling, levels: Sequence[Sequence[Pod]], wanted: Mapping[Uid, NodeName]
) -> None:
    """Place pods level by level under the constraints; raise OutOfTimeError after the deadline."""
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


def _list_rejections(
    feasibility: Feasibility, placed: Iterable[Placed], left_over: Sequence[Pod]
) -> dict[Uid, dict[NodeName, Rejection]]:
    if left_over:
        for pod, node in placed:
            feasibility = feasibility.with_pod(pod, node)
    return {pod.uid: feasibility.rejections(pod) for pod in left_over}
