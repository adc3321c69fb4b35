"""The demo's world, shortened to a minute, and its course."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs

from kubedsm.clock import Clock
from kubedsm.cluster.wire import decoding
from kubedsm.configuration.sections import MigrationSettings, SiteSettings, SuggesterSettings
from kubedsm.configuration.settings import Configuration
from kubedsm.core.world.model import Node, Tiers
from kubedsm.demo.disconnection import BEGINS, ENDS, Course, with_site
from kubedsm.demo.observer import Observer
from kubedsm.demo.view import Frame
from kubedsm.emulator.api.resources import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, NODES, SERVICES
from kubedsm.emulator.emulated_cluster import EmulatedCluster, Timing
from kubedsm.emulator.paper import paper_cluster, paper_services
from loadgen.generators import normal
from loadgen.scenario import Scenario

#: seconds; the paper's are 90
CYCLE = 5.0
#: of the last cycle: 14 cores and more memory than the edge has, but far less than the cluster
LAST_REPLICAS = {"a": 4, "b": 2, "c": 4, "d": 2}
#: seconds that the last cycle's pods may take to be placed and Ready after the load has ended
SETTLING = 10.0
FRAME = 0.25
#: a shortened day: seconds
TIMING = Timing(start_delay=0.2, stop_delay=0.1, hpa_sync=0.8, monitor_grace=2.2)
#: Kubernetes' 300 s
TOLERATION = 16
#: periods shortened in the same measure
CONFIGURATION = Configuration(
    site=SiteSettings(settle=6.0),
    suggester=SuggesterSettings(period=0.5),
    migration=MigrationSettings(price=1.0, cooldown=0.5, drain_delay=0.1, deadline=5.0),
)
TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": TOLERATION,
    }
    for condition in ("not-ready", "unreachable")
]
RESOURCES = {r.kind: r for r in (DEPLOYMENTS, SERVICES, HORIZONTAL_POD_AUTOSCALERS)}


def demo_scenario(seed: int, cycles: int) -> Scenario:
    """Return scenario 1.5-.4 of the paper in short cycles, the last of which fits the cluster."""
    return normal(1.5, 0.4, seed=seed, cycles=cycles, cycle_seconds=CYCLE, final=LAST_REPLICAS)


@attrs.frozen(eq=False)
class World:
    """The emulated cluster under a scenario's load, and what is seen of it."""

    cluster: EmulatedCluster
    scenario: Scenario
    observer: Observer
    clock: Clock
    started: float
    nodes: tuple[Node, ...]
    #: None if no site is cut off
    course: Course | None = None

    @property
    def elapsed(self) -> float:
        return self.clock.monotonic() - self.started

    def frame(self) -> Frame:
        scenario, observer = self.scenario, self.observer
        now = min(self.elapsed, scenario.duration - CYCLE / 2)
        cut = None if self.course is None else self.course.look(self.elapsed)
        if cut is not None and self.elapsed >= cut.begins:
            since = observer.migrations(self.started + cut.begins)
            cut = attrs.evolve(cut, moves=since.begun)
        return Frame(
            seconds=self.elapsed,
            duration=scenario.duration,
            nodes=[observer.node(node) for node in self.nodes],
            services=observer.services(),
            rates=[scenario.rate(service, now) for service in scenario.services],
            bound=observer.bound,
            waiting=observer.waiting,
            latency=observer.latency,
            edge_ratio=observer.edge_ratio,
            moving=observer.moving,
            migrations=observer.migrations(self.started),
            cut=cut,
        )


@asynccontextmanager
async def demo_world(
    scenario: Scenario, clock: Clock, rng: random.Random, *, disconnect: bool = False
) -> AsyncIterator[World]:
    """Enter the paper's cluster with the paper's services on it, under that load from now on.

    disconnect: whether a site is cut off in the middle.
    """
    started = clock.monotonic()

    def rate(_namespace: str, workload: str, _metric: str) -> float | None:
        if workload not in scenario.services:
            return None
        # After the end the last cycle's load goes on, so that the summary is of a steady state.
        return scenario.rate(
            workload, min(clock.monotonic() - started, scenario.duration - CYCLE / 2)
        )

    spec = paper_cluster(TIMING)
    if disconnect:
        spec = with_site(spec)
    async with EmulatedCluster(spec, clock, rng, metrics=rate) as cluster:
        tiers = Tiers()
        nodes = tuple(
            attrs.evolve(node, tier=tiers.of(node.labels))
            for node in map(decoding.node, cluster.api.list(NODES))
        )
        observer = Observer(nodes, scenario.services, clock)
        course = None
        if disconnect:
            length = scenario.duration
            course = Course(cluster, length * BEGINS, length * ENDS)
        watching = [observer.notice, *([course.notice] if course else [])]
        stops = [cluster.api.store.subscribe(notice) for notice in watching]
        yield World(cluster, scenario, observer, clock, started, nodes, course)
        for stop in stops:
            stop()


def create_services(world: World) -> None:
    # The papers' scale-down window of 5 s is to their cycles what a third of one is to ours.
    for obj in paper_services(stabilization_seconds=0, grace_seconds=1):
        if world.course is not None and obj["kind"] == "Deployment":
            obj["spec"]["template"]["spec"]["tolerations"] = TOLERATIONS
        world.cluster.api.create(RESOURCES[obj["kind"]], obj, namespace="default")


async def watch_demo(world: World, show: Callable[[Frame], None]) -> Frame:
    """Show a frame four times a second until the load has ended and its pods are Ready."""
    while world.elapsed < world.scenario.duration:
        show(world.frame())
        await world.clock.sleep(FRAME)
    ends = world.scenario.duration + SETTLING
    while (world.observer.waiting or world.observer.unready) and world.elapsed < ends:
        show(world.frame())
        await world.clock.sleep(FRAME)
    frame = world.frame()
    show(frame)
    return frame
