"""A batch kept within the rules about other pods: ports, affinity, spread, volumes.

`match` knows what a class and a node say of each other, and what the pods that are there already
say. What the pods of the batch say of each other is checked here, one after the other, each seeing
those before it; a pod whose node rejects it waits while others of the batch may still change that,
goes to the best other node then, or stays out.

There is an order in which each pod of the batch keeps its rules as it comes: the one given. In the
end each keeps them with all others in place, too, unless that keeps out pods that kube-scheduler
would place.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from kubedsm.core.placing.settling import Placed, Settling, TurnOf, WouldGain
from kubedsm.core.rules.feasibility import Feasibility, Rejection
from kubedsm.core.rules.scene import speaks_of_others
from kubedsm.core.world.deadline import NO_DEADLINE, Deadline, OutOfTimeError
from kubedsm.core.world.model import Node, NodeName, Pod, Resources, Uid
from kubedsm.core.world.serving_order import serving_order
from kubedsm.core.world.surroundings import Surroundings

#: Taking pods out makes room for others, which may be in the way of the next ones.
_ROUNDS = 3
#: Domains that are tried for pods that want to be together.
_DOMAINS = 8


@attrs.frozen(slots=True)
class Kept:
    #: pod and node, in an order in which the rules allow each after those before it
    placed: tuple[Placed, ...]
    #: why not, for every node, of those that no node takes any more
    rejections: Mapping[Uid, Mapping[NodeName, Rejection]]
    #: whether all is as planned, and keeps the rules with all the others in place
    as_planned: bool
    #: those that there was no time for
    late: tuple[Pod, ...] = ()


def keep_rules(
    feasibility: Feasibility,
    free: Mapping[NodeName, Resources],
    surroundings: Surroundings,
    planned: Sequence[Placed],
    left_over: Iterable[Pod],
    would_gain: WouldGain,
    turn: TurnOf,
    deadline: Deadline = NO_DEADLINE,
) -> Kept:
    """What of these placements the rules allow, after mending what they do not.

    Greater turns are settled first, so that they never stay out for lesser ones. A pod that was
    left over gets a node too, if the others of its turn leave one to it.

    If kube-scheduler, which takes one pod after the other and lets the later ones break the rules
    of the earlier, would place more of them, that is done instead.

    Once the deadline has passed the others are placed in turn, fairly between namespaces, as far as
    that is possible in as much time again: each keeps its rules as it comes, though those that want
    to be near to some may see these go elsewhere.
    """
    left_over = list(left_over)
    concerned = (*(pod for pod, _ in planned), *left_over)
    if not any(speaks_of_others(pod.pod_class) for pod in concerned):
        return Kept(tuple(planned), _rejections(feasibility, planned, left_over), as_planned=True)
    wanted = {pod.uid: node for pod, node in planned}
    ordered = sorted(concerned, key=serving_order)
    ordered.sort(key=turn, reverse=True)

    def begun(*, forgetful: bool = False) -> Settling:
        skews = feasibility.skews(ordered)
        room = dict(free)
        return Settling(
            feasibility, room, surroundings, would_gain, turn, skews, deadline, forgetful=forgetful
        )

    batch = begun()
    late: list[Pod] = []
    settled = True
    try:
        _settle(batch, ordered, wanted)
    except OutOfTimeError:
        settled = False
        late = batch.place_in_turn(fairly(ordered), wanted)
    as_planned = settled and batch.homes == wanted
    if settled and not as_planned:
        for start in _other_starts(batch, ordered, wanted):
            if deadline.passed:
                break
            other = begun(forgetful=start.forgetful)
            other.avoided.update({uid: [start.avoided] for uid in start.members})
            late_too = other.place_in_turn(ordered, start.wanted)
            if not late_too and _served(other, ordered) > _served(batch, ordered):
                batch = other
    out = [pod for pod in ordered if pod.uid not in batch.placed and pod not in late]
    return Kept(
        tuple(batch.placed.values()),
        {pod.uid: batch.rejections(pod) for pod in out},
        as_planned=as_planned,
        late=tuple(late),
    )


@attrs.frozen(slots=True)
class _Start:
    """What the pods of a batch, taken in turn, are told."""

    wanted: Mapping[Uid, NodeName]
    #: later ones may break the rules of those before, as with kube-scheduler
    forgetful: bool = False
    #: these pods keep away from these nodes
    members: frozenset[Uid] = frozenset()
    avoided: frozenset[NodeName] = frozenset()


def _other_starts(
    batch: Settling, ordered: Sequence[Pod], wanted: Mapping[Uid, NodeName]
) -> Iterator[_Start]:
    """Other ways to begin, if some stay out: as kube-scheduler would, or in another domain.

    Pods that are to be together, and do not fit where the first of them went, are sent elsewhere.
    """
    out = [pod for pod in ordered if pod.uid not in batch.placed]
    if out:
        yield _Start(wanted, forgetful=True)
        yield _Start({}, forgetful=True)
    for terms in dict.fromkeys(p.pod_class.rules.affinity for p in out):
        members = frozenset(p.uid for p in ordered if p.pod_class.rules.affinity == terms)
        for key in {term.topology_key for term in terms}:
            domains: dict[str, set[NodeName]] = {}
            for name, node in batch.nodes.items():
                if key in node.labels:
                    domains.setdefault(node.labels[key], set()).add(name)
            for domain in _roomiest(domains.values(), batch.feasibility.nodes):
                elsewhere = frozenset(batch.nodes) - domain
                others = {uid: node for uid, node in wanted.items() if uid not in members}
                yield _Start(others, members=members, avoided=elsewhere)


def _roomiest(domains: Iterable[set[NodeName]], nodes: Iterable[Node]) -> list[set[NodeName]]:
    """The largest of them, so many as are worth a try."""
    size = {node.name: node.allocatable.cpu for node in nodes}
    return sorted(domains, key=lambda names: (-sum(map(size.__getitem__, names)), min(names)))[
        :_DOMAINS
    ]


def _served(batch: Settling, pods: Iterable[Pod]) -> list[int]:
    """How many of these have a node, those of the greatest turn first: greater is better."""
    served = Counter(batch.turn(pod) for pod, _ in batch.placed.values())
    return [served[turn] for turn in sorted(set(map(batch.turn, pods)), reverse=True)]


def fairly(pods: Iterable[Pod]) -> list[Pod]:
    """By priority, then one of each namespace after the other, each in their order.

    Whoever waits for long does not go first: it may be that pod which takes all the time.
    """
    served: Counter[tuple[int, str]] = Counter()
    rounds: list[tuple[int, int, Pod]] = []
    for pod in sorted(pods, key=serving_order):
        priority = pod.pod_class.priority
        served[priority, pod.namespace] += 1
        rounds.append((-priority, served[priority, pod.namespace], pod))
    return [pod for _, _, pod in sorted(rounds, key=lambda entry: entry[:2])]


def _settle(batch: Settling, ordered: Sequence[Pod], wanted: Mapping[Uid, NodeName]) -> None:
    """Greater turns first; raises OutOfTimeError."""
    for turn in sorted(set(map(batch.turn, ordered)), reverse=True):
        level = [pod for pod in ordered if batch.turn(pod) == turn]
        batch.settle([(p, wanted[p.uid]) for p in level if p.uid in wanted])
        batch.retry(p for p in level if p.uid not in batch.placed)
        batch.make_sound()
    if batch.homes != wanted:
        batch.promote()
    for _ in range(_ROUNDS):
        batch.retry(pod for pod in ordered if pod.uid not in batch.placed)
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
