"""Explicit-state explorer: breadth-first search of all reachable states of a model, with invariants
checked at each transition and liveness checked on the whole graph.
"""

from array import array
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple, Protocol

import attrs
import networkx as nx


class Edge(NamedTuple):
    """Transition of a model, as its successor state and the reasons why the state is wrong."""

    label: str
    state: Any
    violations: Sequence[str] = ()
    #: a failure, which need not happen again
    fault: bool = False
    #: the clock advances to the next deadline
    tick: bool = False


class Model(Protocol):
    """Transition system with invariants."""

    @property
    def name(self) -> str: ...

    def list_initial(self) -> Iterable[Hashable]: ...

    def list_edges(self, state: Any) -> Iterator[Edge]: ...

    def is_quiet(self, state: Any) -> bool:
        """Return whether the system may rest in the state for ever."""

    def list_obligations(self, state: Any) -> Collection[str]:
        """Return the names of the processes that must not last for ever."""


@attrs.frozen
class Result:
    """Result of an exploration: size of the graph, and the first violation with its trace."""

    name: str
    states: int
    transitions: int
    violation: str = ""
    #: labels of the transitions from an initial state
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        size = f"{self.name}: {self.states:,} states, {self.transitions:,} transitions"
        if not self.violation:
            return f"{size}, no violation"
        return "\n  ".join((f"{size}, BROKEN {self.violation}", *self.trace))


_FAULT, _TICK = 1, 2


@attrs.define
class _Graph:
    """Reachable states in order of discovery, and transitions as parallel arrays of numbers."""

    numbers: dict[Any, int] = attrs.field(factory=dict)
    states: list[Any] = attrs.field(factory=list)
    parents: "array[int]" = attrs.field(factory=lambda: array("l"))
    labels: list[str] = attrs.field(factory=list)
    sources: "array[int]" = attrs.field(factory=lambda: array("l"))
    targets: "array[int]" = attrs.field(factory=lambda: array("l"))
    flags: "array[int]" = attrs.field(factory=lambda: array("b"))

    def number(self, state: Any, parent: int, label: str) -> int:
        found = self.numbers.get(state)
        if found is None:
            found = self.numbers[state] = len(self.states)
            self.states.append(state)
            self.parents.append(parent)
            self.labels.append(label)
        return found

    def trace(self, number: int) -> tuple[str, ...]:
        labels = []
        while number >= 0:
            labels.append(self.labels[number])
            number = self.parents[number]
        return tuple(reversed(labels))


def explore(model: Model) -> Result:
    """Visit all reachable states of the model; stop at the first violation.

    Liveness: from every state a quiet one is reachable without further faults, and no obligation
    lasts in a cycle in which the clock advances.
    """
    graph = _Graph()
    for state in model.list_initial():
        graph.number(state, -1, "begin")
    source = 0
    while source < len(graph.states):
        for edge in model.list_edges(graph.states[source]):
            if edge.violations:
                trace = (*graph.trace(source), edge.label)
                return _result(model.name, graph, edge.violations[0], trace)
            target = graph.number(edge.state, source, edge.label)
            graph.sources.append(source)
            graph.targets.append(target)
            graph.flags.append(edge.fault * _FAULT | edge.tick * _TICK)
        source += 1
    for check in (_find_restless, _find_endless):
        violation, number = check(model, graph)
        if violation:
            return _result(model.name, graph, violation, graph.trace(number))
    return _result(model.name, graph)


def _result(name: str, graph: _Graph, violation: str = "", trace: Iterable[str] = ()) -> Result:
    return Result(name, len(graph.states), len(graph.sources), violation, tuple(trace))


def _find_restless(model: Model, graph: _Graph) -> tuple[str, int]:
    """Return the first state from which no quiet state is reachable without faults."""
    before: list[list[int]] = [[] for _ in graph.states]
    for source, target, flags in zip(graph.sources, graph.targets, graph.flags, strict=True):
        if not flags & _FAULT:
            before[target].append(source)
    reached = [model.is_quiet(state) for state in graph.states]
    open_states = [number for number, quiet in enumerate(reached) if quiet]
    while open_states:
        for source in before[open_states.pop()]:
            if not reached[source]:
                reached[source] = True
                open_states.append(source)
    if all(reached):
        return "", 0
    return "liveness: the system never comes to rest", reached.index(False)


def _find_endless(model: Model, graph: _Graph) -> tuple[str, int]:
    """Return an obligation that lasts in a cycle in which the clock advances, and a state of it."""
    obligations = [frozenset(model.list_obligations(state)) for state in graph.states]
    for name in sorted(frozenset[str]().union(*obligations)):
        held = [name in names for names in obligations]
        lasting = [held[s] and held[t] for s, t in zip(graph.sources, graph.targets, strict=True)]
        edges = zip(graph.sources, graph.targets, strict=True)
        components = nx.strongly_connected_components(nx.DiGraph(compress(edges, lasting)))
        component = {state: number for number, states in enumerate(components) for state in states}
        steps = zip(graph.sources, graph.targets, graph.flags, strict=True)
        for source, target, flags in compress(steps, lasting):
            if flags & _TICK and component[source] == component[target]:
                return f"liveness: {name} never ends", source
    return "", 0
