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

In the closed loop (`BlockingClient`) a service has one client, which waits for each response: no
request queues, and slow responses lower the request rate.
"""

import itertools
import math
import random
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.config.sections import Latency
from kubedsm.model.model import Tier
from kubedsm_lab.replay.timeline import Span, Timeline
from loadgen.scenario import Api

Floats = NDArray[np.float64]

_ROUNDING = 1e-9
#: seconds over which a closed loop's request rate is measured: a sync period of the autoscaler
_RATE_WINDOW = 15.0


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


def list_endpoints(timeline: Timeline, service: str, latency: Latency) -> list[Endpoint]:
    """Return the pods of a service that have been Ready, as endpoints in seconds of the scenario.

    Pods that are Ready at the end stay Ready for the last requests.
    """
    return [
        Endpoint(
            latency.edge if life.tier is Tier.EDGE else latency.cloud,
            tuple((a, math.inf if b >= timeline.end else b) for a, b in life.served),
        )
        for life in timeline.lives
        if life.service == service and life.served
    ]


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


class BlockingClient:
    """Closed-loop client of one service, as DrStress: at most one request per period, and none
    before the response to the previous one.

    The first request of an interval is due one period after its start; an interval starts when the
    previous one has ended and its last response has arrived. Without an endpoint the client waits
    for the first that becomes Ready.
    """

    def __init__(self, api: Api, server: Server, rng: random.Random) -> None:
        """Create the client; the rng is asked for one draw per request, in order."""
        self._intervals = iter(api.intervals)
        self._service_time = server.service_time
        self._rng = rng
        self._draws: list[float] = []
        #: parts of the requests so far: beginnings, times and the network's part of the times
        self._parts: list[tuple[Floats, Floats, Floats]] = []
        self._period = 0.0
        #: end of the interval, next request, end of the last response
        self._end = self._due = self._answered = 0.0

    def measure_rate(self, now: float, endpoints: Sequence[Endpoint]) -> float:
        """Return the requests per second sent lately, up to `now`: what an autoscaler measures."""
        self._advance(now, endpoints)
        recent = itertools.takewhile(
            lambda part: part[0][-1] > now - _RATE_WINDOW, reversed(self._parts)
        )
        return sum(int((part[0] > now - _RATE_WINDOW).sum()) for part in recent) / _RATE_WINDOW

    def answers(self, end: float, endpoints: Sequence[Endpoint]) -> Responses:
        """Return the responses to all requests sent before `end`."""
        blocked = self._advance(end, endpoints)
        nothing = np.zeros(0)
        _, times, network = (
            np.concatenate([nothing, *arrays])
            for arrays in (zip(*self._parts, strict=True) if self._parts else ((), (), ()))
        )
        if blocked:
            times = np.append(times, end - self._due)
            network = np.append(network, 0.0)
        return Responses(times, network, int(blocked))

    def _advance(self, until: float, endpoints: Sequence[Endpoint]) -> bool:
        """Send the requests that begin before `until`; return whether the client waits for an
        endpoint then.
        """
        moments = sorted({moment for each in endpoints for span in each.served for moment in span})
        while self._begin_interval() and self._due < until:
            ready = [e for e in endpoints if any(a <= self._due < b for a, b in e.served)]
            if ready:
                at = np.searchsorted(moments, self._due, side="right")
                self._send(ready, min(until, self._end, *moments[at : at + 1]))
                continue
            entered = min(
                (a for e in endpoints for a, _ in e.served if a > self._due), default=math.inf
            )
            if entered >= until:
                return True
            ready = [e for e in endpoints if any(a == entered for a, _ in e.served)]
            self._send_late(ready, entered)
        return False

    def _begin_interval(self) -> bool:
        """Begin further intervals until one has a request left; return False after the last one."""
        while self._due >= self._end:
            interval = next(self._intervals, None)
            if interval is None:
                return False
            begin = max(self._end, self._answered)
            self._period = interval.api_call_period / 1000
            self._end, self._due = begin + interval.cycle_length / 1000, begin + self._period
        return True

    def _send(self, ready: Sequence[Endpoint], stop: float) -> None:
        """Send requests from the due one on, while they begin before `stop`."""
        most = math.ceil((stop - self._due) / self._period) + 1
        network = self._choose_networks(ready, most)
        times = network + self._service_time
        begun = self._due + np.concatenate(([0.0], np.cumsum(np.maximum(self._period, times))))
        count = int(np.searchsorted(begun[:most], stop, side="left"))
        self._record(begun[:count], times[:count], network[:count])
        self._due = float(begun[count])

    def _send_late(self, ready: Sequence[Endpoint], entered: float) -> None:
        """Send the due request to endpoints that become Ready at `entered`, after it."""
        network = self._choose_networks(ready, 1)
        times = network + (entered - self._due + self._service_time)
        self._record(np.array([self._due]), times, network)
        self._due = max(self._due + self._period, self._answered)

    def _choose_networks(self, ready: Sequence[Endpoint], number: int) -> Floats:
        """Return the network times in seconds of the next requests, each to an endpoint drawn
        uniformly.
        """
        self._draws += [self._rng.random() for _ in range(number - len(self._draws))]
        chosen = (np.array(self._draws[:number]) * len(ready)).astype(np.int64)
        return np.array([endpoint.network for endpoint in ready])[chosen]

    def _record(self, begun: Floats, times: Floats, network: Floats) -> None:
        self._parts.append((begun, times, network))
        self._answered = float(begun[-1] + times[-1])
        del self._draws[: len(begun)]
