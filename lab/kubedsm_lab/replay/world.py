"""One run: a scenario's load on an emulated cluster, with a scheduler at work on it."""

import asyncio
import random

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.config.settings import Configuration
from kubedsm.explain.listener import Listener
from kubedsm.kube.wire import sightings
from kubedsm.process.clock import Clock, VirtualClock
from kubedsm_lab.baselines.registry import KUBEDSM, POLICIES
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import NAMESPACE, paper_cluster
from kubedsm_lab.replay.filming import Camera
from kubedsm_lab.replay.plain_bindings import PlainBindings
from kubedsm_lab.replay.recording import Record, TimelineRecorder
from kubedsm_lab.replay.services import PAPER_SERVICES, ServiceSpec
from kubedsm_lab.replay.variants import contender
from kubedsm_lab.replay.virtual_time import run_in_virtual_time
from loadgen.scenario import Scenario

#: seconds under the load of the scenario's first moment, until the first pods are up and counted
LEAD_IN = 15.0
#: seconds from a request to its answer: an API server across a network
API_LATENCY = 0.01


@attrs.frozen
class Setup:
    """What runs have in common."""

    cluster: ClusterSpec = attrs.field(factory=paper_cluster)
    services: tuple[ServiceSpec, ...] = PAPER_SERVICES
    configuration: Configuration = attrs.field(factory=Configuration)
    #: how long the autoscalers wait before they scale down
    stabilization_seconds: int = 5
    #: with the latencies of a real control plane, as `EmulatedCluster` draws them
    paced: bool = False

    @property
    def service_names(self) -> tuple[str, ...]:
        return tuple(service.name for service in self.services)


@attrs.frozen
class Run:
    #: what the scenario is called in the results
    name: str
    scenario: Scenario
    #: see `variants`
    policy: str
    seed: int
    setup: Setup
    #: whether there is to be a film of it
    filmed: bool = False

    def rng(self, purpose: str) -> random.Random:
        """Chance for one purpose: independent of the others, and the same for every policy."""
        return random.Random(f"{self.seed} {purpose}")


def play(run: Run, camera: Camera | None = None) -> Record:
    """What happens in the run. Raises UnknownPolicyError."""
    return run_in_virtual_time(
        _play(run, camera), passing=None if camera is None else camera.passing
    )


def without_solver(configuration: Configuration) -> Configuration:
    """The same with nobody asked: a solver's time is that of the machine, and its answers by it."""
    return attrs.evolve(configuration, solver=attrs.evolve(configuration.solver, kind="off"))


async def _play(run: Run, camera: Camera | None) -> Record:
    setup, scenario, clock = run.setup, run.scenario, VirtualClock()
    chosen = contender(run.policy, setup.service_names)
    configuration = without_solver(chosen.reconfigure(setup.configuration))
    # The autoscalers sync every so many seconds, and no load is tuned to when that is.
    phase = run.rng("phase").random() * setup.cluster.timing.hpa_sync
    start = clock.monotonic() + LEAD_IN + phase

    def rate(_namespace: str, workload: str, _metric: str) -> float:
        if workload not in scenario.services:
            return 0.0
        return scenario.rate(workload, max(0.0, clock.monotonic() - start))

    async with EmulatedCluster(
        setup.cluster,
        clock,
        run.rng("cluster"),
        metrics=rate,
        tracks_managers=False,
        paced=setup.paced,
    ) as cluster:
        recorder = TimelineRecorder(setup.service_names, configuration.tiers)
        for node in cluster.api.list(NODES):
            recorder.take(sightings.NODES.value(node), clock.monotonic())
        cluster.api.store.subscribe(lambda change: recorder.notice(change, clock.monotonic()))
        front = EmulatedFront(cluster.routes, clock, latency=API_LATENCY)
        runtime = runtime_of(
            front,
            chosen.policy,
            configuration,
            clock,
            run.rng("scheduler"),
            None if camera is None else camera.scene,
        )
        if camera is not None:
            camera.film(runtime, clock, start, scenario.duration)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(runtime.run())
            await runtime.synced.wait()
            for service in setup.services:
                for resource, obj in service.objects(setup.stabilization_seconds):
                    cluster.api.create(resource, obj, namespace=NAMESPACE)
            await clock.sleep(start + scenario.duration - clock.monotonic())
            running.cancel()
        return recorder.record(start, clock.monotonic())


def runtime_of(
    front: EmulatedFront,
    policy: str,
    configuration: Configuration,
    clock: Clock,
    rng: random.Random,
    listener: Listener | None = None,
) -> Runtime:
    """The scheduler with that policy of the registry."""
    if policy == KUBEDSM:
        return Runtime(front, configuration, clock, rng, listener=listener)
    other = POLICIES[policy](configuration.promise, configuration.objective_function)
    return Runtime(PlainBindings(front), configuration, clock, rng, policy=other, listener=listener)
