"""Large-neighbourhood search for packings: random nodes are emptied and refilled repeatedly.

Each iteration removes pods from a few random nodes, and places removed and pending pods by best
fit in a randomised order. Results are accepted if no worse: most placed pods by priority, then
available capacity in large pieces, finally the fewest migrations. (Shaw, "Using constraint
programming and local search methods to solve vehicle routing problems".)
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.packing.problem import ClusterProblem

#: Most nodes refilled at a time.
_NODES = 4
#: Rounds, and additional rounds a node; the deadline may come before.
_ROUNDS, _ROUNDS_A_NODE = 400, 60
#: Part of the rounds for migrating less.
_RESTORING = 0.3
#: Greatest noise of orders and fits; and how often pods return to former nodes.
_NOISE, _HOMING = 0.4, 0.95
#: Nodes of which the one with the most available capacity is refilled.
_LOOKED_AT = 3
#: Probability of each of two alternatives.
_EVEN = 0.5
#: How often running pods go first, and how often pods of higher priority do.
_OLD_FIRST, _BY_TIER = 0.4, 0.3
#: Random numbers drawn at a time.
_DRAWN = 4096

#: Steps of work for a round, and for a refilled pod and node.
_ROUND_STEPS, _REFILL_STEPS = 60_000, 3_000

#: Kinds of the pods by node row.
_Nodes = dict[int, list[int]]


class _Found(NamedTuple):
    on: _Nodes
    #: the kinds of the pods without a node
    out: list[int]


class Search:
    """State of the large-neighbourhood search: the current placement and unplaced pods."""

    def __init__(self, problem: ClusterProblem, loads: Ints) -> None:
        """Begin the search with a placement: pod counts, nodes x kinds."""
        #: scarce resources
        scarce = (problem.requests > 0).any(axis=0) & (
            problem.free.min(axis=0) < problem.counts @ problem.requests
        )
        self._problem = problem
        self._room: list[list[int]] = problem.free[:, scarce].tolist()
        self._asks: list[list[int]] = problem.requests[:, scarce].tolist()
        self._parts = (1 / np.maximum(problem.free.max(axis=0), 1))[scarce].tolist()
        self._size = [self._size_of(asks) for asks in self._asks]
        self._tier = problem.tiers.tolist()
        self._most = problem.most.tolist()
        self._old = problem.old.tolist()
        self._spare = (problem.counts - problem.least).tolist()
        #: kinds of the pods by row; unschedulable kinds are in `_out`
        self._on = [
            [kind for kind, number in enumerate(row) for _ in range(number)]
            for row in loads.tolist()
        ]
        #: available capacity by row
        self._spare_room = [self._room_beside(row, kinds) for row, kinds in enumerate(self._on)]
        left = (problem.counts - loads.sum(axis=0)).tolist()
        self._out = [kind for kind, number in enumerate(left) for _ in range(number)]
        self._rounds = _ROUNDS + _ROUNDS_A_NODE * len(problem.nodes)
        self._random = _random_numbers()

    @property
    def loads(self) -> Ints:
        loads = self._problem.nothing()
        for row, kinds in enumerate(self._on):
            for kind in kinds:
                loads[row, kind] += 1
        return loads

    def improve(self, deadline: Deadline) -> None:
        """Improve the packing until the deadline: first place more pending pods, then migrate fewer
        running pods.
        """
        packing = deadline.part(1 - _RESTORING)
        for _ in range(self._rounds):
            if not self._out or packing.spend(self._round_steps):
                break
            self._accept_result(self._repack(restoring=False), self._rate_gaps)
        for _ in range(int(self._rounds * _RESTORING)):
            if deadline.spend(self._round_steps):
                break
            self._accept_result(self._repack(restoring=True), self._rate_moves)

    def improve_by_steps(self, deadline: Deadline, takes: Callable[[Ints], bool]) -> None:
        """Place more pods by rounds of few migrations; the callback `takes` accepts or rejects each
        round.
        """
        rejected: set[bytes] = set()
        for _ in range(self._rounds):
            if not self._out or deadline.spend(self._round_steps):
                break
            found = self._repack(restoring=True)
            before = list(self._on), list(self._spare_room), self._out
            if found is not None and self._count_tiers(found.out) < self._count_tiers(self._out):
                self._apply_result(found)
                loads = self.loads
                # In a small cluster the same few placements come up again and again.
                if loads.tobytes() in rejected or not takes(loads):
                    rejected.add(loads.tobytes())
                    self._on, self._spare_room, self._out = before

    @property
    def _round_steps(self) -> int:
        """Estimated steps of work for a round: unplaced pods, and the pods of a few nodes."""
        pods = sum(map(len, self._on)) * _NODES // max(1, len(self._on))
        return _ROUND_STEPS + _REFILL_STEPS * _NODES * (pods + len(self._out))

    def _repack(self, *, restoring: bool) -> "_Found | None":
        """Return the result of refilling random nodes; None if a running pod would be unplaced."""
        rows = self._draw_rows()
        kept, pool = self._take_out(rows, restoring=restoring)
        waiting: list[int] = []
        outside: list[int] = []
        for kind in self._out:
            open_here = any(self._most[row][kind] for row in rows)
            (waiting if open_here else outside).append(kind)
        after, out = self._refill_nodes(kept, pool, waiting, restoring=restoring)
        found = _Found(after, out + outside)
        return found if self._keeps_running(found.out) else None

    def _accept_result(self, found: "_Found | None", judged: Callable[[_Nodes], float]) -> None:
        """Accept the neighbouring placement unless it is worse than the current placement."""
        if found is None:
            return
        was, now = self._count_tiers(self._out), self._count_tiers(found.out)
        before = {row: self._on[row] for row in found.on}
        if now < was or (now == was and judged(found.on) <= judged(before)):
            self._apply_result(found)

    def _apply_result(self, found: "_Found") -> None:
        for row, kinds in found.on.items():
            self._on[row] = kinds
            self._spare_room[row] = self._room_beside(row, kinds)
        self._out = found.out

    def _draw_rows(self) -> list[int]:
        number = len(self._on)
        wanted = min(number, 2 + int(next(self._random) * (_NODES - 1)))
        drawn = [int(next(self._random) * number) for _ in range(_LOOKED_AT)]
        rows = {max(drawn, key=self._spare_room.__getitem__)}
        while len(rows) < wanted:
            rows.add(int(next(self._random) * number))
        return sorted(rows)

    def _take_out(self, rows: Sequence[int], *, restoring: bool) -> tuple[_Nodes, list[int]]:
        """Remove random pods from the nodes; return remaining pods by node, and removed pods."""
        part = 1.0 if next(self._random) < _EVEN else next(self._random)
        kept: _Nodes = {}
        pool: list[int] = []
        for row in rows:
            kept[row] = []
            home = list(self._old[row])
            for kind in self._on[row]:
                home[kind] -= 1
                stays = restoring and home[kind] >= 0 and next(self._random) < _EVEN
                if stays or next(self._random) > part:
                    kept[row].append(kind)
                else:
                    pool.append(kind)
        return kept, pool

    def _refill_nodes(
        self,
        kept: _Nodes,
        pool: list[int],
        waiting: list[int],
        *,
        restoring: bool,
    ) -> tuple[_Nodes, list[int]]:
        """Refill the nodes by randomised best fit; return pods by node, and unplaced pods."""
        size, rng = self._size, self._random
        noise = next(rng) * _NOISE
        homing = restoring and next(rng) < _HOMING
        after = {row: list(kinds) for row, kinds in kept.items()}
        free = {row: self._free_after(row, kinds) for row, kinds in kept.items()}
        tier = self._tier
        first = next(rng)
        sized = [(size[k] * (1 + noise * next(rng)), k) for k in pool]
        more = [(size[k] * (1 + noise * next(rng)), k) for k in waiting]
        if first < _OLD_FIRST:
            order = [k for _, k in sorted(sized, reverse=True)]
            order += [k for _, _, k in sorted((tier[k], s, k) for s, k in more)]
        elif first < _OLD_FIRST + _BY_TIER:
            order = [k for _, _, k in sorted((tier[k], -s, k) for s, k in sized + more)]
        else:
            order = [k for _, k in sorted(sized + more, reverse=True)]
        out: list[int] = []
        for kind in order:
            row = self._best_row(kind, free, after, noise, homing=homing)
            if row is None:
                out.append(kind)
            else:
                after[row].append(kind)
                free[row] = list(map(int.__sub__, free[row], self._asks[kind]))
        return after, out

    def _size_of(self, amounts: Sequence[int]) -> float:
        return sum(map(float.__mul__, map(float, amounts), self._parts))

    def _room_beside(self, row: int, kinds: Sequence[int]) -> float:
        return self._size_of(self._free_after(row, kinds))

    def _free_after(self, row: int, kinds: Sequence[int]) -> list[int]:
        left = self._room[row]
        for kind in kinds:
            left = list(map(int.__sub__, left, self._asks[kind]))
        return left

    def _best_row(
        self,
        kind: int,
        free: _Nodes,
        after: _Nodes,
        noise: float,
        *,
        homing: bool,
    ) -> int | None:
        """Return the best-fitting node, randomised; `homing` prefers the pod's former node."""
        asks, best, least = self._asks[kind], None, float("inf")
        for row, left in free.items():
            if not self._most[row][kind] or any(map(int.__gt__, asks, left)):
                continue
            there = after[row].count(kind)
            if there >= self._most[row][kind]:
                continue
            rest = self._size_of(left) * (1 + noise * next(self._random))
            if homing and there < self._old[row][kind]:
                rest -= 1000
            if rest < least:
                best, least = row, rest
        return best

    def _count_tiers(self, out: Sequence[int]) -> list[int]:
        counted = [0] * len(self._problem.priorities)
        for kind in out:
            counted[self._tier[kind]] += 1
        return counted

    def _keeps_running(self, out: Sequence[int]) -> bool:
        """Return True if all running pods keep a node when the given pods stay unplaced."""
        return all(out.count(kind) <= self._spare[kind] for kind in set(out))

    def _rate_gaps(self, on: _Nodes) -> float:
        total = 0.0
        for row, kinds in on.items():
            left = self._free_after(row, kinds)
            total -= self._size_of(left) ** 2
        return total

    def _rate_moves(self, on: _Nodes) -> float:
        total = 0
        for row, kinds in on.items():
            home = list(self._old[row])
            for kind in kinds:
                home[kind] -= 1
            total += sum(n for n in home if n > 0)
        return float(total)


def _random_numbers() -> Iterator[float]:
    rng = np.random.default_rng(0)
    while True:
        yield from rng.random(_DRAWN).tolist()
