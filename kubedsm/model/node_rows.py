"""Nodes as rows, in the order in which they are filled."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import MOST_OF_A_NODE, Node, NodeName, Resources
from kubedsm.model.node_index import Ints, Mask, NodeIndex, Positions
from kubedsm.model.room import Room


@attrs.frozen(eq=False)
class NodeRows:
    """N of the nodes of an index, and what is free on all of them.

    The first ones are filled first, where nothing else tells them apart.
    """

    index: NodeIndex
    room: Room
    #: N
    positions: Positions

    @classmethod
    def of(cls, nodes: Iterable[Node], free: Mapping[NodeName, Resources]) -> Self:
        """In that order."""
        listed = list(nodes)
        index = NodeIndex.of(listed)
        positions = [index.positions[node.name] for node in listed]
        return cls(index, Room(index, free), np.array(positions, dtype=np.intp))

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        nodes = self.index.nodes
        return tuple([nodes[position] for position in self.positions.tolist()])

    @cached_property
    def mask(self) -> Mask:
        """Of the nodes of the index, which these are."""
        mask = self.index.none()
        mask[self.positions] = True
        return mask

    def only(self, chosen: Mask) -> Self:
        """Those of them that are among the chosen of the index."""
        return attrs.evolve(self, positions=self.positions[chosen[self.positions]])

    def free(self, axes: Sequence[str]) -> Ints:
        """N x R, of these resources; room below zero is none."""
        return self._matrix([self.room.column(axis) for axis in axes])

    def allocatable(self, axes: Sequence[str]) -> Ints:
        """N x R, of these resources."""
        return self._matrix([self.index.size(axis) for axis in axes])

    def _matrix(self, columns: Iterable[Ints]) -> Ints:
        chosen = [column[self.positions] for column in columns]
        return np.clip(np.stack(chosen, axis=1), 0, MOST_OF_A_NODE)

    def __add__(self, others: Self) -> Self:
        """These, and after them others of the same index."""
        return attrs.evolve(self, positions=np.concatenate((self.positions, others.positions)))
