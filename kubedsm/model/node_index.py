"""The nodes as columns, so that a condition is put to all of them at once."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.model import Node, NodeName, PodClass, Resources, SchedulingRules, Tier
from kubedsm.model.node_order import Zone, zone_interleaved, zone_of
from kubedsm.model.selectors import NodeSelectorTerm, Requirement, is_name_field

Codes = NDArray[np.intp]
Ints = NDArray[np.int64]
#: one truth value a node
Mask = NDArray[np.bool_]
#: positions of nodes
Positions = NDArray[np.intp]
#: the code of nodes that have no value
MISSING = 0
#: 64 bits hold no amount beyond this.
_LARGEST = 2**63 - 1
#: pod classes of which it is remembered where they may run
_CLASSES = 1024


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


def clipped(amount: int) -> int:
    return min(max(amount, -_LARGEST), _LARGEST)


def column_of(amounts: Iterable[Resources], resource: str) -> Ints:
    """The amount of that resource in each of these."""
    match resource:
        case "cpu":
            column = [each.cpu for each in amounts]
        case "memory":
            column = [each.memory for each in amounts]
        case "pods":
            column = [each.pods for each in amounts]
        case _:
            column = [each.amount(resource) for each in amounts]
    if column and not (-_LARGEST <= min(column) <= max(column) <= _LARGEST):
        column = [clipped(amount) for amount in column]
    return np.array(column, dtype=np.int64)


class NodeIndex:
    """Nodes in name order. It never changes; columns are made when first asked for.

    So what is asked of nodes again and again is worked out once, until one of them changes.
    """

    def __init__(self, nodes: Mapping[NodeName, Node]) -> None:
        """nodes: nobody may change them any more."""
        self._by_name = nodes
        self._labels: dict[str, Column] = {}
        self._sizes: dict[str, Ints] = {}
        self._affinities: dict[SchedulingRules, Mask] = {}
        self._open: dict[PodClass, Mask] = {}
        self._tiers: dict[Tier, Positions] = {}

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> "NodeIndex":
        return cls({node.name: node for node in nodes})

    @classmethod
    def single(cls, node: Node) -> "NodeIndex":
        """Return the index of one node, cached while the node is the same object."""
        known = _SINGLE.get(id(node))
        if known is None or known.nodes[0] is not node:
            if len(_SINGLE) >= _CLASSES:
                _SINGLE.clear()
            known = _SINGLE[id(node)] = cls.of([node])
        return known

    @cached_property
    def names(self) -> tuple[NodeName, ...]:
        return tuple(sorted(self._by_name))

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._by_name[name] for name in self.names)

    @cached_property
    def positions(self) -> Mapping[NodeName, int]:
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def taints(self) -> Column:
        return Column.of([node.taints or None for node in self.nodes])

    @cached_property
    def unschedulable(self) -> Mask:
        return np.array([node.unschedulable for node in self.nodes], dtype=np.bool_)

    @cached_property
    def tierless(self) -> Mask:
        return np.array([node.tier is None for node in self.nodes], dtype=np.bool_)

    @cached_property
    def zones(self) -> Mapping[NodeName, Zone]:
        return {node.name: zone_of(node) for node in self.nodes}

    @cached_property
    def zone(self) -> Column:
        return Column.of(list(self.zones.values()))

    @cached_property
    def images(self) -> Mapping[str, int]:
        """How many nodes have each image."""
        return Counter(image for node in self._by_name.values() for image in node.images)

    @cached_property
    def interleaved(self) -> Positions:
        """All nodes, zones interleaved."""
        listed = [self.positions[node.name] for node in zone_interleaved(self.nodes)]
        return np.array(listed, dtype=np.intp)

    def __len__(self) -> int:
        return len(self._by_name)

    def of_tier(self, tier: Tier) -> Positions:
        """The tier's nodes, zones interleaved."""
        if tier not in self._tiers:
            ordered = zone_interleaved(node for node in self.nodes if node.tier is tier)
            listed = [self.positions[node.name] for node in ordered]
            self._tiers[tier] = np.array(listed, dtype=np.intp)
        return self._tiers[tier]

    def size(self, resource: str) -> Ints:
        """How much of that resource is allocatable on each node."""
        if resource not in self._sizes:
            self._sizes[resource] = column_of((n.allocatable for n in self.nodes), resource)
        return self._sizes[resource]

    def open_to(self, pod_class: PodClass, judge: Callable[[PodClass, "NodeIndex"], Mask]) -> Mask:
        """What `judge` says of the class on these nodes; remembered, so always ask the same one."""
        known = self._open.get(pod_class)
        if known is None:
            if len(self._open) >= _CLASSES:
                self._open.clear()
            known = self._open[pod_class] = judge(pod_class, self)
        return known

    def none(self) -> Mask:
        return np.zeros(len(self), dtype=np.bool_)

    def every(self) -> Mask:
        return np.ones(len(self), dtype=np.bool_)

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


#: By identity of the node, which the index keeps alive.
_SINGLE: dict[int, NodeIndex] = {}
