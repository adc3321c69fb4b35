"""One trial: the application under so many users, on an emulated cluster with one contender."""

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from functools import cache

import msgspec
import numpy as np

from kubedsm.app.assembly import Runtime
from kubedsm.kube.client.port import Cluster
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.process.clock import Clock, VirtualClock
from kubedsm_lab.baselines.load_aware import one_eviction
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import NAMESPACE, node, service_objects
from kubedsm_lab.replay.load_aware.application import (
    CAPACITY,
    GRAPHS,
    NODES,
    REPLICAS,
    SCENARIOS,
    SERVICES,
    Floats,
    Resource,
)
from kubedsm_lab.replay.load_aware.contenders import CONTENDERS, PAPERS
from kubedsm_lab.replay.load_aware.history import LoadHistory, Stretch
from kubedsm_lab.replay.load_aware.model import Chance, Placement, Traffic
from kubedsm_lab.replay.load_aware.prometheus import ModelledPrometheus
from kubedsm_lab.replay.measures import Spread, lost_pod_seconds
from kubedsm_lab.replay.plain_bindings import PlainBindings
from kubedsm_lab.replay.recording import TimelineRecorder
from kubedsm_lab.replay.timeline import Timeline
from kubedsm_lab.replay.virtual_time import run_in_virtual_time
from kubedsm_lab.replay.world import API_LATENCY, without_solver

#: seconds: load until figures are known; from one Deployment's rollout to the next, as long as the
#: window that figures are means over; until the measuring; between two runs of the descheduler
WARM_UP, ROLLOUT, SETTLING, DESCHEDULING = 360.0, 300.0, 60.0, 60.0
#: until all pods are Ready
STARTING = 30.0
#: requests by which their rate is found
_REQUESTS = 500
_RESTARTED = "kubectl.kubernetes.io/restartedAt"
#: those that differ between nodes
_LOADED = [Resource.CPU, Resource.DISK]
_DIGITS = 6


class Trial(msgspec.Struct, frozen=True, rename="camel"):
    graph: str
    scenario: int
    users: int
    contender: str
    seed: int
    #: measured
    minutes: float


class Outcome(msgspec.Struct, frozen=True, rename="camel"):
    trial: Trial
    #: end to end, seconds
    p95: float
    mean: float
    #: answered
    requests: int
    #: moves and evictions, while it was measured and in all, and what they cost
    moves: int
    moves_in_all: int
    lost_pod_seconds: float
    #: standard deviations of the used parts of resources, over time: over a node's four, as the
    #: paper's score has it; and of the same one over nodes, the mean of cpu and disk
    within_nodes: float
    between_nodes: float


def play(trial: Trial) -> Outcome:
    """What came of it: the same whenever it is played."""
    return run_in_virtual_time(_play(trial))


async def _play(trial: Trial) -> Outcome:
    clock, contender = VirtualClock(), CONTENDERS[trial.contender]
    configuration, history = without_solver(contender.configuration), _history(trial)
    recorder = TimelineRecorder(SERVICES, configuration.tiers)
    async with EmulatedCluster(
        _cluster(), clock, _chance(trial, "cluster"), tracks_managers=False
    ) as cluster:
        store = cluster.api.store
        store.subscribe(lambda change: recorder.notice(change, clock.monotonic()))
        store.subscribe(lambda change: history.notice(change, clock.monotonic()))
        front: Cluster = EmulatedFront(cluster.routes, clock, latency=API_LATENCY)
        policy = contender.policy and contender.policy(configuration)
        if policy is not None:
            front = PlainBindings(front)
        rng = _chance(trial, "scheduler")
        prometheus = ModelledPrometheus(history, clock)
        runtime = Runtime(front, configuration, clock, rng, policy=policy, prometheus=prometheus)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(runtime.run())]
            await runtime.synced.wait()
            if contender.deschedules:
                running.append(tasks.create_task(_deschedule(runtime, cluster.api, clock)))
            await _prepare(cluster.api, history, trial, clock)
            start = clock.monotonic()
            await clock.sleep(60 * trial.minutes)
            for task in running:
                task.cancel()
        end = clock.monotonic()
        return _outcome(trial, recorder.timeline(start, end), history.between(start, end))


def _chance(trial: Trial, purpose: str) -> random.Random:
    """For one purpose: independent of the others, and the same for every contender."""
    return random.Random(f"{trial.seed} {purpose}")


def _history(trial: Trial) -> LoadHistory:
    graph, scenario = GRAPHS[trial.graph], SCENARIOS[trial.scenario]
    chance = Chance.of(_numbers(trial, "rates"), _REQUESTS)

    @cache
    def traffic(placement: Placement, users: int) -> Traffic:
        return Traffic(graph, scenario, placement, users, chance)

    return LoadHistory(traffic)


def _numbers(trial: Trial, purpose: str) -> np.random.Generator:
    return np.random.default_rng(_chance(trial, purpose).getrandbits(64))


def _cluster() -> ClusterSpec:
    """All of one tier, where nothing is promised: the cloud."""
    cores, memory = CAPACITY[Resource.CPU], CAPACITY[Resource.MEMORY]
    return ClusterSpec(tuple(node(name, "cloud", f"{cores:g}", f"{memory:.0f}") for name in NODES))


async def _deschedule(runtime: Runtime, api: ApiServer, clock: Clock) -> None:
    """As the CronJob does."""
    while True:
        await clock.sleep(DESCHEDULING)
        snapshot = runtime.mirror.snapshot()
        pod = one_eviction(snapshot, PAPERS, default_movable(snapshot))
        if pod is not None:
            eviction = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod.name},
            }
            api.evict(pod.namespace, pod.name, eviction)


async def _prepare(api: ApiServer, history: LoadHistory, trial: Trial, clock: Clock) -> None:
    """Have all deployed, under load, and rolled out anew when it is known what each uses."""
    for service in SERVICES:
        # Nothing is requested, and nothing scales.
        deployment, *_ = service_objects(service, "0", "0", replicas=(REPLICAS, REPLICAS))
        api.create(DEPLOYMENTS, deployment, namespace=NAMESPACE)
    await clock.sleep(STARTING)
    history.come(trial.users, clock.monotonic())
    await clock.sleep(WARM_UP)
    anew = {"spec": {"template": {"metadata": {"annotations": {_RESTARTED: "again"}}}}}
    for service in _chance(trial, "rollouts").sample(SERVICES, len(SERVICES)):
        api.patch(DEPLOYMENTS, NAMESPACE, service, anew, MERGE_PATCH)
        await clock.sleep(ROLLOUT)
    await clock.sleep(SETTLING)


def _outcome(trial: Trial, timeline: Timeline, stretches: Sequence[Stretch]) -> Outcome:
    numbers = _numbers(trial, "requests")
    seconds = [np.zeros(0)]
    due = 0.0
    for each in stretches:
        due += each.traffic.rate * (each.until - each.since)
        number = math.floor(due)
        due -= number
        if number:
            seconds.append(each.traffic.seconds(Chance.of(numbers, number)))
    of_all = np.concatenate(seconds)
    spread = Spread.of(of_all)
    return Outcome(
        trial,
        p95=round(spread.p95, _DIGITS),
        mean=round(spread.mean, _DIGITS),
        requests=len(of_all),
        moves=sum(move.began >= 0 for move in timeline.moves),
        moves_in_all=len(timeline.moves),
        lost_pod_seconds=round(lost_pod_seconds(timeline), _DIGITS),
        within_nodes=_over_time(stretches, lambda used: used.std(axis=1).mean()),
        between_nodes=_over_time(stretches, lambda used: used.std(axis=0)[_LOADED].mean()),
    )


def _over_time(stretches: Sequence[Stretch], value: Callable[[Floats], np.float64]) -> float:
    """The mean of what follows from the used parts, nodes x resources."""
    values = [float(value(each.traffic.used / CAPACITY)) for each in stretches]
    lengths = [each.until - each.since for each in stretches]
    return round(float(np.average(values, weights=lengths)), _DIGITS)
