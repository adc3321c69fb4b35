"""One trial of the autoscaler experiment under one policy: search for an overload (FIND), then
recovery (HOLD).
"""

from collections import Counter
from collections.abc import Sequence

import attrs
import msgspec

from kubedsm.config.sections import BatchSettings
from kubedsm.config.settings import Configuration
from kubedsm.kube.wire import decoding
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import HORIZONTAL_POD_AUTOSCALERS, PODS
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.paper import NAMESPACE
from kubedsm_lab.replay.hpa.service import MOST, NAME, NODES, ModelledService, objects
from kubedsm_lab.replay.recording import TimelineRecorder
from kubedsm_lab.replay.timeline import Life, Timeline
from kubedsm_lab.replay.variants import contender
from kubedsm_lab.replay.virtual_time import VirtualClock, run_in_virtual_time
from kubedsm_lab.replay.world import (
    API_LATENCY,
    find_policy,
    scheduled,
    seed_rng,
    without_solver,
)
from loadgen.recovery import (
    FIND,
    FIND_SECONDS,
    HOLD_SECONDS,
    WINDOW_SECONDS,
    Mode,
    Sla,
    Window,
    clients_to_hold,
    ok_rate,
    recovery,
)

SLA = Sla()
#: seconds until all objects are deployed, and from then until FIND begins
STARTING = 30.0
#: seconds between two samples of autoscaler and pods, as in the authors' benchmark
LOOK = 5.0
_DIGITS = 6


class Trial(msgspec.Struct, frozen=True, rename="camel"):
    policy: str
    seed: int
    #: extra seconds before each pod has its node; None: scheduling takes no time at all
    later: float | None = 0.0


class Look(msgspec.Struct, frozen=True, rename="camel", array_like=True):
    """Sample of the autoscaler's replicas and the Ready pods; times are in seconds since the
    trial's stage FIND began.
    """

    at: float
    #: replicas of the autoscaler
    current: int
    desired: int
    pods: int
    ready: int


class Start(msgspec.Struct, frozen=True, array_like=True):
    """Delays of one pod's start: seconds from creation until bound and until Ready;
    None if never.
    """

    #: from created to bound, and to Ready
    scheduled: float | None
    ready: float | None

    @property
    def startup(self) -> float | None:
        """Return the seconds between the pod's bind and its readiness; None if either
        is missing.
        """
        if self.scheduled is None or self.ready is None:
            return None
        return self.ready - self.scheduled


class Outcome(msgspec.Struct, frozen=True, rename="camel"):
    trial: Trial
    #: during HOLD
    clients: int
    mode: Mode
    #: time to recover from HOLD's start; 0 and -1 as in `loadgen.recovery.Recovery`
    seconds: float
    #: p99 of each window of HOLD in seconds; None without an answer
    p99: tuple[float | None, ...]
    #: share of HOLD's windows that keep the SLA
    ok_rate: float
    #: samples that differ from the one before
    looks: tuple[Look, ...]
    #: pods created after HOLD began
    starts: tuple[Start, ...]
    #: most pods on one node at the end
    most_on_a_node: int

    @property
    def max_p99(self) -> float | None:
        return max((each for each in self.p99 if each is not None), default=None)

    @property
    def mean_p99(self) -> float | None:
        known = [each for each in self.p99 if each is not None]
        return sum(known) / len(known) if known else None

    @property
    def full(self) -> float | None:
        """Return when the maximum number of pods was Ready, in seconds since the trial's stage FIND
        began; None if never.
        """
        return next((each.at for each in self.looks if each.ready >= MOST), None)

    @property
    def rises(self) -> float | None:
        """Return when the autoscaler first raised the desired replicas, in seconds since the
        trial's stage FIND began.
        """
        return next((e.at for e in self.looks if e.desired > self.looks[0].desired), None)

    @property
    def wants_all(self) -> float | None:
        """Return when the autoscaler's desired replicas reached the maximum, in seconds since the
        trial's stage FIND began; None if never.
        """
        return next((each.at for each in self.looks if each.desired >= MOST), None)


def play(trial: Trial) -> Outcome:
    """Run one trial of the autoscaler experiment in virtual time; the result is deterministic.
    Raises UsageError.
    """
    return run_in_virtual_time(_play_trial(trial))


async def _play_trial(trial: Trial) -> Outcome:
    clock = VirtualClock()
    service = ModelledService(clock)
    recorder = TimelineRecorder((NAME,), Configuration().tiers)
    cluster = _make_cluster(trial, clock, service)
    cluster.api.store.subscribe(service.notice)
    chosen = contender(trial.policy, (NAME,))
    configuration = without_solver(chosen.reconfigure(Configuration()))
    latency = API_LATENCY
    if trial.later is None:
        configuration = attrs.evolve(configuration, batch=BatchSettings(idle=0, max=0))
        latency = 0.0
    policy = find_policy(chosen.policy, configuration)
    rng = seed_rng(trial.seed, "scheduler")
    async with scheduled(
        cluster, clock, configuration, policy, rng, recorder, latency=latency
    ) as stage:
        # The draws shift metrics-server, autoscaler syncs and load against each other.
        since = Timing().hpa_sync * seed_rng(trial.seed, "sync").random()
        until = since + Timing().hpa_sync * seed_rng(trial.seed, "load").random()
        await clock.sleep(STARTING + since - clock.monotonic())
        for resource, obj in objects():
            cluster.api.create(resource, obj, namespace=NAMESPACE)
        await clock.sleep(2 * STARTING + until - clock.monotonic())
        looks: list[Look] = []
        stage.begin(_sample_autoscaler(cluster.api, clock, looks))
        clients = await _find_clients(service, trial)
        hold = clock.monotonic()
        windows = [
            await service.window(clients, WINDOW_SECONDS, seed_rng(trial.seed, f"window {number}"))
            for number in range(round(HOLD_SECONDS / WINDOW_SECONDS))
        ]
    timeline = recorder.timeline(hold, clock.monotonic())
    return _make_outcome(trial, clients, windows, looks, timeline)


def _make_cluster(trial: Trial, clock: Clock, service: ModelledService) -> EmulatedCluster:
    # A pod that gets its node later is Ready as much later.
    timing = Timing(start_delay=Timing().start_delay + (trial.later or 0.0))
    rng = seed_rng(trial.seed, "cluster")
    spec = ClusterSpec(NODES, timing)
    return EmulatedCluster(spec, clock, rng, usage=service.usage)


async def _find_clients(service: ModelledService, trial: Trial) -> int:
    """Increase the number of clients until the service violates its SLA (stage FIND); return this
    number.
    """
    stages: list[tuple[int, Window]] = []
    for clients in FIND:
        rng = seed_rng(trial.seed, f"stage {clients}")
        stages.append((clients, await service.window(clients, FIND_SECONDS, rng)))
        if not stages[-1][1].good(SLA):
            break
    return clients_to_hold(stages, SLA) or FIND[0]


async def _sample_autoscaler(api: ApiServer, clock: Clock, looks: list[Look]) -> None:
    start = clock.monotonic()
    while True:
        status = api.get(HORIZONTAL_POD_AUTOSCALERS, NAMESPACE, NAME)["status"]
        pods = [decoding.pod(each) for each in api.list(PODS, namespace=NAMESPACE)]
        seen = Look(
            round(clock.monotonic() - start, _DIGITS),
            status.get("currentReplicas", 0),
            status.get("desiredReplicas", 0),
            len(pods),
            sum(pod.ready for pod in pods),
        )
        if not looks or msgspec.structs.replace(looks[-1], at=seen.at) != seen:
            looks.append(seen)
        await clock.sleep(LOOK)


def _make_outcome(
    trial: Trial, clients: int, windows: Sequence[Window], looks: Sequence[Look], timeline: Timeline
) -> Outcome:
    found = recovery(windows, SLA)
    new = [life for life in timeline.lives if life.created >= 0]
    on_nodes = Counter(life.node for life in timeline.lives if life.node and life.gone is None)
    return Outcome(
        trial,
        clients,
        found.mode,
        round(found.seconds, _DIGITS),
        tuple(None if each.p99 is None else round(each.p99, _DIGITS) for each in windows),
        ok_rate(windows, SLA) or 0.0,
        tuple(looks),
        tuple(_make_start(life) for life in new),
        max(on_nodes.values(), default=0),
    )


def _make_start(life: Life) -> Start:
    reached = (life.bound, life.served[0][0] if life.served else None)
    return Start(*(None if at is None else round(at - life.created, _DIGITS) for at in reached))
