"""One trial of the load-aware experiment: the application under load, with one contender."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import attrs
import msgspec
import numpy as np

from kubedsm.app.assembly import Runtime
from kubedsm.config.load_aware import LoadAware, NodeCapacity
from kubedsm.config.settings import Configuration
from kubedsm.objective.load import Capacity, LoadGoal
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.process.clock import Clock
from kubedsm_lab.baselines.in_turn import Choose, InTurn
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.baselines.load_aware import load_aware, one_eviction
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
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
from kubedsm_lab.replay.load_aware.history import LoadHistory, ModelledPrometheus, Stretch
from kubedsm_lab.replay.load_aware.model import Chance, Placement, Traffic
from kubedsm_lab.replay.measures import Spread, lost_pod_seconds
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.recording import TimelineRecorder
from kubedsm_lab.replay.timeline import Timeline
from kubedsm_lab.replay.virtual_time import VirtualClock, run_in_virtual_time
from kubedsm_lab.replay.world import scheduled, seed_rng, without_solver

#: seconds: load until usage is measured; between rollouts of two Deployments, equal to the window
#: of the means; from the last rollout to the measurement; between two runs of the descheduler
WARM_UP, ROLLOUT, SETTLING, DESCHEDULING = 360.0, 300.0, 60.0, 60.0
#: most seconds until all pods are Ready
STARTING = 30.0
#: number of sampled requests from which their rate is computed
_REQUESTS = 500
_RESTARTED = "kubectl.kubernetes.io/restartedAt"
#: resources whose load differs between nodes
_LOADED = [Resource.CPU, Resource.DISK]
_DIGITS = 6
_NET, _DISK = (int(CAPACITY[resource]) for resource in (Resource.NET, Resource.DISK))
_PLAIN = Configuration()
#: the modelled Prometheus answers at any address
_MEASURED = Configuration(
    load_aware=LoadAware(
        prometheus="http://model", move=True, capacity=(NodeCapacity(net=_NET, disk=_DISK),)
    )
)
#: goal of the paper's score: no node is too busy
_PUBLISHED = LoadGoal(high_usage=math.inf, capacity=(Capacity(net=_NET, disk=_DISK),))


@attrs.frozen
class Contender:
    """Scheduler under comparison: kube-scheduler or KubeDSM, with or without measured load."""

    configuration: Configuration
    #: choice of a node per pod; None: KubeDSM
    choose: Choose | None = None
    load: LoadGoal | None = None
    #: whether the paper's descheduler runs as well
    deschedules: bool = False

    @property
    def policy(self) -> InTurn | None:
        if self.choose is None:
            return None
        configuration = self.configuration
        qos_target, objective = configuration.qos_target, configuration.objective_function
        return InTurn(self.choose, qos_target, objective, self.load)


PAPER, OURS = "+ score + descheduler", "kubedsm + load"
CONTENDERS: Mapping[str, Contender] = {
    REFERENCE: Contender(_PLAIN, kube_scheduler),
    "+ score": Contender(_MEASURED, load_aware, _PUBLISHED),
    PAPER: Contender(_MEASURED, load_aware, _PUBLISHED, deschedules=True),
    KUBEDSM: Contender(_PLAIN),
    OURS: Contender(_MEASURED),
}


class Trial(msgspec.Struct, frozen=True, rename="camel"):
    graph: str
    scenario: int
    users: int
    contender: str
    seed: int
    #: length of the measurement
    minutes: float


class Outcome(msgspec.Struct, frozen=True, rename="camel"):
    trial: Trial
    #: end-to-end response latency, seconds
    p95: float
    #: migrations and evictions: during the measurement, and in all
    moves: int
    moves_in_all: int
    lost_pod_seconds: float
    #: time means of standard deviations of consumption: over a node's four resources, as in the
    #: paper's score; and of cpu and disk over the nodes
    within_nodes: float
    between_nodes: float


def play(trial: Trial) -> Outcome:
    """Run a trial of the load-aware experiment in virtual time; the outcome is deterministic."""
    return run_in_virtual_time(_play_trial(trial))


async def _play_trial(trial: Trial) -> Outcome:
    clock, contender = VirtualClock(), CONTENDERS[trial.contender]
    configuration, history = without_solver(contender.configuration), _make_history(trial)
    recorder = TimelineRecorder(SERVICES, configuration.tiers)
    cluster = EmulatedCluster(_make_cluster(), clock, seed_rng(trial.seed, "cluster"))
    cluster.api.store.subscribe(lambda change: history.notice(change, clock.monotonic()))
    rng, prometheus = seed_rng(trial.seed, "scheduler"), ModelledPrometheus(history, clock)
    async with scheduled(
        cluster, clock, configuration, contender.policy, rng, recorder, prometheus=prometheus
    ) as stage:
        if contender.deschedules:
            stage.begin(_evict_periodically(stage.runtime, cluster.api, clock))
        await _deploy_services(cluster.api, history, trial, clock)
        start = clock.monotonic()
        await clock.sleep(60 * trial.minutes)
    end = clock.monotonic()
    return _make_outcome(trial, recorder.timeline(start, end), history.between(start, end))


def _seed_numbers(trial: Trial, purpose: str) -> np.random.Generator:
    return np.random.default_rng(seed_rng(trial.seed, purpose).getrandbits(64))


def _make_history(trial: Trial) -> LoadHistory:
    graph, scenario = GRAPHS[trial.graph], SCENARIOS[trial.scenario]
    chance = Chance.of(_seed_numbers(trial, "rates"), _REQUESTS)

    @cache
    def traffic(placement: Placement, users: int) -> Traffic:
        return Traffic(graph, scenario, placement, users, chance)

    return LoadHistory(traffic)


def _make_cluster() -> ClusterSpec:
    """Return the experiment's nodes, all in the cloud tier, so QoS targets for the edge have no
    effect.
    """
    cores, memory = CAPACITY[Resource.CPU], CAPACITY[Resource.MEMORY]
    return ClusterSpec(tuple(node(name, "cloud", f"{cores:g}", f"{memory:.0f}") for name in NODES))


async def _evict_periodically(runtime: Runtime, api: ApiServer, clock: Clock) -> None:
    """Evict one pod per period by the load-aware descheduler, as the paper's CronJob does."""
    while True:
        await clock.sleep(DESCHEDULING)
        snapshot = runtime.mirror.snapshot()
        pod = one_eviction(snapshot, _PUBLISHED, default_movable(snapshot))
        if pod is not None:
            metadata = {"name": pod.name}
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            api.evict(pod.namespace, pod.name, eviction)


async def _deploy_services(
    api: ApiServer, history: LoadHistory, trial: Trial, clock: Clock
) -> None:
    """Deploy all services under load, and roll them out again once their usage is measured."""
    for service in SERVICES:
        # Pods have no requests, and no autoscaler scales them.
        deployment, *_ = service_objects(service, "0", "0", replicas=(REPLICAS, REPLICAS))
        api.create(DEPLOYMENTS, deployment, namespace=NAMESPACE)
    await clock.sleep(STARTING)
    history.set_users(trial.users, clock.monotonic())
    await clock.sleep(WARM_UP)
    restart = {"spec": {"template": {"metadata": {"annotations": {_RESTARTED: "again"}}}}}
    for service in seed_rng(trial.seed, "rollouts").sample(SERVICES, len(SERVICES)):
        api.patch(DEPLOYMENTS, NAMESPACE, service, restart, MERGE_PATCH)
        await clock.sleep(ROLLOUT)
    await clock.sleep(SETTLING)


def _make_outcome(trial: Trial, timeline: Timeline, stretches: Sequence[Stretch]) -> Outcome:
    numbers = _seed_numbers(trial, "requests")
    parts = [np.zeros(0)]
    due = 0.0
    for each in stretches:
        due += each.traffic.rate * (each.until - each.since)
        number = math.floor(due)
        due -= number
        if number:
            parts.append(each.traffic.seconds(Chance.of(numbers, number)))
    return Outcome(
        trial,
        p95=round(Spread.of(np.concatenate(parts)).p95, _DIGITS),
        moves=sum(move.began >= 0 for move in timeline.moves),
        moves_in_all=len(timeline.moves),
        lost_pod_seconds=round(lost_pod_seconds(timeline), _DIGITS),
        within_nodes=_average_usage(stretches, lambda used: used.std(axis=1).mean()),
        between_nodes=_average_usage(stretches, lambda used: used.std(axis=0)[_LOADED].mean()),
    )


def _average_usage(stretches: Sequence[Stretch], value: Callable[[Floats], np.float64]) -> float:
    """Return the time mean of `value`, a function of the utilisation (array of nodes
    x resources).
    """
    values = [float(value(each.traffic.used / CAPACITY)) for each in stretches]
    lengths = [each.until - each.since for each in stretches]
    return round(float(np.average(values, weights=lengths)), _DIGITS)
