"""Complete scheduler on the emulated cluster, in virtual time, with invariants checked."""

import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.app.prometheus import Failure, Sample
from kubedsm.config.settings import Configuration
from kubedsm.observability.measured_cluster import MeasuredCluster
from kubedsm.process.clock import Clock
from kubedsm_lab.chaos.oracles import Invariants, Witness, WitnessedCluster
from kubedsm_lab.emulator.api.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    STATEFUL_SETS,
)
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import node, pod_spec, workload
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.api_cases import ApiObjects

DOWN = Failure("Connection refused", unreachable=True)


@attrs.define
class FakePrometheus:
    """Prometheus in this process, with responses set by a test."""

    clock: object
    #: by query, values by labels; or a failure; what is not here is empty
    said: dict = attrs.field(factory=dict)
    #: of all queries
    failure: Failure = None
    #: seconds that an answer takes, and by which samples are old
    delay: float = 0.0
    age: float = 0.0
    #: when it was asked, whom, and what
    asked: list = attrs.field(factory=list)

    async def ask(self, whom, queries, seconds, most, then):
        self.asked.append((self.clock.monotonic(), whom, dict(queries)))
        if self.delay:
            await asyncio.sleep(self.delay)
        return then({name: self.failure or self._vector(name) for name in queries})

    def _vector(self, name):
        said = self.said.get(name, {})
        if isinstance(said, Failure):
            return said
        at = self.clock.wall() - self.age
        series = said.items() if isinstance(said, dict) else said
        return tuple(Sample(dict(labels), value, at) for labels, value in series)


def small_pod(requests, **fields):
    """Return the spec of a pod that stops within a second."""
    return pod_spec(requests, **{"terminationGracePeriodSeconds": 1, **fields})


def bare_pod(name, cpu="1", memory="100Mi", labels=None, annotations=None, ports=(), **spec):
    """Return a Pod without a controller; `ports` are host ports."""
    spec = small_pod({"cpu": cpu, "memory": memory}, **spec)
    open_ports = [{"containerPort": port, "hostPort": port} for port in ports]
    spec["containers"][0]["ports"] = open_ports
    metadata = {"name": name, "labels": labels or {"app": name}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": spec}


QUICK = Timing(start_delay=0.5, stop_delay=0.5)


@attrs.define
class World(ApiObjects):
    """Emulated cluster, with a scheduler that can be started, killed and restarted."""

    cluster: EmulatedCluster
    clock: Clock
    invariants: Invariants
    witness: Witness
    faults: object = None
    configuration: Configuration = attrs.field(factory=Configuration)
    #: what the configuration follows
    source: object = None
    runtime: Runtime = None
    #: whom the scheduler asks for measured load; nobody answers if there is none
    prometheus: object = None
    #: what the scheduler is on
    front: EmulatedFront = None
    #: what the scheduler shows, where access is enforced
    token: str = None

    @property
    def api(self):
        return self.cluster.api

    def connect(self, faults=None):
        """Return a new connection to the API server."""
        return EmulatedFront(
            self.cluster.routes, self.clock, faults=faults, latency=0.01, token=self.token
        )

    def new_runtime(self, cluster, configuration=None, seed=0, **more):
        """Return a scheduler that does not run yet."""
        return Runtime(
            cluster,
            configuration or self.configuration,
            self.clock,
            random.Random(seed),
            prometheus=self.prometheus or FakePrometheus(self.clock, failure=DOWN),
            **more,
        )

    @asynccontextmanager
    async def scheduler(self, faults=None, seed=0, policy=None, instruments=None, listener=None):
        """Run a scheduler during the block; `instruments` count its operations."""
        self.front = self.connect(faults or self.faults)
        cluster = WitnessedCluster(self.front, self.witness, lambda: self.runtime)
        if instruments is not None:
            cluster = MeasuredCluster(cluster, self.clock, instruments.count_request)
        shown = listener or instruments
        self.runtime = self.new_runtime(
            cluster, seed=seed, policy=policy, listener=shown, source=self.source
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.runtime.run())
            tasks.create_task(self._check_books(running))
            yield self.runtime
            running.cancel()
        assert not self.witness.wrong

    async def _check_books(self, running):
        checked = None
        while not running.done():
            mirror = self.runtime.mirror
            if (mirror, mirror.changes) != checked:
                checked = mirror, mirror.changes
                mirror.check_invariants()
            await asyncio.sleep(0.5)

    def deploy(self, name, replicas, cpu="1", memory="950Mi", namespace="default", **pod_spec):
        spec = small_pod({"cpu": cpu, "memory": memory}, **pod_spec)
        return self.api.create(DEPLOYMENTS, workload(name, replicas, spec), namespace=namespace)

    def create_pod(self, name, cpu="1", namespace="default", **more):
        """Create a Pod without a controller."""
        return self.api.create(PODS, bare_pod(name, cpu, **more), namespace=namespace)

    def namespace(self, name):
        """Create a Namespace unless it exists."""
        if not self.api.exists(NAMESPACES, "", name):
            self.create(NAMESPACES, name, "")

    def config_map(self, **data):
        """Create the scheduler's own ConfigMap and its Namespace."""
        self.namespace("kubedsm")
        return self.create(CONFIGMAPS, "kubedsm", "kubedsm", data=data)

    def stateful_set(self, name, replicas, **pod_spec):
        spec = small_pod({"cpu": "1", "memory": "64Mi"}, **pod_spec)
        made = workload(name, replicas, spec, "StatefulSet", serviceName=name)
        self.api.create(STATEFUL_SETS, made, namespace="default")

    def service(self, app):
        """Create a Service for the pods of an app."""
        self.create(SERVICES, app, spec={"selector": {"app": app}, "ports": [{"port": 80}]})

    def quota(self, **hard):
        self.create(RESOURCE_QUOTAS, "quota", spec={"hard": hard})

    def budget(self, app, name="", **limit):
        """Create a PodDisruptionBudget for the pods of an app."""
        spec = {**limit, "selector": {"matchLabels": {"app": app}}}
        self.create(POD_DISRUPTION_BUDGETS, name or app, spec=spec)

    def cordon(self, *names, cordoned=True):
        for name in names:
            self.patch(NODES, name, {"spec": {"unschedulable": cordoned or None}})

    def placed(self, app=None):
        """Count the pods by node; None for pending pods."""
        return Counter(pod["spec"].get("nodeName") for pod in self.pods(app))

    def events(self, reason, about="Pod"):
        """Return the Events with a reason, about objects of a kind."""
        return [
            event
            for event in self.api.list(EVENTS, "default")
            if event["reason"] == reason and event["involvedObject"]["kind"] == about
        ]

    async def until(self, condition, seconds):
        """Wait until a condition holds; fail with the placements after `seconds`."""
        deadline = self.clock.monotonic() + seconds
        while not condition():
            assert self.clock.monotonic() < deadline, f"after {seconds} s: {self.placed()}"
            await asyncio.sleep(0.05)

    def bound(self, app=None):
        """Count the pods that have a node."""
        return sum(number for name, number in self.placed(app).items() if name is not None)

    async def until_bound(self, count, seconds, app=None):
        await self.until(lambda: self.bound(app) == count, seconds)

    async def bring_up(self, name, replicas, *, within, **deployed):
        """Deploy an app, and wait until all of its pods are bound."""
        self.deploy(name, replicas, **deployed)
        await self.until_bound(replicas, within, name)


@asynccontextmanager
async def emulated(
    *nodes,
    timing=QUICK,
    metrics=None,
    admin_token=None,
    clock=None,
    paced=False,
    seed=0,
    default_scheduler=False,
    **world,
):
    clock = clock or VirtualClock()
    spec = ClusterSpec(tuple(nodes), timing)
    rng = random.Random(seed)
    async with EmulatedCluster(
        spec,
        clock,
        rng,
        metrics=metrics,
        token=admin_token,
        paced=paced,
        default_scheduler=default_scheduler,
    ) as cluster:
        there = World(cluster, clock, Invariants(cluster.api), Witness(cluster.api), **world)
        yield there
        assert not there.invariants.wrong


@asynccontextmanager
async def scheduled(there, **how):
    """Run the world with a scheduler."""
    async with there as world, world.scheduler(**how):
        yield world


EDGE, CLOUD = node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "20", "40Gi")
