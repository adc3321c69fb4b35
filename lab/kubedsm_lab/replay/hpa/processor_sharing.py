"""Processor-sharing model of service times: requests share a pod's CPU, and pods share a node's
CPU.

A busy pod has its CPU limit, or an equal share of an overloaded node. The requests of a pod share
the pod's CPU equally. A client sends its next request after the response, over a connection to a
fixed pod. Requests of a pod therefore equal its connections, and service speed is constant between
two changes of connections: the model is exact.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping

import attrs

from kubedsm.model.model import NodeName, Uid
from kubedsm_lab.baselines.in_turn import pick
from loadgen.recovery import Window


@attrs.define
class _Client:
    #: other end of the connection; None if no pod is Ready
    pod: Uid | None
    #: start of the request, and core-seconds that it still needs
    since: float
    left: float


@attrs.define
class ClosedLoop:
    """Model of closed-loop clients, each with one request in flight at any time.

    Times are seconds, and never decrease.
    """

    #: core-seconds of a request
    demand: float
    #: seconds after which a client gives up, which is an error
    timeout: float
    #: cores of each node, and CPU limit of each pod in cores
    node: float = 2.0
    limit: float = 0.5
    #: core-seconds used by each pod
    used: dict[Uid, float] = attrs.field(factory=dict, init=False)
    _now: float = attrs.field(default=0.0, init=False)
    _nodes: Mapping[Uid, NodeName] = attrs.field(factory=dict, init=False)
    _clients: list[_Client] = attrs.field(factory=list, init=False)
    #: draws the pod of each connection
    _rng: random.Random = attrs.field(factory=random.Random, init=False)
    #: results since the clients began
    _began: float = attrs.field(default=0.0, init=False)
    _latencies: list[float] = attrs.field(factory=list, init=False)
    _lost: int = attrs.field(default=0, init=False)
    _given_up: int = attrs.field(default=0, init=False)

    def begin(self, clients: int, rng: random.Random, now: float) -> None:
        """Connect `clients` new clients and start a measurement; the previous clients' requests are
        discarded.
        """
        self.advance(now)
        self._rng, self._began = rng, now
        self._latencies, self._lost, self._given_up = [], 0, 0
        self._clients = [_Client(self._draw_pod(), now, self.demand) for _ in range(clients)]

    def window(self, now: float) -> Window:
        """Return requests, errors and p99 latency since `begin` as a measurement window."""
        self.advance(now)
        requests = len(self._latencies) + self._lost
        errors = self._lost + self._given_up
        return Window.of(self._began, now - self._began, requests, self._latencies, errors)

    def have(self, nodes: Mapping[Uid, NodeName], now: float) -> None:
        """Set the Ready pods and their nodes; requests in progress at removed pods fail."""
        self.advance(now)
        self._nodes = nodes
        for each in self._clients:
            if each.pod is None:
                each.pod = self._draw_pod()
            elif each.pod not in nodes:
                self._lost += 1
                each.pod, each.since, each.left = self._draw_pod(), now, self.demand

    def advance(self, until: float) -> None:
        """Simulate the clients' requests until the given time in seconds."""
        requests = Counter(each.pod for each in self._clients if each.pod is not None)
        busy = Counter(self._nodes[uid] for uid in requests)
        shares = {uid: min(self.limit, self.node / busy[self._nodes[uid]]) for uid in requests}
        for uid, share in shares.items():
            self.used[uid] = self.used.get(uid, 0.0) + share * (until - self._now)
        for each in self._clients:
            speed = 0.0 if each.pod is None else shares[each.pod] / requests[each.pod]
            self._serve_client(each, speed, until)
        self._now = until

    def _draw_pod(self) -> Uid | None:
        return pick(self._rng, list(self._nodes)) if self._nodes else None

    def _serve_client(self, client: _Client, speed: float, until: float) -> None:
        now = self._now
        while True:
            answered = now + client.left / speed if speed else math.inf
            ends = min(answered, client.since + self.timeout)
            if ends > until:
                break
            self._latencies.append(ends - client.since)
            self._given_up += ends < answered
            now = client.since = ends
            client.left = self.demand
        client.left -= speed * (until - now)
