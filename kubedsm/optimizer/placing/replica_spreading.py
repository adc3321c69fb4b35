"""Replica spreading: costs of several replicas on a node, assignment of replicas to nodes, and
lower bounds.

Each arriving pod costs the number of replicas of its workload on the node, and in the zone.
Sorted, these costs of the pods of one kind are a ladder. `TierAssignment` assigns replicas to the
node slots chosen by `match` one group after another, and then improves the assignment by local
search within the tier.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import NodeName, Pod, Workload
from kubedsm.model.node_index import Codes, Mask, NodeIndex, NodeRows, Positions, Zone
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.replica_spread import ReplicaSpread, has_default_spread, pairs
from kubedsm.optimizer.matching.problem import (
    Kind,
    Ladders,
    PlacementProblem,
    Targets,
    group_equal_rows,
    least_totals,
)


@attrs.frozen(eq=False)
class Crowds:
    """Counts of existing replicas by node and zone, for the workloads of a group of interchangeable
    pods, before the batch is placed.
    """

    #: column of each spread workload
    columns: Mapping[Workload, int]
    #: crowd of each node
    group: Ints
    #: a row each, a column for each workload
    crowds: Ints
    #: least crowd of each workload over the kind's nodes
    floor: Ints

    @classmethod
    def of(
        cls, open_to: Mask, workloads: Iterable[Workload], nodes: NodeIndex, spread: ReplicaSpread
    ) -> Self:
        """Count the existing replicas of the workloads by node and zone; open_to: mask of the pods'
        feasible nodes.
        """
        columns = {workload: column for column, workload in enumerate(workloads)}
        group, crowds = _find_crowds(columns, nodes, spread)
        seen = crowds[np.bincount(group[open_to], minlength=len(crowds)) > 0]
        none = np.zeros(len(columns), dtype=np.int64)
        return cls(columns, group, crowds, seen.min(axis=0) if len(seen) else none)

    def everywhere(self, workload: Workload) -> int:
        """Return the least spread cost of one more pod of the workload, over all feasible nodes."""
        return int(self.floor[self.columns[workload]])

    def times(self, positions: Positions) -> Ints:
        """Return how many of the given nodes have each combination of existing replica counts."""
        return np.bincount(self.group[positions], minlength=len(self.crowds))

    def least(self, workload: Workload, times: Ints, number: int) -> int:
        """Return a lower bound on the spread cost of `number` more replicas of the workload,
        ignoring capacity.
        """
        column = self.columns[workload]
        beyond = self.crowds[times > 0, column] - self.floor[column]
        steps = beyond[:, None] + np.arange(number)
        return int(least_totals(steps, times[times > 0], number)[-1])


@attrs.frozen(eq=False)
class ReplicaLadders:
    """Replica-spread costs of a batch: the cost of each further pod on each node of both tiers."""

    #: of all nodes of an index
    ladders: Ladders
    #: of each kind
    crowds: tuple[Crowds, ...]
    #: without the batch
    spread: ReplicaSpread

    @classmethod
    def of(cls, kinds: Sequence[Kind], nodes: NodeRows, spread: ReplicaSpread) -> Self:
        which = np.zeros((len(nodes.index), len(kinds)), dtype=np.int64)
        longest = max((len(kind.pods) for kind in kinds), default=0)
        known: dict[bytes, int] = {}
        steps: list[Ints] = []
        crowds = []
        for column, kind in enumerate(kinds):
            sizes = Counter(pod.workload for pod in kind.pods if has_default_spread(pod))
            of_kind = Crowds.of(kind.nodes & nodes.mask, sizes, nodes.index, spread)
            crowds.append(of_kind)
            numbers = []
            for ladder in _ladder_steps(of_kind, list(sizes.values()), len(kind.pods), longest):
                number = known.setdefault(ladder.tobytes(), len(steps))
                if number == len(steps):
                    steps.append(ladder)
                numbers.append(number)
            which[:, column] = np.array(numbers, dtype=np.int64)[of_kind.group]
        listed = np.array(steps, dtype=np.int64).reshape(len(steps), longest)
        return cls(Ladders(which, listed), tuple(crowds), spread)

    def on(self, nodes: NodeRows) -> Ladders:
        """Return the replica-spread costs restricted to the given nodes."""
        return Ladders(self.ladders.which[nodes.positions], self.ladders.steps)


def _ladder_steps(of_kind: Crowds, sizes: Sequence[int], pods: int, longest: int) -> Ints:
    """Return the charge ladder of each crowd; pods with own spread constraints cost nothing."""
    counts = np.array(sizes, dtype=np.int64)
    nth = np.arange(int(counts.sum())) - (counts.cumsum() - counts).repeat(counts)
    steps = np.zeros((len(of_kind.crowds), longest), dtype=np.int64)
    # Infeasible nodes may be below the floor.
    beyond = np.maximum(of_kind.crowds - of_kind.floor, 0)
    steps[:, pods - len(nth) : pods] = beyond.repeat(counts, axis=1) + nth
    steps[:, pods - len(nth) : pods].sort(axis=1)
    steps[:, pods:] = steps[:, pods - 1 : pods]
    return steps


def _find_crowds(
    workloads: Iterable[Workload], nodes: NodeIndex, spread: ReplicaSpread
) -> tuple[Ints, Ints]:
    """Return distinct replica counts (crowds x workloads), and the crowd index of each node."""
    zone, at = nodes.zone, nodes.positions
    none: Counter[Any] = Counter()
    on_nodes = [spread.on_node.get(workload, none) for workload in workloads]
    in_zones = [spread.in_zone.get(workload, none) for workload in workloads]
    places = sorted({at[name] for counts in on_nodes for name in counts if name in at})
    taken = np.array(places, dtype=np.intp)
    by_zone = _fill_matrix(in_zones, {each: row for row, each in enumerate(zone.values)})
    by_node = _fill_matrix(on_nodes, {nodes.names[node]: row for row, node in enumerate(places)})
    by_node += by_zone[zone.codes[taken]]
    group = zone.codes.copy()
    group[taken] = len(by_zone) + np.arange(len(taken))
    everything = np.concatenate((by_zone, by_node))
    first, which = group_equal_rows(everything)
    return which[group], everything[first]


def _fill_matrix(columns: Sequence[Counter[Any]], rows: Mapping[Any, int]) -> Ints:
    """Convert counters to the columns of a matrix, with the row of each key given by `rows`; other
    keys are ignored.
    """
    filled = np.zeros((len(rows), len(columns)), dtype=np.int64)
    for column, counts in enumerate(columns):
        for each, number in counts.items():
            if each in rows:
                filled[rows[each], column] = number
    return filled


_FULL = 2**62
#: Steps of work to even out a group, and more for each node.
_GROUP_STEPS, _NODE_STEPS = 50_000, 200
#: Kind and workload; None: pods with spread constraints of their own.
_Group = tuple[int, Workload | None]


@attrs.define(eq=False)
class TierAssignment:
    """Assignment of a batch's pods to the nodes of one tier, whose replica spread is improved by
    local search.
    """

    problem: PlacementProblem
    #: N x S
    loads: Ints
    #: of all tiers
    spread: ReplicaSpread
    #: N, a number for the zone of each node
    codes: Codes = attrs.field(init=False)
    zones: set[Zone] = attrs.field(init=False)
    members: dict[_Group, list[Pod]] = attrs.field(factory=dict)
    #: kinds of unplaced pods, which no reassignment may give a node
    unplaced: Sequence[int] = ()
    #: pods of each group by node
    places: dict[_Group, Counter[int]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        rows, zone = self.problem.rows, self.problem.rows.index.zone
        self.codes = zone.codes[rows.positions]
        self.zones = {zone.values[code] for code in np.bincount(self.codes).nonzero()[0].tolist()}

    @classmethod
    def of(
        cls,
        problem: PlacementProblem,
        loads: Ints,
        chosen: Sequence[Sequence[Pod]],
        spread: ReplicaSpread,
    ) -> "TierAssignment":
        """Assign the chosen pods of each group to nodes, and count them in the replica spread."""
        tier = cls(problem, loads.copy(), spread)
        for kind, (pods, number) in enumerate(zip(chosen, loads.sum(axis=0).tolist(), strict=True)):
            members: dict[_Group, list[Pod]] = {}
            for pod in pods[:number]:
                members.setdefault(
                    (kind, pod.workload if has_default_spread(pod) else None), []
                ).append(pod)
            if members:
                used = loads[:, kind].nonzero()[0]
                sizes = {group: len(of_group) for group, of_group in members.items()}
                tier._assign_kind(used, loads[used, kind], sizes)
                tier.members |= members
        return tier

    @property
    def sizes(self) -> Iterator[tuple[int, Workload, int]]:
        """Pod group, workload and number of pods of each set of replicas to be spread."""
        for (kind, workload), members in self.members.items():
            if workload is not None:
                yield kind, workload, len(members)

    @property
    def targets(self) -> Targets:
        return tuple(
            (pod, self._name_of(node))
            for group, pods in self.members.items()
            for pod, node in zip(pods, sorted(self.places[group].elements()), strict=True)
        )

    def _name_of(self, node: int) -> NodeName:
        rows = self.problem.rows
        name: NodeName = rows.index.names[rows.positions[node]]
        return name

    def _assign_kind(self, nodes: Ints, slots: Ints, sizes: dict[_Group, int]) -> None:
        shares = self._share_places(nodes, sizes, slots) if len(sizes) > 1 else slots[None]
        for group, share in zip(sizes, shares, strict=True):
            self.places[group] = Counter()
            for at in np.flatnonzero(share).tolist():
                self._put_pods(group, int(nodes[at]), int(share[at]))

    def _share_places(self, nodes: Ints, sizes: dict[_Group, int], slots: Ints) -> Ints:
        """Assign the slots on the nodes to groups of replicas, shape (groups, nodes).

        Each group in turn, the largest first, takes the slots with the fewest replicas of its
        workload on the node and in the zone.
        """
        shares = np.zeros((len(sizes), len(nodes)), dtype=np.int64)
        left, zones = slots.copy(), self.codes[nodes]
        # Ties go to the node with the most slots left; the first, for single pods.
        unit = int(slots.max()) + 1
        groups = list(sizes)
        order = sorted(
            range(len(groups)), key=lambda at: (groups[at][1] is None, -sizes[groups[at]])
        )
        for row in order:
            (_, workload), size = groups[row], sizes[groups[row]]
            rated = self._company_of(workload)[nodes] * unit - left * (size > 1)
            for _ in range(size):
                node = int(np.where(left > 0, rated, _FULL).argmin())
                shares[row, node] += 1
                left[node] -= 1
                rated[node] += 1
                if workload is not None:
                    rated[node] += unit
                    rated[zones == zones[node]] += unit
        return shares

    def _company_of(self, workload: Workload | None) -> Ints:
        """Return the spread cost of one more pod of the workload on each node of the tier."""
        rows = self.problem.rows
        if workload is None:
            return np.zeros(len(rows.positions), dtype=np.int64)
        company: Ints = self.spread.by_node(workload, rows.index)[rows.positions]
        return company

    def _put_pods(self, group: _Group, node: int, number: int) -> None:
        _, workload = group
        self.places[group][node] += number
        if workload is not None:
            self.spread.put(workload, self._name_of(node), number)

    @property
    def has_neighbours(self) -> bool:
        """True if any two replicas of a workload of the batch share a node."""
        workloads = {workload for _, workload in self.members if workload is not None}
        return any(max(self.spread.on_node[w].values(), default=0) > 1 for w in workloads)

    def even_out(self, deadline: Deadline, unplaced: Sequence[int] = ()) -> int:
        """Spread replicas by local search within the tier; return the number of reassigned pods.

        Pods move to other nodes, or change places with pods of other kinds. No node opens to the
        unplaced kinds.
        Each reassignment reduces the spread cost, so the search terminates.
        """
        room = self.problem.room_after(self.loads)
        moves, still, self.unplaced = 0, 0, unplaced
        steps = _GROUP_STEPS + _NODE_STEPS * len(self.loads)
        for group in cycle(self.places):
            if still == len(self.places) or deadline.spend(steps):
                break
            moved = self._even_out(group, room)
            while self._exchange_pods(group, room) and not deadline.spend(steps):
                moved += 2
            still = 0 if moved else still + 1
            moves += moved
        return moves

    def _even_out(self, group: _Group, room: Ints) -> int:
        """Reassign pods of one group to nodes with fewer replicas and no greater penalty."""
        (kind, workload), problem, places = group, self.problem, self.places[group]
        if workload is None or not self._is_crowded(workload, places):
            return 0
        moves, requests = 0, problem.requests[kind]
        penalties, most = problem.penalties[:, kind], problem.most[:, kind]
        fits = (self.loads[:, kind] < most) & (room >= requests).all(axis=1)
        company = self._company_of(workload)
        for node in sorted(+places):
            while places[node]:
                # The pod itself counts on its node and in its zone.
                here = company[node] - 2
                open_to = fits & (penalties <= penalties[node])
                elsewhere = np.where(open_to, company - (self.codes == self.codes[node]), _FULL)
                elsewhere[node] = here
                best = int(elsewhere.argmin())
                opened = self._opens(node, self.loads[node], room[node] + requests)
                if elsewhere[best] >= here or opened:
                    break
                moves += 1
                for at, by in ((node, -1), (best, 1)):
                    self._put_pods(group, at, by)
                    self.loads[at, kind] += by
                    room[at] -= by * requests
                    fits[at] = self.loads[at, kind] < most[at] and (room[at] >= requests).all()
                    company[at] += by
                    company[self.codes == self.codes[at]] += by
        return moves

    def _exchange_pods(self, group: _Group, room: Ints) -> bool:
        """Exchange a pod of the group with a pod of another workload and kind on another node, if
        this lowers the spread cost; return True on success.
        """
        if group[1] is None or not self._is_crowded(group[1], self.places[group]):
            return False
        least, best = 0, None
        for other in self.places:
            if other[0] != group[0] and other[1] not in (group[1], None):
                found = self._find_exchange(group, other, room, least)
                if found is not None:
                    least, best = found[0], (other, *found[1:])
        if best is None:
            return False
        other, source, target = best
        for moved, start, end in ((group, source, target), (other, target, source)):
            for at, by in ((start, -1), (end, 1)):
                self._put_pods(moved, at, by)
                self.loads[at, moved[0]] += by
                room[at] -= by * self.problem.requests[moved[0]]
        return True

    def _find_exchange(
        self, group: _Group, other: _Group, room: Ints, most: int
    ) -> tuple[int, int, int] | None:
        """Return the permitted exchange of a pod of the group with a pod of the other that adds the
        least spread cost, with the nodes of both pods; None if it adds at least `most`.
        """
        (kind, workload), (their_kind, their_workload) = group, other
        requests, penalties = self.problem.requests, self.problem.penalties
        more = requests[their_kind] - requests[kind]
        crowding = self._company_of(workload) - self._company_of(their_workload)
        sources = self._accepting(sorted(+self.places[group]), kind, their_kind, room - more)
        targets = self._accepting(sorted(+self.places[other]), their_kind, kind, room + more)
        if not len(sources) or not len(targets):
            return None
        # Each pod counts on its node and in its zone: 4 apart from each other, or 2 in one zone.
        if crowding[targets].min() - crowding[sources].max() + 2 >= most:
            return None
        costs = crowding[targets] - crowding[sources][:, None] + 4
        costs -= 2 * (self.codes[sources][:, None] == self.codes[targets])
        worse = penalties[targets, kind] > penalties[sources, kind][:, None]
        worse |= penalties[sources, their_kind][:, None] > penalties[targets, their_kind]
        costs[worse | (sources[:, None] == targets)] = most
        source, target = np.unravel_index(costs.argmin(), costs.shape)
        least = int(costs[source, target])
        return None if least >= most else (least, int(sources[source]), int(targets[target]))

    def _accepting(self, nodes: Sequence[int], leaving: int, coming: int, room: Ints) -> Ints:
        """Return those of the nodes that accept a pod of the kind `coming` for one of the kind
        `leaving`, with this free capacity afterwards, and would accept no unplaced pod then.
        """
        found = np.array(nodes, dtype=np.intp)
        left, loads = room[found], self.loads[found]
        loads[:, leaving] -= 1
        loads[:, coming] += 1
        accepted = (left >= 0).all(axis=1) & (loads <= self.problem.most[found])[:, coming]
        accepting: Ints = found[accepted & ~self._opens(found, loads, left)]
        return accepting

    def _opens(self, nodes: int | Ints, loads: Ints, room: Ints) -> NDArray[np.bool_]:
        """Return True for each node that would accept an unplaced pod with these pods and this free
        capacity.
        """
        opened = np.zeros(room.shape[:-1], dtype=np.bool_)
        for kind in self.unplaced:
            fits = (room >= self.problem.requests[kind]).all(axis=-1)
            opened |= fits & (loads[..., kind] < self.problem.most[nodes, kind])
        return opened

    def _is_crowded(self, workload: Workload, nodes: Iterable[int]) -> bool:
        """Determine from zone counts whether any pod of the workload could join fewer replicas."""
        spread, in_zone = self.spread, self.spread.in_zone[workload]
        least = min(in_zone[zone] for zone in self.zones)
        for name in map(self._name_of, nodes):
            there = in_zone[spread.zones[name]]
            if spread.on_node[workload][name] + there - 2 > least - (there == least):
                return True
        return False


def is_optimally_spread(
    replicas: ReplicaLadders, tiers: Sequence[TierAssignment], bounds: Sequence[int]
) -> tuple[bool, bool]:
    """Return two answers: whether the replica spread is optimal, and whether the costs of the exact
    search (`match`) alone prove it.

    bounds: lower bound on the spread cost of each tier from its ladders.
    """
    cost = tiers[0].spread.cost - replicas.spread.cost
    for tier in tiers:
        for kind, workload, number in tier.sizes:
            cost -= number * replicas.crowds[kind].everywhere(workload)
    cost -= sum(_even_pairs(number, zones) for number, zones in _by_zones(tiers))
    if cost == sum(bounds):
        return True, True
    apart = [_cost_apart(replicas, tier) for tier in tiers]
    least = cost == sum(map(max, bounds, apart))
    return least, least and bounds[0] >= apart[0]


def _cost_apart(replicas: ReplicaLadders, tier: TierAssignment) -> int:
    """Return the spread cost of a tier if each workload had all capacity: a lower bound."""
    positions, feasible = tier.problem.rows.positions, tier.problem.feasible
    times = [
        crowds.times(positions[feasible[:, kind]]) for kind, crowds in enumerate(replicas.crowds)
    ]
    return sum(
        replicas.crowds[kind].least(workload, times[kind], number)
        for kind, workload, number in tier.sizes
    )


def _by_zones(tiers: Sequence[TierAssignment]) -> Iterator[tuple[int, int]]:
    """Enumerate the replica count of each workload of the batch, with the number of zones."""
    found: list[tuple[set[Zone], Counter[Workload]]] = []
    for tier in tiers:
        numbers: Counter[Workload] = Counter()
        for _, workload, number in tier.sizes:
            numbers[workload] += number
        found.append((tier.zones, numbers))
    if set[Zone].intersection(*(zones for zones, _ in found)):
        together: Counter[Workload] = sum((numbers for _, numbers in found), Counter())
        found = [(set[Zone].union(*(zones for zones, _ in found)), together)]
    for zones, of_workloads in found:
        yield from ((number, len(zones)) for number in of_workloads.values())


def _even_pairs(number: int, domains: int) -> int:
    """Return the least number of replica pairs for `number` replicas in the domains."""
    each, more = divmod(number, domains)
    return more * pairs(each + 1) + (domains - more) * pairs(each)
