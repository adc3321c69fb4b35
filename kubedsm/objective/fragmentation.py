"""Fragmentation: available node capacity unusable for the requests of present workloads.

Two measures from 0 to 1 per node, summed over nodes. `unusable`: the mean, over the requests of
workloads, of the unusable part of the node after filling it with pods of that workload ("Beware of
Fragmentation", ATC'23). `product`: 1 - used cpu/allocatable * used memory/allocatable, and 0.9 for
an empty node (program of the KubeDSM authors). Costs are round(2^32 * measure), for exact sums.
"""

import enum
from collections.abc import Collection, Iterable
from functools import lru_cache

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.model import MOST_OF_A_NODE, Resources
from kubedsm.model.node_index import NodeRows, Step
from kubedsm.model.snapshot import Snapshot

SCALE = 2**32
EMPTY_NODE = 0.9
BASIC_AXES = ("cpu", "memory", "pods")

Ints = NDArray[np.int64]
Mix = tuple[tuple[Resources, int], ...]


class Measure(enum.StrEnum):
    UNUSABLE = "unusable"
    PRODUCT = "product"


def request_mix(snapshot: Snapshot) -> Mix:
    """Return the distinct request vectors of opted-in pods with pod counts, in canonical order.

    Pods larger than any node are excluded.
    """
    held = (entry for entry in snapshot.census.requests.items() if not entry[0].beyond_any_node)
    return tuple(sorted(held))


def axes_of(requests: Iterable[Resources]) -> tuple[str, ...]:
    """Return the requested resource names (CPU, memory, pods, then extended resources), as column
    names of amount arrays.
    """
    return (*BASIC_AXES, *sorted({name for vector in requests for name, _ in vector.other}))


def rows(amounts: Iterable[Resources], axes: tuple[str, ...]) -> Ints:
    """Convert resource amounts to an array, a row each and a column for each resource; negative
    amounts count as zero.
    """
    listed = []
    for each in amounts:
        other = dict(each.other)
        more = (other.get(name, 0) for name in axes[len(BASIC_AXES) :])
        values = (each.cpu, each.memory, each.pods, *more)
        listed.append([min(max(value, 0), MOST_OF_A_NODE) for value in values])
    return np.array(listed, dtype=np.int64).reshape(len(listed), len(axes))


@attrs.frozen(eq=False)
class _Asked:
    """Distinct request vector of the workloads' pods, prepared for measuring fragmentation."""

    #: requested resources as column numbers, and requested amounts, a row each
    axes: tuple[int, ...]
    amounts: Ints
    #: requested resources and amounts, excluding pod slots
    measured: tuple[int, ...]
    measured_amounts: Ints


@lru_cache(2**13)  # a vector per workload
def _prepare(vector: Resources, axes: tuple[str, ...]) -> _Asked:
    amounts = rows([vector], axes).T
    asked = tuple(np.flatnonzero(amounts).tolist())
    measured = tuple(r for r in asked if axes[r] != "pods")
    return _Asked(asked, amounts[[*asked]], measured, amounts[[*measured]])


@attrs.frozen
class Fragmentation:
    """Fragmentation measure of nodes: free capacity unusable for pods with the request mix of the
    present workloads.
    """

    measure: Measure = Measure.UNUSABLE
    mix: Mix = ()

    def costs(self, axes: tuple[str, ...], allocatable: Ints, free: Ints) -> Ints:
        """Return the fragmentation cost of each node, from arrays of shape (nodes, resources).

        allocatable, free: non-negative amounts with the columns `axes`, including resources of the
        mix.
        """
        size = np.maximum(allocatable.T, 1)
        exists = allocatable.T > 0
        measured = (
            self._measure_unusable if self.measure is Measure.UNUSABLE else self._measure_product
        )
        return np.rint(SCALE * measured(axes, free.T, size, exists)).astype(np.int64)

    def of(self, nodes: NodeRows) -> int:
        """Return the total fragmentation cost of the nodes with their free capacity."""
        axes = axes_of(vector for vector, _ in self.mix)
        return int(self.costs(axes, nodes.allocatable(axes), nodes.free(axes)).sum())

    def added(self, requests: Resources, nodes: NodeRows) -> Ints:
        """Return the additional fragmentation cost of a pod with these requests on each node."""
        axes = axes_of([requests, *(vector for vector, _ in self.mix)])
        size, room = nodes.allocatable(axes), nodes.free(axes)
        rooms = np.concatenate((room, room - rows([requests], axes)))
        costs = self.costs(axes, np.concatenate((size, size)), rooms)
        return costs[len(size) :] - costs[: len(size)]

    def added_by(self, steps: Collection[Step], nodes: NodeRows) -> int:
        """Return the fragmentation cost that arrivals and departures of pods add to the nodes."""
        changed = nodes.only(nodes.index.match_names(name for _, name, _ in steps))
        return self.of(attrs.evolve(changed, room=nodes.room.after(steps))) - self.of(changed)

    def _measure_unusable(
        self, axes: tuple[str, ...], room: Ints, size: Ints, exists: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        total = np.zeros(room.shape[1])
        there: dict[tuple[int, ...], tuple[Ints, NDArray[np.bool_], Ints]] = {}
        pods = sum(count for _, count in self.mix)
        for vector, count in self.mix:
            asked = _prepare(vector, axes)
            measured = asked.measured
            if not measured:
                continue  # only pod slots
            if measured not in there:
                present = exists.take(measured, axis=0)
                number = np.maximum(present.sum(axis=0), 1)
                there[measured] = size.take(measured, axis=0), present, number
            whole, present, number = there[measured]
            fitting = (room.take(asked.axes, axis=0) // asked.amounts).min(axis=0)
            unused = (room.take(measured, axis=0) - fitting * asked.measured_amounts) / whole
            # Summation row by row is bitwise identical to the literal implementation.
            total += count / pods * ((unused * present).sum(axis=0) / number)
        return total

    def _measure_product(
        self, _: tuple[str, ...], room: Ints, size: Ints, exists: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        used = [np.maximum(np.where(exists[r], size[r], 0) - room[r], 0) for r in (0, 1)]
        ratio = [np.where(exists[r], used[r] / size[r], 1.0) for r in (0, 1)]
        empty = (used[0] == 0) & (used[1] == 0)
        return np.where(empty, EMPTY_NODE, 1.0 - ratio[0] * ratio[1])
