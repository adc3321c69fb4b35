"""Cluster and load of the demo, and production of its frames until the load ends."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.rows import MoveRow
from kubedsm.dashboard.state.scene import Scene
from kubedsm.dashboard.terminal.seen import TypedSnapshot
from kubedsm.model.model import Tiers
from kubedsm.observability.reading import Leadership
from kubedsm.process.clock import Clock
from kubedsm_lab.demo.baseline import Baseline
from kubedsm_lab.demo.frame import Frame, SchedulerResult, bind_latency, until
from kubedsm_lab.demo.setting import CYCLE, QOS_TARGETS, STABILIZATION_SECONDS, demo_cluster
from kubedsm_lab.emulator.emulated_cluster import EmulatedCluster
from kubedsm_lab.emulator.paper import NAMESPACE
from kubedsm_lab.replay.measures import lost_pod_seconds
from kubedsm_lab.replay.recording import TimelineRecorder
from kubedsm_lab.replay.services import PAPER_SERVICES
from loadgen.scenario import Scenario

#: seconds after the end of the load in which the last pods become Ready
SETTLING = 10.0
FRAME = 0.25


@attrs.frozen(eq=False)
class World:
    """Emulated cluster of the demo under a scenario's load, with recorders of pods
    and migrations.
    """

    cluster: EmulatedCluster
    scenario: Scenario
    recorder: TimelineRecorder
    clock: Clock
    started: float
    scene: Scene
    #: latest row of every migration
    begun: dict[str, MoveRow] = attrs.field(factory=dict)

    @property
    def elapsed(self) -> float:
        return self.clock.monotonic() - self.started

    @property
    def seen(self) -> TypedSnapshot:
        """Return the rows of the dashboard, as of the last frame."""
        return TypedSnapshot.of(self.scene.snapshot())

    @property
    def settled(self) -> bool:
        return all(pod.state in ("ready", "leaving") for pod in self.seen.pods.values())

    def frame(self, runtime: Runtime, beside: Baseline, *, interrupted: bool = False) -> Frame:
        """Return the values to display now, with kube-scheduler's results under the same load."""
        epoch = self.clock.wall() - self.elapsed
        self.scene.look(runtime, Leadership(), self.clock.wall())
        self.begun.update((key, move) for key, move in self.scene.moves.items() if move.began)
        scenario, seconds = self.scenario, self.elapsed
        loaded = min(seconds, scenario.duration - CYCLE / 2)
        rates = {name: scenario.rate(name, loaded) for name in scenario.services}
        timeline = self.recorder.timeline(self.started, self.clock.monotonic())
        replayed = beside.result() if beside.done() else None
        bound, latency = bind_latency(timeline)
        made = [move for move in timeline.moves if move.began >= 0.0]
        return Frame(
            epoch=epoch,
            seconds=seconds,
            duration=scenario.duration,
            seen=self.seen,
            rates=rates,
            bound=bound,
            latency=latency,
            ours=SchedulerResult.of(timeline, QOS_TARGETS),
            theirs=None
            if replayed is None
            else SchedulerResult.of(until(replayed, seconds), QOS_TARGETS),
            replay="ready" if replayed else "failed" if beside.done() else "going on",
            moves=dict(sorted(self.begun.items(), key=lambda each: each[1].began)),
            migrations=len(made),
            taken_back=sum(move.taken_back for move in made),
            lost_pod_seconds=lost_pod_seconds(timeline),
            interrupted=interrupted,
        )


@asynccontextmanager
async def demo_world(scenario: Scenario, clock: Clock, rng: random.Random) -> AsyncIterator[World]:
    """Run the paper's cluster under the scenario's load during the block."""
    started = clock.monotonic()

    def rate(_namespace: str, workload: str, _metric: str) -> float | None:
        if workload not in scenario.services:
            return None
        # The last cycle's load goes on after the end, so the summary is of a steady state.
        return scenario.rate(
            workload, min(clock.monotonic() - started, scenario.duration - CYCLE / 2)
        )

    async with EmulatedCluster(demo_cluster(), clock, rng, metrics=rate) as cluster:
        recorder = TimelineRecorder(tuple(QOS_TARGETS), Tiers())
        unsubscribe = cluster.api.store.subscribe(
            lambda change: recorder.notice(change, clock.monotonic())
        )
        yield World(cluster, scenario, recorder, clock, started, Scene(clock))
        unsubscribe()


def create_services(world: World) -> None:
    for service in PAPER_SERVICES:
        for resource, obj in service.objects(STABILIZATION_SECONDS):
            world.cluster.api.create(resource, obj, namespace=NAMESPACE)


async def watch_demo(
    world: World, runtime: Runtime, show: Callable[[Frame], None], beside: Baseline
) -> None:
    """Show four frames a second until the load has ended and its pods are Ready."""
    loaded = world.scenario.duration
    while (now := world.elapsed) < loaded or (now < loaded + SETTLING and not world.settled):
        show(world.frame(runtime, beside))
        await world.clock.sleep(FRAME)
    show(world.frame(runtime, beside))
