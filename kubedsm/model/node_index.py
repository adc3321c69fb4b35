"""Nodes as columns, for vectorised plugins: labels, sizes, zones, free capacity, filling order."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple, Self, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.model import (
    MOST_OF_A_NODE,
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Tier,
)
from kubedsm.model.persistent_map import Map
from kubedsm.model.selectors import NodeSelectorTerm, Requirement, is_name_field

#: fewest nodes to examine
_FEWEST_NODES = 100
_REGION_LABEL = "topology.kubernetes.io/region"
_ZONE_LABEL = "topology.kubernetes.io/zone"


class Zone(NamedTuple):
    """Failure domain of a node, from its region and zone labels; all nodes without the labels share
    one domain.
    """

    region: str = ""
    zone: str = ""


def zone_of(node: Node) -> Zone:
    return Zone(node.labels.get(_REGION_LABEL, ""), node.labels.get(_ZONE_LABEL, ""))


def site_of(node: Node, labels: Iterable[str]) -> str:
    """Return the name of the site of an edge node, from the node's labels; empty for a node without
    a site.
    """
    if node.tier is not Tier.EDGE:
        return ""
    return next((node.labels[label] for label in labels if label in node.labels), "")


def zone_interleaved(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes alternating between zones: the first node of each zone, then the second of
    each, and so on.

    Source: the node tree of kube-scheduler ("Scheduler Performance Tuning").
    """
    zones: dict[Zone, list[Node]] = {}
    for node in nodes:
        zones.setdefault(zone_of(node), []).append(node)
    return [node for turn in zip_longest(*zones.values()) for node in turn if node is not None]


def nodes_to_find(nodes: int, percentage: int) -> int:
    """Return the number of feasible nodes after which kube-scheduler stops searching a cluster of
    this size.

    percentage: percentageOfNodesToScore; 0: from 50% at 100 nodes down to 5%.
    """
    if nodes < _FEWEST_NODES:
        return nodes
    percentage = min(percentage, 100) or max(5, 50 - nodes // 125)
    return max(_FEWEST_NODES, nodes * percentage // 100)


def window(
    order: NDArray[np.intp], start: int, feasible: NDArray[np.bool_], wanted: int
) -> tuple[NDArray[np.intp], int]:
    """Return the first `wanted` feasible nodes from a start position on, and the position where the
    next search continues.

    order: node positions, cyclic. feasible: by position.
    """
    turned = np.roll(order, -start)
    hits = feasible[turned].nonzero()[0][:wanted]
    examined = int(hits[-1]) + 1 if 0 < len(hits) == wanted else len(order)
    return turned[hits], (start + examined) % max(1, len(order))


Codes = NDArray[np.intp]
Ints = NDArray[np.int64]
#: boolean by node
Mask = NDArray[np.bool_]
#: positions of nodes
Positions = NDArray[np.intp]
#: arrival (1) or departure (-1) of a pod at a node
Step = tuple[Pod, NodeName, int]
#: code of nodes without a value
MISSING = 0
#: 64 bits hold no amount beyond this.
_LARGEST = 2**63 - 1
_READERS = {name: attrgetter(name) for name in ("cpu", "memory", "pods")}
#: cached pod classes, and cached labels or resources
MOST_CLASSES, MOST_COLUMNS = 1024, 64
K = TypeVar("K")
V = TypeVar("V")


class Cache(dict[K, V]):
    """Cache that is emptied when it is full, since tenants choose its keys."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._most:
            self.clear()
        super().__setitem__(key, value)


@attrs.frozen(slots=True, eq=False)
class Column:
    """One property of all nodes, such as a label: an integer code for each node, and the value of
    each code.
    """

    codes: Codes
    #: the first is None
    values: tuple[Any, ...]

    @classmethod
    def of(cls, properties: Sequence[Any]) -> "Column":
        values = tuple(dict.fromkeys((None, *properties)))
        codes = {value: code for code, value in enumerate(values)}
        coded = map(codes.__getitem__, properties)
        return cls(np.fromiter(coded, np.intp, len(properties)), values)

    def value_at(self, position: int) -> Any:
        """Return the value of the node at a position; None for a node without a value."""
        return self.values[self.codes[position]]

    @property
    def present(self) -> Mask:
        mask: Mask = self.codes != MISSING
        return mask

    @cached_property
    def _code_of(self) -> Mapping[Any, int]:
        return {value: code for code, value in enumerate(self.values)}

    def match_requirement(self, requirement: Requirement) -> Mask:
        if requirement.operator == "In":
            table = np.zeros(len(self.values), dtype=np.bool_)
            known = (self._code_of.get(value, MISSING) for value in requirement.values)
            table[[code for code in known if code != MISSING]] = True
            listed: Mask = table[self.codes]
            return listed
        table = np.fromiter(map(requirement.accepts, self.values), np.bool_, len(self.values))
        mask: Mask = table[self.codes]
        return mask

    def sums(self, amounts: NDArray[np.int64], counted: Mask | None = None) -> NDArray[np.int64]:
        """Sum amounts given for each node by the nodes' property value, over the counted nodes;
        zero for nodes without a value.
        """
        codes = self.codes if counted is None else self.codes[counted]
        weights = amounts if counted is None else amounts[counted]
        sums = np.bincount(codes, weights, minlength=len(self.values)).astype(np.int64)
        sums[MISSING] = 0
        return sums


def _clip_amount(amount: int) -> int:
    return min(max(amount, -_LARGEST), _LARGEST)


def column_of(amounts: Iterable[Resources], resource: str) -> Ints:
    """Return the amounts of one resource, such as memory, as an array with one entry for each
    node.
    """
    read = _READERS.get(resource) or methodcaller("amount", resource)
    column = list(map(read, amounts))
    if column and not (-_LARGEST <= min(column) <= max(column) <= _LARGEST):
        column = list(map(_clip_amount, column))
    return np.array(column, dtype=np.int64)


class NodeIndex:
    """Index of nodes in name order, with properties as columns (arrays); immutable."""

    def __init__(self, nodes: Mapping[NodeName, Node]) -> None:
        """Index the nodes of a mapping by name; the mapping must not change afterwards."""
        self._by_name = nodes
        self._labels = Cache[str, Column](MOST_COLUMNS)
        self._sites: dict[tuple[str, ...], Column] = {}
        self._sizes = Cache[str, Ints](MOST_COLUMNS)
        #: by node selector and required node affinity
        self._affinities = Cache[object, Mask](MOST_CLASSES)
        #: cache of `plugins.open_nodes`
        self.open_to = Cache[PodClass, Mask](MOST_CLASSES)
        #: cache of `images.sum_localities`
        self.localities = Cache[tuple[str, ...], Ints](MOST_CLASSES)
        self._tiers: dict[Tier, Positions] = {}

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> "NodeIndex":
        return cls({node.name: node for node in nodes})

    @classmethod
    def index_node(cls, node: Node) -> "NodeIndex":
        """Return an index of a single node, cached for as long as the node object is the same."""
        known = _SINGLE.get(id(node))
        if known is None or known.nodes[0] is not node:
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
        """Number of nodes that have pulled each container image."""
        return Counter(image for node in self._by_name.values() for image in node.images)

    @cached_property
    def image_sizes(self) -> Mapping[str, int]:
        """Bytes of each container image that any node reports."""
        sizes: dict[str, int] = {}
        for node in self._by_name.values():
            sizes.update(node.images)
        return sizes

    @cached_property
    def interleaved(self) -> Positions:
        """Positions of all nodes, alternating between zones."""
        listed = [self.positions[node.name] for node in zone_interleaved(self.nodes)]
        return np.array(listed, dtype=np.intp)

    def __len__(self) -> int:
        return len(self._by_name)

    def of_tier(self, tier: Tier) -> Positions:
        """Return the positions of the tier's nodes, alternating between zones."""
        if tier not in self._tiers:
            ordered = zone_interleaved(node for node in self.nodes if node.tier is tier)
            listed = [self.positions[node.name] for node in ordered]
            self._tiers[tier] = np.array(listed, dtype=np.intp)
        return self._tiers[tier]

    def size(self, resource: str) -> Ints:
        """Return the allocatable amount of the resource on each node."""
        if resource not in self._sizes:
            self._sizes[resource] = column_of((n.allocatable for n in self.nodes), resource)
        return self._sizes[resource]

    def none(self) -> Mask:
        return np.zeros(len(self), dtype=np.bool_)

    def every(self) -> Mask:
        return np.ones(len(self), dtype=np.bool_)

    def label(self, key: str) -> Column:
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = Column.of([node.labels.get(key) for node in self.nodes])
        return column

    def site(self, labels: tuple[str, ...]) -> Column:
        """Return the edge site of each node by the given site labels; None for cloud nodes and
        nodes without a site.
        """
        column = self._sites.get(labels)
        if column is None:
            column = Column.of([site_of(node, labels) or None for node in self.nodes])
            self._sites[labels] = column
        return column

    def at(self, positions: Iterable[int]) -> Mask:
        mask = self.none()
        mask[list(positions)] = True
        return mask

    def match_names(self, names: Iterable[str]) -> Mask:
        known = map(NodeName, names)
        return self.at(self.positions[name] for name in known if name in self.positions)

    def match_terms(self, terms: Iterable[NodeSelectorTerm]) -> Mask:
        """Return the mask of nodes that satisfy at least one of the node selector terms."""
        chosen = self.none()
        for term in terms:
            if term.expressions or term.fields:
                chosen |= self._match_term(term)
        return chosen

    def _match_term(self, term: NodeSelectorTerm) -> Mask:
        mask = self.every()
        for requirement in term.expressions:
            mask &= self.label(requirement.key).match_requirement(requirement)
        for field in term.fields:
            named = self.match_names(field.values)
            known = is_name_field(field)
            mask &= (named if field.operator == "In" else ~named) & known
        return mask

    def match_affinity(self, rules: SchedulingRules) -> Mask:
        """Return the mask of nodes that satisfy the rules' node selector and required node
        affinity.
        """
        key = rules.node_selector, rules.node_affinity
        known = self._affinities.get(key)
        if known is None:
            known = self.every()
            for label, value in rules.node_selector:
                known &= self.label(label).match_requirement(Requirement(label, "In", (value,)))
            if rules.node_affinity is not None:
                known &= self.match_terms(rules.node_affinity)
            self._affinities[key] = known
        return known


#: Cache by identity of the node; the index keeps the node alive.
_SINGLE = Cache[int, NodeIndex](MOST_CLASSES)


@attrs.frozen(slots=True, eq=False)
class FreeCapacity:
    """Free capacity of all nodes of a node index, with an array for each resource; immutable."""

    _nodes: NodeIndex
    #: must not change any more
    free: Mapping[NodeName, Resources]
    _columns: dict[str, Ints] = attrs.field(factory=dict)

    def of(self, position: int) -> Resources:
        return self.free[self._nodes.names[position]]

    def column(self, resource: str) -> Ints:
        """Return the free capacity of each node for one resource, as an array."""
        column = self._columns.get(resource)
        if column is None:
            column = column_of(map(self.of, range(len(self._nodes))), resource)
            self._columns[resource] = column
        return column

    def short(self, requests: Resources) -> Mask:
        """Return the mask of nodes with less free capacity than requested of any resource."""
        short = np.zeros(len(self._nodes), dtype=np.bool_)
        for resource, amount in requests.items():
            if amount:
                short |= self.column(resource) < amount
        return short

    def after(self, steps: Iterable[Step]) -> Self:
        """Return a copy after arrivals and departures of pods."""
        free: dict[NodeName, Resources] = {}
        for pod, name, by in steps:
            left = free.get(name, self.free[name])
            free[name] = left - pod.requests if by > 0 else left + pod.requests
        return self.now(Map(self.free).update(free), free)

    def now(self, free: Mapping[NodeName, Resources], changed: Iterable[NodeName]) -> Self:
        """Return a copy with the current free capacity of the nodes that changed."""
        kept = self._columns if len(self._columns) <= MOST_COLUMNS else {}
        columns = {resource: column.copy() for resource, column in kept.items()}
        names = list(changed)
        at, amounts = [self._nodes.positions[n] for n in names], [free[n] for n in names]
        for resource, column in columns.items():
            column[at] = column_of(amounts, resource)
        return type(self)(self._nodes, free, columns)


@attrs.frozen(eq=False)
class NodeRows:
    """Candidate nodes for pods, in the order in which they are filled, with their free capacity."""

    index: NodeIndex
    room: FreeCapacity
    #: N
    positions: Positions

    @classmethod
    def of(cls, nodes: Iterable[Node], free: Mapping[NodeName, Resources]) -> Self:
        """Index the given nodes with their free capacity, keeping the given order."""
        listed = list(nodes)
        index = NodeIndex.of(listed)
        positions = [index.positions[node.name] for node in listed]
        return cls(index, FreeCapacity(index, free), np.array(positions, dtype=np.intp))

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        nodes = self.index.nodes
        return tuple([nodes[position] for position in self.positions.tolist()])

    @cached_property
    def mask(self) -> Mask:
        """Mask of the selected nodes over all nodes of the node index."""
        mask = self.index.none()
        mask[self.positions] = True
        return mask

    def only(self, chosen: Mask) -> Self:
        """Return the candidate nodes that are also within a mask over the node index."""
        return type(self)(self.index, self.room, self.positions[chosen[self.positions]])

    def free(self, axes: Sequence[str]) -> Ints:
        """Return the free capacity of the selected nodes, shape (nodes, resources); negative
        capacity counts as zero.
        """
        return self._column_matrix([self.room.column(axis) for axis in axes])

    def allocatable(self, axes: Sequence[str]) -> Ints:
        """Return the allocatable capacity of the selected nodes, shape (nodes, resources)."""
        return self._column_matrix([self.index.size(axis) for axis in axes])

    def _column_matrix(self, columns: Iterable[Ints]) -> Ints:
        chosen = [column[self.positions] for column in columns]
        # One resource's amounts lie together: sums and comparisons over nodes are faster.
        return np.minimum(np.maximum(np.array(chosen), 0), MOST_OF_A_NODE).T

    def __add__(self, others: Self) -> Self:
        """Return the selection followed by another selection of the same node index."""
        positions = np.concatenate((self.positions, others.positions))
        return type(self)(self.index, self.room, positions) if len(others.positions) else self
