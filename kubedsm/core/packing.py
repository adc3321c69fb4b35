"""Pods and nodes as arrays: the problem that `match` and its relatives solve.

Pods of one *kind* are interchangeable to every node at hand: they request the same and may run on
the same nodes. Several pod classes may be one kind. A set of pods is then a vector of counts, one
a kind, and a placement is a matrix of counts, its *loads*: one row a node, one column a kind.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.core.fit import reasons
from kubedsm.core.fragmentation import Ints, axes_of, canonical, row
from kubedsm.core.model import Node, NodeName, Pod, PodClass, Resources

Targets = tuple[tuple[Pod, NodeName], ...]


@attrs.frozen(eq=False)
class Kind:
    """Pods that are interchangeable, in the order in which they are served."""

    requests: Resources
    pods: tuple[Pod, ...]
    #: the nodes that take such a pod, as they are now
    nodes: frozenset[NodeName]


def turn(pod: Pod) -> tuple[int, float, str, str]:
    """The order in which pods are served: by priority, then the oldest, then by name."""
    return -pod.pod_class.priority, pod.created, pod.namespace, pod.name


def kinds(
    pods: Iterable[Pod], nodes: Sequence[Node], free: Mapping[NodeName, Resources]
) -> tuple[Kind, ...]:
    """The kinds of these pods on these nodes, in canonical order."""
    by_class: dict[PodClass, list[Pod]] = {}
    for pod in pods:
        by_class.setdefault(pod.pod_class, []).append(pod)
    merged: dict[tuple[Resources, frozenset[NodeName]], list[Pod]] = {}
    for pod_class, members in by_class.items():
        fitting = frozenset(n.name for n in nodes if not reasons(pod_class, n, free[n.name]))
        merged.setdefault((pod_class.requests, fitting), []).extend(members)
    return tuple(
        Kind(requests, tuple(sorted(members, key=turn)), fitting)
        for (requests, fitting), members in sorted(
            merged.items(), key=lambda entry: (canonical(entry[0][0]), sorted(entry[0][1]))
        )
    )


@attrs.frozen(eq=False)
class Packing:
    """S kinds of pods to be put on N nodes with room for R resources.

    Room below zero counts as none: who asks for nothing of a resource still fits.
    """

    kinds: tuple[Kind, ...]
    #: in name order
    nodes: tuple[Node, ...]
    #: the names of the R resources
    axes: tuple[str, ...]
    #: S
    counts: Ints
    #: S x R
    requests: Ints
    #: N x S
    feasible: NDArray[np.bool_]
    #: N x R
    allocatable: Ints
    #: N x R
    free: Ints

    @classmethod
    def of(
        cls,
        kinds: Sequence[Kind],
        nodes: Iterable[Node],
        free: Mapping[NodeName, Resources],
        measured: Iterable[Resources] = (),
    ) -> Self:
        """`measured`: request vectors whose resources must have a column too."""
        axes = axes_of([*(kind.requests for kind in kinds), *measured])
        ordered = tuple(sorted(nodes, key=lambda node: node.name))
        shape = (len(ordered), len(axes))
        return cls(
            kinds=tuple(kinds),
            nodes=ordered,
            axes=axes,
            counts=np.array([len(kind.pods) for kind in kinds], dtype=np.int64),
            requests=np.array([row(kind.requests, axes) for kind in kinds], dtype=np.int64).reshape(
                len(kinds), len(axes)
            ),
            feasible=np.array(
                [[node.name in kind.nodes for kind in kinds] for node in ordered], dtype=np.bool_
            ).reshape(len(ordered), len(kinds)),
            allocatable=np.array(
                [row(node.allocatable, axes) for node in ordered], dtype=np.int64
            ).reshape(shape),
            free=np.array([row(free[node.name], axes) for node in ordered], dtype=np.int64).reshape(
                shape
            ),
        )

    def nothing(self) -> Ints:
        """The loads of a placement that places no pod."""
        return np.zeros((len(self.nodes), len(self.kinds)), dtype=np.int64)

    def room_after(self, loads: Ints) -> Ints:
        """The free room, N x R, once the pods of that placement are there too."""
        return self.free - loads @ self.requests

    def targets(self, loads: Ints, chosen: Sequence[Sequence[Pod]] | None = None) -> Targets:
        """Which pod goes where: of each kind its first pods (or the chosen), node by node."""
        pods = [iter(kind.pods) for kind in self.kinds] if chosen is None else map(iter, chosen)
        queues = list(pods)
        return tuple(
            (next(queues[kind]), self.nodes[node].name)
            for node, kind in np.argwhere(loads).tolist()
            for _ in range(int(loads[node, kind]))
        )
