"""How long requests take that share pods, which share nodes: a model, and nothing measured.

A busy pod gets as much of a processor as its limit says, or an equal share of its node's where more
are busy there than that suffices for; its requests share that equally. A client asks again as soon
as it is answered, over a connection that stays on its pod, so each pod has as many requests at any
time as it has connections. Hence nothing changes but when a connection does, and between two such
moments each request is worked on at a constant speed: all of it is exact.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping

import attrs

from kubedsm.model.model import NodeName, Uid
from kubedsm_lab.baselines.in_turn import pick
from loadgen.recovery import Window


@attrs.frozen
class Processors:
    """Cores: of a node, and of a pod at most."""

    node: float = 2.0
    limit: float = 0.5

    def shares(self, busy: Mapping[Uid, NodeName]) -> dict[Uid, float]:
        """What each of the busy pods gets, which are on these nodes."""
        on_node = Counter(busy.values())
        return {uid: min(self.limit, self.node / on_node[node]) for uid, node in busy.items()}


@attrs.define
class _Client:
    #: at the other end of its connection; None: there is none that it could go to
    pod: Uid | None
    #: of its request: since when it waits for the answer, and core-seconds that are left
    since: float
    left: float


@attrs.define
class ClosedLoop:
    """Clients, each with one request at any time. Times are seconds, and never go back."""

    #: core-seconds of a request
    demand: float
    #: after which a request is given up, which is an error
    timeout: float
    processors: Processors = Processors()
    #: core-seconds that each pod has used so far
    used: dict[Uid, float] = attrs.field(factory=dict, init=False)
    _now: float = attrs.field(default=0.0, init=False)
    _nodes: Mapping[Uid, NodeName] = attrs.field(factory=dict, init=False)
    _clients: list[_Client] = attrs.field(factory=list, init=False)
    #: chance for where connections go
    _rng: random.Random = attrs.field(factory=random.Random, init=False)
    #: what came of requests since the clients began
    _began: float = attrs.field(default=0.0, init=False)
    _latencies: list[float] = attrs.field(factory=list, init=False)
    _lost: int = attrs.field(default=0, init=False)
    _given_up: int = attrs.field(default=0, init=False)

    def begin(self, clients: int, rng: random.Random, now: float) -> None:
        """So many connect, in place of all there were, whose requests end with them."""
        self.advance(now)
        self._rng, self._began = rng, now
        self._latencies, self._lost, self._given_up = [], 0, 0
        self._clients = [_Client(self._drawn(), now, self.demand) for _ in range(clients)]

    def window(self, now: float) -> Window:
        """What there was since they began."""
        self.advance(now)
        requests = len(self._latencies) + self._lost
        errors = self._lost + self._given_up
        return Window.of(self._began, now - self._began, requests, self._latencies, errors)

    def have(self, nodes: Mapping[Uid, NodeName], now: float) -> None:
        """From now on these pods are there. Requests at others are lost, which is an error."""
        self.advance(now)
        self._nodes = nodes
        for each in self._clients:
            if each.pod is None:
                each.pod = self._drawn()
            elif each.pod not in nodes:
                self._lost += 1
                each.pod, each.since, each.left = self._drawn(), now, self.demand

    def advance(self, until: float) -> None:
        """Let it be that time."""
        requests = Counter(each.pod for each in self._clients if each.pod is not None)
        shares = self.processors.shares({uid: self._nodes[uid] for uid in requests})
        for uid, share in shares.items():
            self.used[uid] = self.used.get(uid, 0.0) + share * (until - self._now)
        for each in self._clients:
            speed = 0.0 if each.pod is None else shares[each.pod] / requests[each.pod]
            self._work(each, speed, until)
        self._now = until

    def _drawn(self) -> Uid | None:
        return pick(self._rng, list(self._nodes)) if self._nodes else None

    def _work(self, client: _Client, speed: float, until: float) -> None:
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
