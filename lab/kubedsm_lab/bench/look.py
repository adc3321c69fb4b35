"""What it costs to see what has changed, for the page, beside working out all of its rows anew.

Pods of a running cluster come, are bound, become Ready and go; nothing is decided meanwhile. A look
is what is done four times a second while somebody views; both sides must come to the same rows.
"""

import random
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.config.settings import Configuration
from kubedsm.dashboard.rows import encode_message
from kubedsm.dashboard.server.stream import LOOK
from kubedsm.dashboard.state.scene import Scene
from kubedsm.model.change import Change
from kubedsm.model.events import ClusterEvent, NodeApplied, PodApplied, PodDeleted
from kubedsm.model.model import NodeName, Pod, Resources, Tier, Workload
from kubedsm.observability.reading import Leadership
from kubedsm.process.clock import VirtualClock
from kubedsm_lab.bench.instances import MI, DisagreementError, node, pod, timed
from kubedsm_lab.bench.telling import many, span, times_as_long
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.replay.virtual_time import run_in_virtual_time

#: pods of a workload; one node in so many is of the cloud
_REPLICAS, _CLOUD = 10, 5
_ROOM, _REQUESTS = Resources(16_000, 64 * 1024 * MI, 110), Resources(250, 128 * MI, 1)
#: looks that are timed, and times that all is worked out anew
_LOOKS, _ANEW = 200, 3


@attrs.frozen
class LookResult:
    """Milliseconds of CPU: of a look the mean, of all anew the best."""

    nodes: int
    pods: int
    #: of each look
    changes: int
    rows: float
    bytes: float
    look_ms: float
    anew_ms: float

    @property
    def ratio(self) -> float:
        return self.anew_ms / self.look_ms

    def as_json(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "pods": self.pods,
            "changes": self.changes,
            "rows": round(self.rows, 1),
            "bytes": round(self.bytes),
            "lookMs": round(self.look_ms, 3),
            "anewMs": round(self.anew_ms, 2),
            "ratio": round(self.ratio, 1),
        }

    @property
    def sentences(self) -> list[str]:
        return [
            (
                f"{many(self.changes, 'change')} of {many(self.pods, 'pod')} on"
                f" {many(self.nodes, 'node')} are seen, and encoded, in {span(self.look_ms / 1e3)},"
                f" as {self.rows:.0f} rows of {self.bytes:,.0f} bytes; all rows worked out anew"
                f" take {span(self.anew_ms / 1e3)}: {times_as_long(self.ratio)}."
            ),
            (
                f"Times are of CPU, of a look the mean of {_LOOKS}, of all anew the best of"
                f" {_ANEW}. At {1 / LOOK:g} looks a second that is"
                f" {self.look_ms / LOOK / 10:.1f} % of a core."
            ),
        ]


def run(*, nodes: int = 500, pods: int = 10_000, changes: int = 25) -> LookResult:
    """Raises DisagreementError if what was told of changes is not what is there."""
    return run_in_virtual_time(_measured(nodes, pods, changes))


async def _measured(nodes: int, pods: int, changes: int) -> LookResult:
    clock = VirtualClock()
    async with EmulatedCluster(ClusterSpec(()), clock, random.Random(0)) as cluster:
        front = EmulatedFront(cluster.routes, clock)
        scene = Scene(clock)
        runtime = Runtime(front, Configuration(), clock, random.Random(0), listener=scene)
        course = _course(nodes, pods)

        def apply(events: int) -> list[Change]:
            return [runtime.mirror.apply(event) for event in islice(course, events)]

        def look(of: Scene, heard: Iterable[Change] = ()) -> tuple[int, int]:
            for change in heard:
                of.changed(change)
            told = of.look(runtime, Leadership(), clock.wall())
            return (
                (sum(map(len, told.rows.values())), len(encode_message(told))) if told else (0, 0)
            )

        look(scene, apply(nodes + pods))
        seconds, rows, size = 0.0, 0, 0
        for _ in range(_LOOKS):
            await clock.sleep(LOOK)
            heard = apply(changes)
            (some, length), took = timed(partial(look, scene, heard))
            seconds, rows, size = seconds + took, rows + some, size + length
        anew = [Scene(clock) for _ in range(_ANEW)]
        whole = min(timed(partial(look, other))[1] for other in anew)
        ours, theirs = scene.snapshot().rows, anew[0].snapshot().rows
        for table in ("nodes", "pods", "workloads"):
            if ours[table] != theirs[table]:
                raise DisagreementError(f"the rows of {table} are not those that are there")
    each = 1e3 / _LOOKS
    return LookResult(
        nodes, pods, changes, rows / _LOOKS, size / _LOOKS, seconds * each, whole * 1e3
    )


def _course(nodes: int, pods: int) -> Iterator[ClusterEvent]:
    """Nodes and pods that are there, and what happens then: each pod goes, another one comes."""
    names = [NodeName(f"node-{number}") for number in range(nodes)]
    for number, name in enumerate(names):
        yield NodeApplied(node(name, Tier.EDGE if number % _CLOUD else Tier.CLOUD, _ROOM))
    there = [_pod(number, pods, names) for number in range(pods)]
    yield from map(PodApplied, there)
    drawn, number = random.Random(0), pods
    while True:
        place = drawn.randrange(pods)
        comes = _pod(number, pods, names)
        goes = there[place]
        yield PodDeleted(goes.uid, goes.namespace, goes.name)
        yield PodApplied(attrs.evolve(comes, node_name=None, phase="Pending", ready=False))
        yield PodApplied(attrs.evolve(comes, phase="Pending", ready=False))
        yield PodApplied(comes)
        there[place], number = comes, number + 1


def _pod(number: int, pods: int, names: list[NodeName]) -> Pod:
    workload = Workload("shop", "Deployment", f"app-{number % max(1, pods // _REPLICAS)}")
    return pod(
        f"{workload.name}-{number}",
        workload,
        _REQUESTS,
        node_name=names[number % len(names)],
        phase="Running",
        ready=True,
        created=float(number),
    )
