"""One replay run: a scenario's load on an emulated cluster, under one scheduler."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.app.prometheus import Asker
from kubedsm.config.settings import Configuration
from kubedsm.explain.listener import Listener
from kubedsm.optimizer.policies.policy import Policy
from kubedsm.process.clock import Clock
from kubedsm_lab.baselines.registry import KUBEDSM, POLICIES
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import NAMESPACE, paper_cluster
from kubedsm_lab.replay.films import Camera
from kubedsm_lab.replay.plain_bindings import PlainBindings
from kubedsm_lab.replay.recording import Record, TimelineRecorder
from kubedsm_lab.replay.services import PAPER_SERVICES, ServiceSpec
from kubedsm_lab.replay.sightings import READERS
from kubedsm_lab.replay.variants import contender
from kubedsm_lab.replay.virtual_time import VirtualClock, run_in_virtual_time
from kubedsm_lab.replay.workload_model import BlockingClient, list_endpoints
from loadgen.scenario import Scenario

#: seconds of warm-up under the scenario's initial load, until the first pods are Ready
LEAD_IN = 15.0
#: seconds from a request to its answer: an API server across a network
API_LATENCY = 0.01


@attrs.frozen
class Setup:
    """Cluster, services and configuration settings shared by several runs."""

    cluster: ClusterSpec = attrs.field(factory=paper_cluster)
    services: tuple[ServiceSpec, ...] = PAPER_SERVICES
    configuration: Configuration = attrs.field(factory=Configuration)
    #: scale-down stabilisation of the autoscalers
    stabilization_seconds: int = 5
    #: whether to emulate the latencies of a real control plane
    paced: bool = False
    #: seconds without load after the scenario, in the results; the load then begins with one pod of
    #: each service
    rest: float = 0.0
    #: whether each service has one client that waits for each response, as under DrStress
    closed_loop: bool = False

    @property
    def service_names(self) -> tuple[str, ...]:
        return tuple(service.name for service in self.services)


@attrs.frozen
class Run:
    #: identifier of the scenario in the results
    name: str
    scenario: Scenario
    #: contender by name, see `variants`
    policy: str
    seed: int
    setup: Setup
    filmed: bool = False

    def clients(self) -> dict[str, BlockingClient]:
        """Return the closed loop's clients by service, before their first request."""
        servers = {service.name: service.server for service in self.setup.services}
        return {
            api.name: BlockingClient(api, servers[api.name], self.rng(f"requests {api.name}"))
            for api in self.scenario.apis
        }

    def rng(self, purpose: str) -> random.Random:
        return seed_rng(self.seed, purpose)


def seed_rng(seed: int, purpose: str) -> random.Random:
    """Return a random generator for one purpose of a run, independent of other purposes and of the
    policy.
    """
    return random.Random(f"{seed} {purpose}")


def play(run: Run, camera: Camera | None = None) -> Record:
    """Run one scenario under one policy in virtual time; return the recorded run. Raises
    UsageError.
    """
    return run_in_virtual_time(
        _play_run(run, camera), passing=None if camera is None else camera.passing
    )


def without_solver(configuration: Configuration) -> Configuration:
    """Return the configuration without solver, whose results depend on the machine's load."""
    return attrs.evolve(configuration, solver=attrs.evolve(configuration.solver, kind="off"))


async def _play_run(run: Run, camera: Camera | None) -> Record:
    setup, scenario, clock = run.setup, run.scenario, VirtualClock()
    chosen = contender(run.policy, setup.service_names)
    configuration = without_solver(chosen.reconfigure(setup.configuration))
    # The draw shifts the load against the syncs of the autoscalers.
    phase = run.rng("phase").random() * setup.cluster.timing.hpa_sync
    start = clock.monotonic() + LEAD_IN + phase

    clients = run.clients() if setup.closed_loop else {}

    def rate(_namespace: str, workload: str, _metric: str) -> float:
        if workload not in scenario.services:
            return 0.0
        now = clock.monotonic() - start
        if workload in clients:
            timeline = recorder.timeline(start, clock.monotonic())
            endpoints = list_endpoints(timeline, workload, configuration.latency)
            return clients[workload].measure_rate(now, endpoints)
        return scenario.rate(workload, now if setup.rest else max(0.0, now))

    cluster = EmulatedCluster(
        setup.cluster, clock, run.rng("cluster"), metrics=rate, paced=setup.paced
    )
    recorder = TimelineRecorder(setup.service_names, configuration.tiers)
    policy = find_policy(chosen.policy, configuration)
    rng = run.rng("scheduler")
    listener = None if camera is None else camera.scene
    async with scheduled(
        cluster, clock, configuration, policy, rng, recorder, listener=listener
    ) as stage:
        if camera is not None:
            camera.film(stage.runtime, clock, start, scenario.duration)
        for service in setup.services:
            for resource, obj in service.objects(setup.stabilization_seconds):
                cluster.api.create(resource, obj, namespace=NAMESPACE)
        await clock.sleep(start + scenario.duration + setup.rest - clock.monotonic())
    return recorder.record(start, clock.monotonic())


@attrs.frozen
class Stage:
    """Scheduler that runs on an emulated cluster."""

    runtime: Runtime
    #: starts an additional task, which ends with the scheduler
    begin: Callable[[Coroutine[Any, Any, None]], None]


@asynccontextmanager
async def scheduled(
    cluster: EmulatedCluster,
    clock: Clock,
    configuration: Configuration,
    policy: Policy | None,
    rng: random.Random,
    recorder: TimelineRecorder | None = None,
    *,
    latency: float = API_LATENCY,
    listener: Listener | None = None,
    prometheus: Asker | None = None,
) -> AsyncIterator[Stage]:
    """Run an emulated cluster and its scheduler, KubeDSM without a policy, during the block, which
    begins after the mirror's first synchronisation; the recorder observes all of it.

    Baselines bind and preempt as other schedulers do.
    """
    async with cluster:
        if recorder is not None:
            for node in cluster.api.list(NODES):
                recorder.take(READERS["Node"].value(node), clock.monotonic())
            notice = recorder.notice
            cluster.api.store.subscribe(lambda change: notice(change, clock.monotonic()))
        front = EmulatedFront(cluster.routes, clock, latency=latency)
        runtime = Runtime(
            front if policy is None else PlainBindings(front),
            configuration,
            clock,
            rng,
            policy=policy,
            listener=listener,
            prometheus=prometheus,
        )
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(runtime.run())]
            await runtime.synced.wait()
            yield Stage(runtime, lambda work: running.append(tasks.create_task(work)))
            for task in running:
                task.cancel()


def find_policy(name: str, configuration: Configuration) -> Policy | None:
    """Return a baseline policy by name; None for KubeDSM, the scheduler's built-in policy."""
    if name == KUBEDSM:
        return None
    return POLICIES[name](configuration.qos_target, configuration.objective_function)
