"""The nodes as columns, so that a condition is put to all of them at once."""

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.core.rules.rejection import Mask
from kubedsm.core.world.model import Node, NodeName, SchedulingRules
from kubedsm.core.world.selectors import NodeSelectorTerm, Requirement, is_name_field

Codes = NDArray[np.intp]
#: the code of nodes that have no value
MISSING = 0


@attrs.frozen(slots=True, eq=False)
class Column:
    """One property of every node: the code of its value, and the value of every code."""

    codes: Codes
    #: the first is None
    values: tuple[Any, ...]

    @classmethod
    def of(cls, properties: Sequence[Any]) -> "Column":
        values = tuple(dict.fromkeys((None, *properties)))
        codes = {value: code for code, value in enumerate(values)}
        coded = map(codes.__getitem__, properties)
        return cls(np.fromiter(coded, np.intp, len(properties)), values)

    @property
    def present(self) -> Mask:
        mask: Mask = self.codes != MISSING
        return mask

    def accepted(self, requirement: Requirement) -> Mask:
        table = np.fromiter(map(requirement.accepts, self.values), np.bool_, len(self.values))
        mask: Mask = table[self.codes]
        return mask

    def sums(self, amounts: NDArray[np.int64], counted: Mask | None = None) -> NDArray[np.int64]:
        """Per value, the sum over its nodes (those counted) of the amounts; none for MISSING."""
        codes = self.codes if counted is None else self.codes[counted]
        weights = amounts if counted is None else amounts[counted]
        sums = np.bincount(codes, weights, minlength=len(self.values)).astype(np.int64)
        sums[MISSING] = 0
        return sums


class NodeIndex:
    """Nodes in name order. It never changes; columns are made when first asked for."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: node.name))
        self.names: tuple[NodeName, ...] = tuple(node.name for node in self.nodes)
        self.positions = {name: index for index, name in enumerate(self.names)}
        self._labels: dict[str, Column] = {}
        self._affinities: dict[SchedulingRules, Mask] = {}
        self.taints = Column.of([node.taints or None for node in self.nodes])
        self.unschedulable = np.array([node.unschedulable for node in self.nodes], dtype=np.bool_)
        self.tierless = np.array([node.tier is None for node in self.nodes], dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.nodes)

    def none(self) -> Mask:
        return np.zeros(len(self.nodes), dtype=np.bool_)

    def every(self) -> Mask:
        return np.ones(len(self.nodes), dtype=np.bool_)

    def label(self, key: str) -> Column:
        column = self._labels.get(key)
        if column is None:
            column = Column.of([node.labels.get(key) for node in self.nodes])
            self._labels[key] = column
        return column

    def at(self, positions: Iterable[int]) -> Mask:
        mask = self.none()
        mask[list(positions)] = True
        return mask

    def named(self, names: Iterable[str]) -> Mask:
        known = map(NodeName, names)
        return self.at(self.positions[name] for name in known if name in self.positions)

    def selected(self, terms: Iterable[NodeSelectorTerm]) -> Mask:
        """The nodes that satisfy one of the terms at least."""
        chosen = self.none()
        for term in terms:
            if term.expressions or term.fields:
                chosen |= self._term(term)
        return chosen

    def _term(self, term: NodeSelectorTerm) -> Mask:
        mask = self.every()
        for requirement in term.expressions:
            mask &= self.label(requirement.key).accepted(requirement)
        for field in term.fields:
            named = self.named(field.values)
            known = is_name_field(field)
            mask &= (named if field.operator == "In" else ~named) & known
        return mask

    def affine(self, rules: SchedulingRules) -> Mask:
        """The nodes that satisfy node selector and node affinity."""
        known = self._affinities.get(rules)
        if known is None:
            known = self.every()
            for label, value in rules.node_selector:
                known &= self.label(label).accepted(Requirement(label, "In", (value,)))
            if rules.node_affinity is not None:
                known &= self.selected(rules.node_affinity)
            self._affinities[rules] = known
        return known
