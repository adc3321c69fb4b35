"""Scripted API server in virtual time, for tests of reflectors."""

import asyncio
import contextlib
import json
import random

import attrs

from kubedsm.kube.client.port import (
    Expired,
    Forbidden,
    Response,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from kubedsm.kube.watching.reflector import Reflector, ReflectorStatistics
from kubedsm.kube.wire.decoding import PODS
from kubedsm.model.events import (
    HistoryRewound,
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
)
from kubedsm_lab.replay.virtual_time import VirtualClock

FOREVER = 1e9
EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


def pod(name, version, uid=None, **spec):
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        },
        "spec": spec,
    }


def listed(version, *items, more=""):
    body = {"metadata": {"resourceVersion": str(version), "continue": more}, "items": items}
    return Response(200, json.dumps(body).encode())


def line(kind, obj):
    return json.dumps({"type": kind, "object": obj}).encode()


def bookmark(version):
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    return line("BOOKMARK", {"kind": "Pod", "metadata": metadata, "spec": {"containers": None}})


@attrs.frozen
class Stream:
    """Script of a watch: lines to send, pauses in seconds, exceptions; then the server ends it."""

    steps: tuple = ()
    opens_after: float = 0.0
    refusal: Exception | None = None


def stream(*steps):
    return Stream(steps)


@attrs.frozen
class Asked:
    at: float
    query: dict

    @property
    def watches(self):
        return "watch" in self.query

    @property
    def version(self):
        return self.query["resourceVersion"]


class ScriptedCluster:
    """Fake `Cluster` that answers the n-th request by the n-th step, and no later one."""

    def __init__(self, clock, steps):
        self.clock = clock
        self.steps = list(steps)
        self.asked = []

    def _next(self, request, *, watches):
        self.asked.append(Asked(self.clock.monotonic(), dict(request.query)))
        step = self.steps.pop(0) if self.steps else stream(FOREVER)
        assert watches == ("watch" in request.query)
        if isinstance(step, Exception):
            raise step
        assert isinstance(step, Stream) == watches, f"{request} is not what the script expects"
        return step

    async def request(self, request, *, timeout):
        assert timeout > 0
        return self._next(request, watches=False)

    @contextlib.asynccontextmanager
    async def stream(self, request, *, timeout):
        assert timeout > 0
        step = self._next(request, watches=True)
        await self.clock.sleep(step.opens_after)
        if step.refusal is not None:
            raise step.refusal
        yield self._lines(step)

    async def _lines(self, script):
        for step in script.steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                yield step
            else:
                await self.clock.sleep(step)


@attrs.frozen
class Played:
    told: list
    reports: list
    asked: list
    statistics: ReflectorStatistics
    #: how many events had been told when it was synced, for each time it was
    synced: list

    @property
    def watches(self):
        return [asked for asked in self.asked if asked.watches]

    @property
    def lists(self):
        return [asked for asked in self.asked if not asked.watches]


def told(event):
    """Return an event as text: + for an applied object, - for a deleted one."""
    match event:
        case PodApplied(pod):
            return f"+{pod.name}@{pod.resource_version}"
        case PodDeleted(uid, _, name):
            return f"-{name}:{uid}"
        case SurroundingApplied(thing):
            return f"+{thing.name}@{thing.resource_version}"
        case HistoryRewound():
            return "rewound"
        case NodeApplied(applied):
            return f"+{applied.name}"
        case NodeDeleted(name):
            return f"-{name}"


async def play(*steps, seconds=200.0, watched=PODS, seed=1):
    clock = VirtualClock()
    cluster = ScriptedCluster(clock, steps)
    events, reports, synced = [], [], []
    reflector = Reflector(
        cluster,
        watched,
        clock,
        random.Random(seed),
        events.append,
        lambda: synced.append(len(events)),
        reports.append,
    )
    running = asyncio.create_task(reflector.run())
    await asyncio.wait([running], timeout=seconds)
    if running.done():
        running.result()
    statistics, reported = reflector.statistics, list(reports)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return Played([told(event) for event in events], reported, cluster.asked, statistics, synced)


def refusal(status, reason, causes=()):
    kinds = {401: Unauthorized, 403: Forbidden, 429: TooManyRequests}
    if status == 410:
        return Expired(status, reason, "too old")
    return kinds.get(status, ServerError)(status, reason, "no", causes)
