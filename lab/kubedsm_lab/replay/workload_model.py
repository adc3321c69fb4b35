"""Workload model: response latencies of a service, computed from the run's Ready pods.

The scenario determines the arrivals, independently of response latencies. Each request goes to one
of the Ready endpoints at that moment, drawn uniformly as by kube-proxy's iptables rules, and stays
there. A pod serves up to `concurrency` requests simultaneously, each for `service_time`, first come
first served; other requests queue. The network takes tE or tC, by the tier of the pod's node.
Without an endpoint a client retries, so the request reaches the first endpoint that becomes Ready.
A terminating pod finishes all accepted requests.

All requests take equally long, so the i-th request of a pod follows the (i - c)-th on the same
server. Each of the c servers therefore has a separate queue, for which Lindley's recursion (finish
= max(arrival, previous finish) + service) is a running maximum over whole arrays.
"""

import random
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm_lab.replay.timeline import Span
from loadgen.scenario import Api

Floats = NDArray[np.float64]

_ROUNDING = 1e-9


@attrs.frozen
class Endpoint:
    """Pod from the clients' point of view: network round trip and Ready intervals, in seconds."""

    #: round trip, seconds
    network: float
    #: times of readiness, seconds
    served: tuple[Span, ...]


@attrs.frozen
class Server:
    """Serving capacity of each pod of a service: concurrency and service time."""

    #: concurrent requests
    concurrency: int
    #: seconds per request
    service_time: float


@attrs.frozen(eq=False)
class Responses:
    """Response latencies of a service's requests in seconds, in the order of their due times."""

    times: Floats
    #: network's part of the times
    network: Floats
    #: requests without an endpoint until `end`, where their times end
    unanswered: int


def due_times(api: Api) -> Floats:
    """Return the times in seconds at which the scenario sends requests to a service, as an array.

    The first request of an interval is due after one period.
    """
    parts = []
    start = 0.0
    for interval in api.intervals:
        number = int(interval.cycle_length / interval.api_call_period + _ROUNDING)
        parts.append(start + interval.api_call_period / 1000 * np.arange(1, number + 1))
        start += interval.cycle_length / 1000
    return np.concatenate(parts)


def respond(
    due: Floats, endpoints: Sequence[Endpoint], server: Server, end: float, rng: random.Random
) -> Responses:
    """Compute the responses to requests due at `due`, an array of N ascending times in seconds.

    Consumes one draw of the rng per request.
    """
    draws = np.array([rng.random() for _ in range(len(due))])
    chosen, entered = _choose_endpoints(due, endpoints, draws)
    times = np.maximum(end - due, 0.0)
    network = np.zeros(len(due))
    for index, endpoint in enumerate(endpoints):
        mine = np.flatnonzero(chosen == index)
        if not len(mine):
            continue
        reached = entered[mine] + endpoint.network / 2
        times[mine] = _finish_times(reached, server) + endpoint.network / 2 - due[mine]
        network[mine] = endpoint.network
    return Responses(times, network, int((chosen < 0).sum()))


def _choose_endpoints(
    due: Floats, endpoints: Sequence[Endpoint], draws: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """Return, for each request, the index of its pod (-1 for none) and the time in seconds at which
    the request is sent to the pod.
    """
    chosen = np.full(len(due), -1, dtype=np.int64)
    entered = due.copy()
    moments = sorted({moment for e in endpoints for span in e.served for moment in span})
    ends = [*np.searchsorted(due, moments[1:], side="left").tolist(), len(due)]
    first = 0
    for moment, last in zip(moments, ends, strict=False):
        ready = [i for i, e in enumerate(endpoints) if any(a <= moment < b for a, b in e.served)]
        if not ready or last == first:
            continue
        # Includes requests that found no pod before: they enter when one is Ready.
        here = slice(first, last)
        entered[here] = np.maximum(entered[here], moment)
        chosen[here] = np.array(ready)[(draws[here] * len(ready)).astype(np.int64)]
        first = last
    return chosen, entered


def _finish_times(reached: Floats, server: Server) -> Floats:
    """Return the times in seconds at which a pod finishes requests that arrive at
    ascending times.
    """
    finished = np.empty_like(reached)
    for one in range(min(server.concurrency, len(reached))):
        mine = slice(one, None, server.concurrency)
        queue = reached[mine]
        ahead = server.service_time * np.arange(len(queue))
        finished[mine] = np.maximum.accumulate(queue - ahead) + ahead + server.service_time
    return finished
