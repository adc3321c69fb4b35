"""What an event costs while very many pods wait in vain, and what is written about these pods.

The first beside asking every waiting pod at each event; both must wake the same. The second in
virtual time, on an emulated cluster: writes a minute while nothing helpful happens.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.config.settings import load
from kubedsm.kube.client.port import Request
from kubedsm.model.events import ClusterEvent, NodeApplied, PodApplied, PodDeleted
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod, Resources, Tier, Workload
from kubedsm.process.clock import SystemClock, VirtualClock
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.instances import MI, DisagreementError
from kubedsm_lab.bench.literal.queueing import LiteralQueue
from kubedsm_lab.bench.telling import figure, many, span, times_as_long
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import run_in_virtual_time

FIT = frozenset({"NodeResourcesFit"})
#: millicores that are free on a node, and what passers-by take
_PASSER = 100
_EDGE = (Tier.EDGE, Resources(_PASSER, 64 * 1024 * MI, 110))
#: events of which the literal form is asked: all would take minutes
_SAMPLE = 40
#: seconds of virtual time between two passers-by
_PAUSE = 5.0


@attrs.frozen
class QueueResult:
    """Microseconds of one core per event; writes while nothing helpful happened."""

    pods: int
    classes: int
    nodes: int
    events: int
    event_us: float
    literal_us: float
    #: events of which the literal form was asked
    literal_events: int
    minutes: int
    #: of all pods, when they were first told why they wait
    told: int
    writes: Counter[str]

    def as_json(self) -> dict[str, Any]:
        return {
            "pods": self.pods,
            "classes": self.classes,
            "nodes": self.nodes,
            "events": self.events,
            "eventUs": round(self.event_us, 2),
            "everyPodAskedUs": round(self.literal_us, 1),
            "everyPodAskedEvents": self.literal_events,
            "ratio": round(self.literal_us / self.event_us, 1),
            "firstWrites": self.told,
            "writesPerMinute": {
                kind: round(count / self.minutes, 1) for kind, count in self.writes.items()
            },
        }

    @property
    def sentences(self) -> list[str]:
        a_minute = ", ".join(
            f"{figure(count / self.minutes)} {kind}" for kind, count in self.writes.items()
        )
        return [
            (
                f"While {many(self.pods, 'pod')} of {many(self.classes, 'class')} wait in vain on"
                f" {many(self.nodes, 'node')}, an event takes {span(self.event_us / 1e6)} of CPU,"
                f" the mean of {self.events:,}; with asking each of them"
                f" {span(self.literal_us / 1e6)}, the mean of {self.literal_events:,} of these"
                f" events: {times_as_long(self.literal_us / self.event_us)}."
            ),
            (
                f"To tell these pods why they wait takes {many(self.told, 'write')}, and in"
                f" {many(self.minutes, 'minute')} after, in which nothing helps them,"
                f" {a_minute or 'none'} a minute; on an emulated cluster in virtual time, and"
                " nothing was run beside it."
            ),
        ]


def run(
    *, pods: int = 5000, classes: int = 10, nodes: int = 1000, events: int = 4000, minutes: int = 10
) -> QueueResult:
    """Raises DisagreementError if the two sides wake different pods."""
    event_us, literal_us, asked = asyncio.run(_costs(pods, classes, nodes, events))
    told, writes = run_in_virtual_time(_writes(pods, classes, minutes))
    return QueueResult(
        pods, classes, nodes, events, event_us, literal_us, asked, minutes, told.total(), writes
    )


def _waiting(pods: int, classes: int) -> list[Pod]:
    return [
        instances.pod(
            f"waiting-{index}",
            Workload("shop", "Deployment", f"app-{index % classes}"),
            Resources(2 * _PASSER + index % classes, 100 * MI, 1),
            created=float(index),
            labels={"app": f"app-{index % classes}", "apps.kubernetes.io/pod-index": str(index)},
        )
        for index in range(pods)
    ]


def _passing(nodes: int, events: int) -> Iterator[ClusterEvent]:
    """Pods of another scheduler that are made, bound, run and are gone; none of them helps."""
    for index in range(events // 4):
        made = attrs.evolve(
            instances.pod(
                f"passer-{index}", Workload("shop", "Job", "passer"), Resources(_PASSER, MI, 1)
            ),
            scheduler_name="other",
        )
        bound = attrs.evolve(made, node_name=instances.node(f"n{index % nodes}", *_EDGE).name)
        yield PodApplied(made)
        yield PodApplied(bound)
        yield PodApplied(attrs.evolve(bound, phase="Running", ready=True))
        yield PodDeleted(made.uid, made.namespace, made.name)


async def _costs(pods: int, classes: int, nodes: int, events: int) -> tuple[float, float, int]:
    """Microseconds of an event, and of asking every pod; at how many events that was done."""
    mirror = ClusterMirror()
    queue, literal = SchedulingQueue(SystemClock(), random.Random(0)), LiteralQueue()
    for index in range(nodes):
        mirror.apply(NodeApplied(instances.node(f"n{index}", *_EDGE)))
    for pod in _waiting(pods, classes):
        mirror.apply(PodApplied(pod))
        queue.add_unschedulable(pod, FIT)
        literal.waiting[pod.uid] = pod, FIT
    ours, theirs, asked, every = 0.0, 0.0, 0, max(1, events // _SAMPLE)
    for index, event in enumerate(_passing(nodes, events)):
        change = mirror.apply(event)
        began = time.process_time()
        queue.observe(change, mirror)
        ours += time.process_time() - began
        if index % (every | 1) == 0:  # odd, so that all kinds of events are met
            began = time.process_time()
            woken = literal.helped(change, mirror)
            theirs, asked = theirs + time.process_time() - began, asked + 1
            if bool(woken) != bool(len(queue)):
                raise DisagreementError(f"{event} wakes {len(woken)}, or {len(queue)}")
    return 1e6 * ours / events, 1e6 * theirs / asked, asked


@attrs.define
class _Writes:
    """What is asked of the API server but reads, by method and kind."""

    seen: Counter[str] = attrs.field(factory=Counter)

    def on_request(self, request: Request) -> None:
        if request.method != "GET":
            kind = "events" if "/events" in request.path else request.path.split("/")[-1]
            self.seen[f"{request.method} {kind}"] += 1

    def on_line(self, _request: Request, _line: bytes) -> None:
        """All lines are sent as they are."""


async def _writes(pods: int, classes: int, minutes: int) -> tuple[Counter[str], Counter[str]]:
    """The first ones, and those of so many minutes after."""
    clock, rng, seen = VirtualClock(), random.Random(0), _Writes()
    spec = ClusterSpec((node("e1", "edge", "300m", "64Gi"),))
    async with EmulatedCluster(spec, clock, rng) as cluster:
        api = cluster.api
        for index in range(pods):
            api.create(
                PODS, _manifest(f"p{index}", f"{1000 + index % classes}m"), namespace="default"
            )
        front = EmulatedFront(cluster.routes, clock, faults=seen, latency=0.01)
        runtime = Runtime(front, load("{suggester: {mode: 'off'}}", "bench"), clock, rng)
        running = asyncio.ensure_future(runtime.run())
        await clock.sleep(60 + pods / 25)
        told, seen.seen = seen.seen, Counter()
        for index in range(round(60 * minutes / _PAUSE)):
            name = f"passer-{index}"
            api.create(PODS, _manifest(name, "100m", "other"), namespace="default")
            api.bind("default", name, {"target": {"kind": "Node", "name": "e1"}, "metadata": {}})
            await clock.sleep(_PAUSE)
            api.delete(PODS, "default", name, grace_seconds=0)
        running.cancel()
        await asyncio.wait([running])
    return told, seen.seen


def _manifest(name: str, cpu: str, scheduler: str = "kubedsm") -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "10Mi"}
    container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
    return {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }
