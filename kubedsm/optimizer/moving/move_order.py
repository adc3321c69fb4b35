"""Execution order of migrations under the rules between pods (affinity, spread, ports), by
depth-first search.

Migrations are simulated sequentially, each without the migrating pod on the source. Executed
migrations overlap, with old pods next to new pods; a migration rejected in some overlapping state
waits for its predecessors. Finally no pod may violate a previously satisfied rule. A temporary
violation, corrected by a later migration, is permitted, but joins both migrations in a group.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import attrs

from kubedsm.model.model import NodeName, Pod, Resources, Tier, Uid
from kubedsm.optimizer.moving.edge_items import taking_no_room
from kubedsm.optimizer.moving.migration_graph import (
    Needs,
    Order,
    break_cycles,
    find_needs,
    list_startable,
)
from kubedsm.optimizer.moving.suggestion import Cause, Move, MoveKind, Moves, Reason
from kubedsm.plugins.feasibility import BrokenRules, Feasibility, Rejection, is_worse
from kubedsm.plugins.fit import shortages

#: Steps of work of an order, for each pair of its migrations.
PAIR_STEPS = 200_000
#: Limit of the search: infeasible sets of migrations.
_LOOKED_AT = 24
_STUCK = Rejection(
    "NodeResourcesFit",
    ("its migrations wait for each other's capacity, and the cloud has none to spare",),
)
_BREAKS = Rejection("", ("it would violate another pod's scheduling rules",))


@attrs.frozen(eq=False)
class Impasse:
    """Reason why a set of migrations has no feasible execution order: the rejected migration, and
    the migrations feasible before.
    """

    move: Move
    rejection: Rejection
    #: feasible migrations before the rejection
    done: Moves
    #: all proposed migrations
    moves: Moves
    #: departure from the source is forbidden, not arrival at the target
    stays: bool = False

    @property
    def stuck(self) -> bool:
        """True if migrations wait in a cycle for each other to release capacity."""
        return self.rejection is _STUCK

    @property
    def reason(self) -> Reason:
        return Cause.REFUSED_BY_A_RULE.of(self.move.target, ", ".join(self.rejection.reasons))


def order_migrations(
    feasibility: Feasibility, moves: Sequence[Move], free: Mapping[NodeName, Resources]
) -> Order | Impasse:
    """Return a feasible order under the rules, as dependencies between migrations.

    In a cycle, the smallest pod accepted by the cloud makes a stopover there.
    """
    moves = tuple(attrs.evolve(move, stopover=None) for move in moves)
    needs = find_needs(moves, free)
    room = {node.name: free[node.name] for node in feasibility.nodes if node.tier is Tier.CLOUD}
    for move in moves:
        if move.target in room:
            room[move.target] -= move.pod.requests
    found = next(_park_cyclic(feasibility, moves, needs, room), None)
    if found is None:
        stuck = next(move for move in moves if move.pod.uid not in list_startable(needs))
        return Impasse(stuck, _STUCK, (), moves)
    start, parked, room = found
    search = _Search(moves, needs, room, parked)
    done = search.find_order(start, tuple(sorted(moves, key=_departure_key)))
    if done is None:
        if search.farthest is None:
            raise AssertionError("the first move of none is refused")
        return search.farthest
    before = feasibility.broken_rules(move.pod for move in done)
    # Placement of pending pods is uncertain: no migration may depend on pending pods.
    done = (*(m for m in done if m.source is not None), *(m for m in done if m.source is None))
    number = sum(move.source is not None for move in done)
    states = list(accumulate(done, carry_out, initial=start))
    for end in (number, len(done)):
        if _is_upset(states[end], done, before):
            return _find_breach(states[: end + 1], done, before, moves)
    placed = {move.pod.uid: attrs.evolve(move, stopover=parked.get(move.pod.uid)) for move in done}
    waits = _find_waits(start, done)
    for earlier, later in _find_mended(states, done[:number], before):
        waits[later] = waits.get(later, frozenset()) | {earlier}
    return Order(tuple(placed[move.pod.uid] for move in moves), needs, waits)


def drop_rejected(
    feasibility: Feasibility, moves: Sequence[Move], free: Mapping[NodeName, Resources]
) -> tuple[Order, tuple[Impasse, ...]]:
    """Return the migrations that rules between pods permit, and the reasons why the other
    migrations are not feasible.

    A rejected pod from the cloud is redirected to another currently feasible edge node.
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


def _is_upset(state: Feasibility, done: Moves, before: BrokenRules) -> bool:
    """Return True if the finished migrations violate rules between pods that were satisfied
    before.
    """
    return is_worse(before, state.broken_rules(move.pod for move in done))


def _find_breach(
    states: Sequence[Feasibility], done: Moves, before: BrokenRules, moves: Moves
) -> Impasse:
    """Return the first permanent violation; states: before each migration, and at the end."""
    kept = (at for at, state in enumerate(states[:-1]) if not _is_upset(state, done, before))
    sound = max(kept, default=0)
    move = done[sound]
    stays = move.source is not None and _is_upset(
        states[sound].without_pod(move.pod.uid), done, before
    )
    return Impasse(move, _BREAKS, done[:sound], moves, stays)


def _find_mended(
    states: Sequence[Feasibility], done: Moves, before: BrokenRules
) -> Iterator[tuple[Uid, Uid]]:
    """Yield consecutive migrations between which a rule between pods is temporarily violated."""
    for at, (one, other) in enumerate(pairwise(done), start=1):
        if _is_upset(states[at], done, before):
            yield one.pod.uid, other.pod.uid


def _park_cyclic(
    feasibility: Feasibility,
    moves: Moves,
    needs: Needs,
    room: Mapping[NodeName, Resources],
) -> Iterator[tuple[Feasibility, dict[Uid, NodeName], dict[NodeName, Resources]]]:
    """Yield the rules and the remaining cloud capacity after stopovers breaking all cycles."""
    for chosen in break_cycles(moves, needs):
        state, nodes, left = feasibility, dict[Uid, NodeName](), dict(room)
        for move in chosen:
            gone = state.without_pod(move.pod.uid)
            node = choose_stopover(gone, move.pod, left)
            if node is None:
                break
            state = gone.with_pod(move.pod, node)
            nodes[move.pod.uid] = node
            left[node] -= move.pod.requests
        else:
            yield state, nodes, left


def choose_stopover(
    feasibility: Feasibility, pod: Pod, room: Mapping[NodeName, Resources]
) -> NodeName | None:
    """Return the cloud node with the most free capacity that accepts the pod for a stopover, or
    None; room: free capacity in the cloud.
    """
    taking = set(feasibility.feasible(pod)) & room.keys()
    fitting = [name for name in taking if not shortages(pod.requests, room[name])]
    return min(fitting, key=lambda name: (-room[name].cpu, name), default=None)


def _departure_key(move: Move) -> int:
    """Sort key of migrations to try first: departures from the edge, then arrivals, then pending
    pods.
    """
    order = (
        MoveKind.EDGE_TO_CLOUD,
        MoveKind.CLOUD_TO_CLOUD,
        MoveKind.EDGE_TO_EDGE,
        MoveKind.CLOUD_TO_EDGE,
        None,
    )
    return order.index(move.kind)


class _Search:
    """Depth-first search for an execution order of migrations, through the sets of finished
    migrations.
    """

    def __init__(
        self,
        moves: Moves,
        needs: Needs,
        room: Mapping[NodeName, Resources],
        parked: Mapping[Uid, NodeName],
    ) -> None:
        self.farthest: Impasse | None = None
        self._moves = moves
        self._needs = needs
        self._planned = {move.pod.uid: move.target for move in moves}
        #: remaining capacity of the cloud, after all departures to the cloud
        self._room = room
        self._parked = parked.keys()
        self._failed: set[frozenset[Uid]] = set()

    def find_order(self, start: Feasibility, moves: Moves) -> Moves | None:
        """Return all migrations of the set in a feasible execution order; None if none was
        found.
        """
        if not moves:
            return ()
        ways = [self._next_steps(start, (), moves)]
        while ways:
            step = next(ways[-1], None)
            if step is None:
                ways.pop()
                continue
            state, done, left = step
            if not left:
                return done
            if _uids_of(left) not in self._failed and len(self._failed) <= _LOOKED_AT:
                ways.append(self._next_steps(state, done, left))
        return None

    def _next_steps(
        self, state: Feasibility, done: Moves, left: Moves
    ) -> Iterator[tuple[Feasibility, Moves, Moves]]:
        """Yield the cluster states that follow, each with one more finished migration."""
        gone_by_now = _uids_of(done) | self._parked
        for move in left:
            if self._needs[move.pod.uid] - gone_by_now:
                continue
            gone = state if move.source is None else state.without_pod(move.pod.uid)
            goes = self._accept_move(gone, move, done)
            if goes is not None:
                others = tuple(other for other in left if other is not move)
                yield gone.with_pod(move.pod, goes.target), (*done, goes), others
        self._failed.add(_uids_of(left))

    def _accept_move(self, gone: Feasibility, move: Move, done: Moves) -> Move | None:
        rejection = gone.rejection(move.pod, move.target)
        if rejection is None:
            return move
        if move.kind is MoveKind.EDGE_TO_CLOUD:
            node = choose_stopover(gone, move.pod, self._spare_cloud(move, done))
            if node is not None:
                return attrs.evolve(move, target=node)
        if self.farthest is None or len(done) > len(self.farthest.done):
            self.farthest = Impasse(move, rejection, done, self._moves)
        return None

    def _spare_cloud(self, move: Move, done: Iterable[Move]) -> dict[NodeName, Resources]:
        """Return the free cloud capacity for the migration, keeping the capacity planned for other
        pods leaving the edge.
        """
        room = dict(self._room)
        room[move.target] += move.pod.requests
        for other in done:
            if other.kind is MoveKind.EDGE_TO_CLOUD:
                room[self._planned[other.pod.uid]] += other.pod.requests
                room[other.target] -= other.pod.requests
        return room


def _uids_of(moves: Iterable[Move]) -> frozenset[Uid]:
    return frozenset(move.pod.uid for move in moves)


def _find_waits(start: Feasibility, done: Sequence[Move]) -> Needs:
    """Return, for an execution order, which migrations must wait for which others because of rules
    between pods.

    A migration feasible in every state, with all old pods or without any, has no dependency.
    """
    moves = [move for move in done if move.source is not None]
    states = list(accumulate(moves, carry_out, initial=start))
    crowded = deserted = states[-1]
    for move in moves:
        crowded = _double_pod(crowded, move, move.source)
        deserted = deserted.without_pod(move.pod.uid)
    found: Needs = {}
    for at, move in enumerate(moves):
        uid = move.pod.uid
        alone = crowded.without_pod(uid).without_pod(_old_uid(uid))
        others = (alone, deserted, *(state.without_pod(uid) for state in states))
        if all(_is_accepted(state, move) for state in others):
            continue
        earlier, later = _find_related(states[at].without_pod(uid), moves, at)
        found[uid] = found.get(uid, frozenset()) | earlier
        for other in later:
            found[other] = found.get(other, frozenset()) | {uid}
    for move in done:
        if move.source is None and not _is_accepted(start, move):
            found[move.pod.uid] = _find_related(states[-1], [*moves, move], len(moves))[0]
    return found


def _find_related(
    state: Feasibility, moves: Sequence[Move], at: int
) -> tuple[frozenset[Uid], frozenset[Uid]]:
    """Return the migrations that rules between pods require before the given migration, and after
    it.

    state: at the start, without the pod. Without identifiable causes, all migrations are related.
    """
    move, before, after = moves[at], moves[:at], moves[at + 1 :]
    elsewhere = [(m, m.source) for m in before] + [(m, m.target) for m in after]
    related = [
        other
        for other, node in elsewhere
        if not _is_accepted(_move_pod(state, other, node), move)
        or not _is_accepted(_double_pod(state, other, node), move)
    ]
    for other, node in elsewhere:
        state = state if other in related else _move_pod(state, other, node)
    if not related or not _is_accepted(state, move):
        related = [*before, *after]
    earlier, later = ([m for m in some if m in related] for some in (before, after))
    return _uids_of(earlier), _uids_of(later)


def _is_accepted(state: Feasibility, move: Move) -> bool:
    """Return True if the rules between pods allow the migration in the cluster state, ignoring
    capacity.
    """
    return state.rejection(taking_no_room(move.pod), move.target) is None


def carry_out(state: Feasibility, move: Move) -> Feasibility:
    """Simulate a migration: return the cluster state in which the pod is on the target node."""
    gone = state if move.source is None else state.without_pod(move.pod.uid)
    return gone.with_pod(move.pod, move.target)


def _move_pod(state: Feasibility, move: Move, node: NodeName | None) -> Feasibility:
    gone = state.without_pod(move.pod.uid)
    return gone if node is None else gone.with_pod(move.pod, node)


def _double_pod(state: Feasibility, move: Move, node: NodeName | None) -> Feasibility:
    """Return the cluster state with a second pod, equal to the migrating pod, on the node: old and
    new pod run together.
    """
    if node is None:
        return state
    return state.with_pod(attrs.evolve(move.pod, uid=_old_uid(move.pod.uid)), node)


def _old_uid(uid: Uid) -> Uid:
    return Uid(f"{uid} (old)")
