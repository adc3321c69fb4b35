"""Requests by place of the pod that serves them, and the most requests that can be served near.

A service has n Ready pods and requests at rate R. Each pod serves R / n: requests of its own site
first, then those that other sites cannot serve, which use the edge before the cloud (transportation
problem). kube-proxy's `PreferSameZone` deviates: a site with any pod serves all of its requests,
however few pods there are. `count_overload` has the requests that pods beyond their capacity get.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.model.model import Node, NodeName, Pod
from kubedsm.optimizer.programming.programme import Rows
from kubedsm.solvers.available import solver_of
from kubedsm_lab.replay.sites.city import Ints
from kubedsm_lab.replay.sites.demand import HOUR, SERVICES, Demand
from kubedsm_lab.replay.timeline import Timeline

#: units per request/s: a programme's coefficients are integers
_UNITS = 1000
#: seconds of the solver per programme; the optimum is its upper bound
_SECONDS = 5.0


@attrs.frozen(eq=False)
class Stretch:
    """Interval without change of demand or Ready pods."""

    seconds: float
    hour: int
    #: Ready pods by service and site, W x S
    pods: Ints
    #: Ready pods of each service, with the cloud's
    totals: Ints


def split_timeline(
    timeline: Timeline, site_of: Mapping[NodeName, int], sites: int
) -> Iterator[Stretch]:
    """Yield the intervals of the day between changes of demand or of Ready pods."""
    names = [service.name for service in SERVICES]
    changes = timeline.changes(0.0)
    hours = np.arange(0.0, timeline.end, HOUR).tolist()
    moments = sorted({*changes, *hours, timeline.end})
    pods = np.zeros((len(names), sites), dtype=np.int64)
    totals = np.zeros(len(names), dtype=np.int64)
    for moment, until in itertools.pairwise(moments):
        for life, more in changes.get(moment, ()):
            service = names.index(life.service)
            totals[service] += more
            site = None if life.node is None else site_of.get(life.node)
            if site is not None:
                pods[service, site] += more
        yield Stretch(until - moment, int(moment / HOUR), pods.copy(), totals.copy())


@attrs.frozen
class Served:
    """Requests/s by place of the pods: the users' own site, another site, and the cloud."""

    near: float
    elsewhere: float
    cloud: float


def serve_requests(demand: Demand, stretch: Stretch) -> Served:
    """Solve the transportation problem: requests/s of all services by place of their pods.

    Requests of a service without Ready pods count as served by the cloud.
    """
    rates = demand.rates[:, :, stretch.hour]
    loads = rates.sum(axis=1) / np.maximum(1, stretch.totals)
    held = stretch.pods * loads[:, None]
    near, edge = float(np.minimum(rates, held).sum()), float(held.sum())
    return Served(near, edge - near, float(rates.sum()) - edge)


def count_overload(demand: Demand, stretch: Stretch) -> float:
    """Return the requests/s that reach pods loaded beyond their capacity under `PreferSameZone`."""
    rates, pods = demand.rates[:, :, stretch.hour], stretch.pods
    capacity = np.array([1 / service.server.service_time for service in SERVICES])
    # Requests of sites without pods are spread evenly over all pods.
    lone = np.where(pods == 0, rates, 0).sum(axis=1) / np.maximum(1, stretch.totals)
    each = rates / np.maximum(1, pods) + lone[:, None]
    overloaded = (pods > 0) & (each > capacity[:, None])
    return float((each * pods)[overloaded].sum())


@attrs.frozen(eq=False)
class Clairvoyant:
    """Solver for the most requests/s that equally many pods can serve at their own site.

    An integer programme: pods by service and node within allocatable CPU and memory, each with the
    gain of the next request of its site; migrations are free. Results are cached.
    """

    demand: Demand
    nodes: Sequence[Node]
    samples: Mapping[str, Pod]
    site_of: Mapping[NodeName, int]
    _known: dict[tuple[int, bytes], float] = attrs.field(factory=dict)

    def bound(self, stretch: Stretch) -> float:
        """Return an upper bound on the requests/s served at their own site."""
        key = stretch.hour, stretch.totals.tobytes()
        if key not in self._known:
            self._known[key] = self._solve(stretch)
        return self._known[key]

    def bound_edge(self, stretch: Stretch) -> float:
        """Return an upper bound on the requests/s served at the edge: pods with the most requests
        per core first, until all CPU is used (fractional knapsack).
        """
        rates = self.demand.rates[:, :, stretch.hour].sum(axis=1)
        sizes = np.array([self.samples[service.name].requests.cpu for service in SERVICES])
        left, served = float(sum(node.allocatable.cpu for node in self.nodes)), 0.0
        for service in np.argsort(-rates / np.maximum(1, stretch.totals) / sizes).tolist():
            part = min(1.0, left / max(1, stretch.totals[service] * sizes[service]))
            left -= part * float(stretch.totals[service] * sizes[service])
            served += part * float(rates[service])
        return served

    def _solve(self, stretch: Stretch) -> float:
        rows, goal = Rows(), list[int]()
        rates = self.demand.rates[:, :, stretch.hour]
        loads = rates.sum(axis=1) / np.maximum(1, stretch.totals)
        placed = rows.variables(np.repeat(stretch.totals[:, None], len(self.nodes), axis=1))
        goal += [0] * placed.size
        for service, number in enumerate(stretch.totals.tolist()):
            rows.add((placed[service], 1), most=number)
            if not loads[service]:
                continue
            for site in range(rates.shape[1]):
                here = [i for i, node in enumerate(self.nodes) if self.site_of[node.name] == site]
                full = int(rates[service, site] / loads[service])
                rest = float(rates[service, site] - full * loads[service])
                gains = rows.variables([min(full, number), 1])
                goal += [round(_UNITS * loads[service]), round(_UNITS * rest)]
                rows.add((gains, 1), (placed[service, here], -1), most=0)
        requests = [self.samples[service.name].requests for service in SERVICES]
        for index, node in enumerate(self.nodes):
            for resource in ("cpu", "memory", "pods"):
                amounts = [getattr(each, resource) for each in requests]
                rows.add((placed[:, index], amounts), most=getattr(node.allocatable, resource))
        solver = solver_of("highs", _SECONDS)
        if solver is None:
            raise ModuleNotFoundError("highspy")
        solved = solver.maximise(rows.programme(), np.array(goal), NO_DEADLINE)
        whole = int(_UNITS * rates.sum())
        return min(whole, whole if solved.bound is None else solved.bound) / _UNITS
