"""Repair of planned placements that violate rules between pods: ports, affinity, spread, volumes.

Pods are placed sequentially, each under the constraints with preceding pods. A rejected pod waits
if other pods may open its node, and otherwise goes to the best other node, or stays unplaced.
In the final state all constraints are satisfied, unless this excludes pods that kube-scheduler
would place. In that case the batch is restarted in other orders: unschedulable pods first, or
affinity groups in one topology domain after another.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

import attrs
import numpy as np

from kubedsm.model.deadline import OutOfTimeError
from kubedsm.model.model import NodeName, Pod, Uid
from kubedsm.model.node_index import Mask
from kubedsm.model.residents import Selection
from kubedsm.optimizer.placing.batch import Batch, Placed
from kubedsm.optimizer.placing.decision import Choice
from kubedsm.optimizer.placing.settling import Settling
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility

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
    settling: Settling,
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
        number = Counter(settling.batch.turn(pod) for pod in ordered if pod.uid in placed)
        return [number[turn] for turn in dict.fromkeys(map(settling.batch.turn, ordered))]

    best, enough = settling, count_served(most)
    try:
        for start in _list_starts(settling, ordered, wanted, begin):
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
            sorted(line, key=in_turns.batch.turn, reverse=True), {**start.wanted, **homes}
        )
        yield in_turns
        out = {pod.uid for pod in ordered if pod.uid not in tried.placed}
        if out <= first:
            break
        first |= out


def _oldest_first(settling: Settling, ordered: Iterable[Pod]) -> dict[Uid, NodeName]:
    """Return planned nodes with identical pods exchanged: oldest pods take the first nodes."""
    alike: defaultdict[EquivalenceClass, deque[Pod]] = defaultdict(deque)
    for pod in ordered:
        alike[settling.open.like(pod)].append(pod)
    homes = settling.placed.values()
    return {alike[settling.open.like(pod)].popleft().uid: node for pod, node in homes}


def _list_starts(
    settling: Settling,
    ordered: Sequence[Pod],
    wanted: Mapping[Uid, NodeName],
    begin: Callable[[], Settling],
) -> Iterator[_Start]:
    """Enumerate restarts: as planned, without plan, and with affinity groups in each domain."""
    yield _Start(wanted)
    yield _Start({})
    out = [pod for pod in ordered if pod.uid not in settling.placed]
    for terms in dict.fromkeys(pod.pod_class.rules.affinity for pod in out):
        near = [Selection.of(term) for term in terms]
        drawn = frozenset(
            pod.uid
            for pod in ordered
            if pod.pod_class.rules.affinity == terms
            or any(s.covers(pod.namespace, pod.labels, settling.surroundings) for s in near)
        )
        others = {uid: node for uid, node in wanted.items() if uid not in drawn}
        group = [pod for pod in ordered if pod.uid in drawn]
        for key in sorted({term.topology_key for term in terms}):
            for domain in _list_domains(key, group, begin()):
                yield _Start(others, drawn, domain)


def _list_domains(key: str, group: Iterable[Pod], settling: Settling) -> list[Mask]:
    """Return the feasible domains of a topology key, by decreasing free CPU; edge CPU first."""
    column, likes = settling.nodes.label(key), {settling.open.like(pod): pod for pod in group}
    openable = [settling.open.feasibility.verdict(pod).openable for pod in likes.values()]
    open_to = np.any(openable, axis=0)
    free = np.where(open_to, np.maximum(settling.room.column("cpu"), 0), 0)
    best = np.lexsort((-column.sums(free, settling.on_edge), -column.sums(free)))
    number = column.sums(open_to.astype(np.int64))
    return [column.codes == code for code in best[:_DOMAINS].tolist() if number[code]]


@attrs.frozen(eq=False)
class Attempt:
    """Candidate placement of a batch, repaired so that rules between pods (affinity, spread, ports)
    hold.
    """

    choice: Choice
    settling: Settling
    #: whether all is as planned, and keeps the constraints with all the others in place
    as_planned: bool
    #: all pods keep their constraints in the end
    sound: bool = True
    #: whether the choice bounds all placements
    bounding: bool = True

    @property
    def placed(self) -> tuple[Placed, ...]:
        """Pods and their nodes, in an order that the constraints allow."""
        return tuple(self.settling.placed.values())


def keep_rules(
    batch: Batch, feasibility: Feasibility, choice: Choice, *, restart: bool = True
) -> Attempt:
    """Repair a planned placement so that rules between pods hold: place pods on planned or
    alternative nodes, or not at all.

    restart: retry in other orders if kube-scheduler might place the unplaced pods.
    Greater turns are placed first. After the deadline, remaining pods are placed in turn, and
    subsequent pods may violate constraints of preceding pods.
    """
    deadline = batch.bounds.deadline
    begin = partial(Settling.of, batch, feasibility, deadline)
    settling, planned = begin(), [(b.pod, b.node) for b in batch.bindings(choice)]
    wanted = {pod.uid: node for pod, node in planned}
    if not any(pod.pod_class.rules.speaks_of_others for pod in batch.pods):
        for pod, node in planned:
            settling.put(pod, node)
        return Attempt(choice, settling, as_planned=True)
    ordered = sorted(batch.pods, key=batch.turn, reverse=True)
    by_turn = [list(level) for _, level in groupby(ordered, key=batch.turn)]
    proven, settled = choice.proof.placed, True
    try:
        for levels in ([ordered], by_turn) if proven and len(by_turn) > 1 else (by_turn,):
            settling = begin()
            _settle_levels(settling, levels, wanted)
            if settling.homes == wanted:
                break
    except OutOfTimeError:
        if deadline.strict:
            raise
        settled = False
        settling.place_in_turn(ordered, wanted)
    as_planned = settled and settling.homes == wanted
    if restart and settled and not as_planned:
        most = wanted if proven else {pod.uid for pod in ordered}
        settling = restart_batch(settling, ordered, wanted, most, partial(begin, forgetful=True))
    return Attempt(choice, settling, as_planned, sound=settled and not settling.forgetful)


def _settle_levels(
    settling: Settling, levels: Sequence[Sequence[Pod]], wanted: Mapping[Uid, NodeName]
) -> None:
    """Place pods level by level under the constraints; raise OutOfTimeError after the deadline."""
    for level in levels:
        settling.settle([(p, wanted[p.uid]) for p in level if p.uid in wanted])
        settling.retry(p for p in level if p.uid not in settling.placed)
        settling.make_sound()
    if settling.homes != wanted:
        settling.promote()
    for _ in range(_ROUNDS):
        settling.retry(pod for level in levels for pod in level if pod.uid not in settling.placed)
        if not settling.make_sound():
            break
    while settling.make_sound():  # each time with fewer pods
        pass
