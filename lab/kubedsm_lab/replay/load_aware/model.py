"""Model of response latencies on busy nodes, for the load-aware experiment.

Utilisation of a node's resource is the demand of its pods over capacity. A visit to a service takes
its time on the service's own resource, and a tenth on each of the other three resources, each
multiplied by 1 / (1 - utilisation); swapping multiplies all by four. The result is the mean of an
exponential distribution, as in a queue with random arrivals. Sequential calls add up, and of
parallel calls the slowest counts. Each call goes to a Ready pod of the service, drawn uniformly.

A user sends a request, waits for the response, and pauses for a second: demand never exceeds
throughput. No node exceeds the utilisation `MOST`; further requests wait for admission.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import attrs
import numpy as np

from kubedsm_lab.replay.load_aware.application import (
    CAPACITY,
    ENTRY,
    NODES,
    SERVICES,
    Floats,
    Function,
    Graph,
    Resource,
    Scenario,
)

#: usable part of a resource
MOST = 0.95
#: time on each other resource as a part of the time on the own one
_OTHERS = 0.1
#: slowdown of a node that swaps
_SWAPPING = 4.0
#: seconds between an answer and the user's next request
PAUSE = 1.0
#: bisection steps for a rate
_STEPS = 16

#: by service, in the order of SERVICES: sorted indices in NODES of its Ready pods
Placement = tuple[tuple[int, ...], ...]


def visit_seconds(function: Function, used: Floats) -> Floats:
    """Return the mean seconds that one call of a microservice's function takes on each node.

    `used` is the utilisation, nodes x resources, relative to the capacity.
    """
    shares = np.full(len(CAPACITY), _OTHERS)
    shares[function.resource] = 1
    seconds = function.seconds * (shares / (1 - np.minimum(used, MOST))).sum(axis=1)
    return np.asarray(np.where(used[:, Resource.MEMORY] > 1, _SWAPPING, 1.0) * seconds)


def end_to_end(graph: Graph, visits: Mapping[str, Floats], service: str = ENTRY) -> Floats:
    """Return the end-to-end seconds of each request, computed from its seconds at each service and
    the call graph.
    """
    total = visits[service]
    for stage in graph.get(service, ()):
        total = total + np.max([end_to_end(graph, visits, callee) for callee in stage], axis=0)
    return total


@attrs.frozen(eq=False)
class Chance:
    """Random numbers for a sample of simulated requests: arrays of shape services x requests."""

    #: choice of the pod, 0..1
    pods: Floats
    #: duration of a visit relative to its mean
    times: Floats

    @classmethod
    def of(cls, rng: np.random.Generator, requests: int) -> "Chance":
        size = (len(SERVICES), requests)
        return cls(rng.random(size), -np.log1p(-rng.random(size)))


@attrs.frozen(eq=False)
class Traffic:
    """Model of user traffic under one placement of the pods: request rate, resource consumption of
    nodes, and latencies.
    """

    graph: Graph
    scenario: Scenario
    placement: Placement
    users: int
    #: draws for the mean response latency, on which the rate depends
    chance: Chance

    @cached_property
    def rate(self) -> float:
        """Return the requests per second that the users cause and the nodes can serve.

        The rate is 0 if a service has no pod.
        """
        if not all(self.placement):
            return 0.0
        busiest = (self._asked / CAPACITY).max()
        most = min(self.users / PAUSE, MOST / float(busiest))
        if self._users_at(most) <= self.users:
            return most
        least = 0.0
        for _ in range(_STEPS):
            rate = (least + most) / 2
            if self._users_at(rate) <= self.users:
                least = rate
            else:
                most = rate
        return least

    @cached_property
    def waiting(self) -> float:
        """Return the seconds that a request waits at the overloaded application before being
        admitted.
        """
        return max(0.0, (self.users - self._users_at(self.rate)) / self.rate) if self.rate else 0.0

    @cached_property
    def used(self) -> Floats:
        """Return the consumption as an array of nodes x resources, in units of CAPACITY."""
        return self._held + self.rate * self._asked

    @cached_property
    def of_pods(self) -> dict[str, Floats]:
        """Return the consumption of each pod of a service, in units of CAPACITY."""
        functions = zip(SERVICES, self.placement, self.scenario.of_services, strict=True)
        return {
            service: function.held + self.rate / len(nodes) * function.asked
            for service, nodes, function in functions
            if nodes
        }

    def seconds(self, chance: Chance) -> Floats:
        """Return the end-to-end seconds of each request in a sample, waiting included."""
        return self.waiting + self._draw_seconds(self.rate, chance)

    def _users_at(self, rate: float) -> float:
        """Return the number of users who together cause the given request rate, if no request waits
        for admission.
        """
        return rate * (PAUSE + float(self._draw_seconds(rate, self.chance).mean()))

    def _draw_seconds(self, rate: float, chance: Chance) -> Floats:
        used = (self._held + rate * self._asked) / CAPACITY
        means = {each: visit_seconds(each, used) for each in self.scenario.functions}
        visits = {}
        for at, function in enumerate(self.scenario.of_services):
            nodes = np.array(self.placement[at])
            drawn = nodes[(chance.pods[at] * len(nodes)).astype(np.int64)]
            visits[SERVICES[at]] = means[function][drawn] * chance.times[at]
        return end_to_end(self.graph, visits)

    @cached_property
    def _held(self) -> Floats:
        """Return the pods' constant consumption, nodes x resources, in units of CAPACITY."""
        return self._sum_by_node([each.held for each in self.scenario.of_services])

    @cached_property
    def _asked(self) -> Floats:
        """Return the consumption of one user request as an array of nodes x resources, in units of
        CAPACITY times seconds.
        """
        parts = zip(self.scenario.of_services, self.placement, strict=True)
        return self._sum_by_node([each.asked / max(1, len(nodes)) for each, nodes in parts])

    def _sum_by_node(self, of_pods: Sequence[Floats]) -> Floats:
        found = np.zeros((len(NODES), len(CAPACITY)))
        for nodes, amounts in zip(self.placement, of_pods, strict=True):
            for node in nodes:
                found[node] += amounts
        return found
