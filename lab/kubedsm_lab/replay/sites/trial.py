"""One trial of the multi-site experiment: a day of ten services at several sites, with one
contender.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs
import msgspec
import numpy as np

from kubedsm.app.assembly import Runtime
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Node, Pod, Tier
from kubedsm.process.clock import Clock
from kubedsm_lab.baselines.in_turn import Choose, InTurn, NodeUsage, of_tier, pick
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.baselines.sencillo import random_node
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, Object, Resource
from kubedsm_lab.emulator.emulated_cluster import EmulatedCluster
from kubedsm_lab.emulator.paper import NAMESPACE
from kubedsm_lab.replay.measures import lost_pod_seconds
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.recording import Record, TimelineRecorder
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.sites.city import group_stations
from kubedsm_lab.replay.sites.demand import (
    HOUR,
    HOURS,
    SERVICE_TIME,
    SERVICES,
    Demand,
    make_cluster,
)
from kubedsm_lab.replay.sites.nearness import (
    Clairvoyant,
    count_overload,
    serve_requests,
    split_timeline,
)
from kubedsm_lab.replay.virtual_time import VirtualClock, run_in_virtual_time
from kubedsm_lab.replay.world import LEAD_IN, scheduled, seed_rng, without_solver

_ZONE = "topology.kubernetes.io/zone"
#: scale-down stabilisation of the autoscalers in seconds
_STABILIZATION = 60
#: round trip between two sites, seconds
NEIGHBOUR = 0.05
_DIGITS = 6
_PLAIN = Configuration()
#: topology spread over zones, as a preference
_SPREAD = {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "ScheduleAnyway"}


@attrs.frozen
class Contender:
    """Scheduler under comparison."""

    configuration: Configuration = _PLAIN
    #: makes the choice of a node per pod from the demand and the clock; None: KubeDSM
    choose: Callable[[Demand, "Moment"], Choose] | None = None
    #: pods have a topology spread constraint over zones
    spreads: bool = False
    #: objective stated in the configuration with the demand by site, hour by hour; None: no demand
    objective: Mapping[str, str | float] | None = None


#: seconds since the day began
Moment = Callable[[], float]

OURS, EVENLY = "kubedsm + sites", "kubedsm + sites, even"
ZONE_SPREAD, PROPORTIONAL = "zone spread", "proportional"


def _choose_proportionally(
    demand: Demand,
    moment: Moment,
    pod: Pod,
    fitting: Sequence[Node],
    usage: NodeUsage,
    rng: random.Random,
) -> Node:
    """Choose an edge node at the site with the greatest shortfall below its part of the demand; a
    cloud node if no edge node is feasible.
    """
    edge = of_tier(fitting, Tier.EDGE)
    if not edge:
        return pick(rng, fitting)
    rates = demand.by_site(moment())[pod.workload.name]
    whole = sum(rates.values())
    held = dict.fromkeys(rates, 0)
    total = 1
    for name, pods in usage.pods.items():
        number = sum(other.workload == pod.workload for other in pods)
        total += number
        site = usage.nodes[name].labels[_ZONE]
        if site in held:
            held[site] += number

    def shortfall(node: Node) -> float:
        site = node.labels[_ZONE]
        return total * rates[site] / whole - held[site]

    most = max(map(shortfall, edge))
    return pick(rng, [node for node in edge if shortfall(node) == most])


CONTENDERS: Mapping[str, Contender] = {
    REFERENCE: Contender(choose=lambda *_: kube_scheduler),
    ZONE_SPREAD: Contender(choose=lambda *_: kube_scheduler, spreads=True),
    PROPORTIONAL: Contender(choose=lambda *given: partial(_choose_proportionally, *given)),
    "random": Contender(choose=lambda *_: random_node),
    KUBEDSM: Contender(),
    # Every request counts equally, as in the optimum; the default prefers even shares of services.
    OURS: Contender(objective={"weight": "traffic", "evenness": 0}),
    EVENLY: Contender(objective={"weight": "traffic"}),
}


class Trial(msgspec.Struct, frozen=True, rename="camel"):
    sites: int
    #: ratio of a site's peak demand to its trough
    peak: float
    contender: str
    seed: int


class Outcome(msgspec.Struct, frozen=True, rename="camel"):
    trial: Trial
    #: fraction of requests served at their own site, and an upper bound for equally many pods
    near: float
    bound: float
    #: upper bound on the fraction of requests served at the edge, for equally many pods
    edge_bound: float
    #: fractions of requests served at another site, and in the cloud
    elsewhere: float
    cloud: float
    #: fraction of requests to overloaded pods under PreferSameZone
    overload: float
    migrations: int
    lost_pod_seconds: float

    @property
    def reached(self) -> float:
        """Return the reached part of the greatest possible share of requests served near."""
        return self.near / self.bound if self.bound else 1.0

    @property
    def migrations_per_hour(self) -> float:
        return self.migrations / HOURS

    @property
    def response_ms(self) -> float:
        """Return the mean response time in ms: network and service time."""
        return _mean_ms(self.near, self.elsewhere, self.cloud)

    @property
    def best_ms(self) -> float:
        """Return a lower bound on the mean response time in ms, for equally many pods."""
        return _mean_ms(self.bound, self.edge_bound - self.bound, 1 - self.edge_bound)


def _mean_ms(near: float, elsewhere: float, cloud: float) -> float:
    to_edge, to_cloud = _PLAIN.latency.edge, _PLAIN.latency.cloud
    return 1000 * (near * to_edge + elsewhere * NEIGHBOUR + cloud * to_cloud + SERVICE_TIME)


def play(trial: Trial) -> Outcome:
    """Run a trial of the multi-site experiment in virtual time; deterministic but for the bound,
    whose solver has a time limit.
    """
    city = group_stations(trial.sites)
    demand = Demand.draw(city, trial.peak, seed_rng(trial.seed, "demand"))
    record = run_in_virtual_time(_play_day(trial, demand))
    return _measure(trial, demand, record)


async def _play_day(trial: Trial, demand: Demand) -> Record:
    clock, contender = VirtualClock(), CONTENDERS[trial.contender]
    configuration = without_solver(contender.configuration)
    scenario = demand.scenario
    start = clock.monotonic() + LEAD_IN

    def moment() -> float:
        return max(0.0, clock.monotonic() - start)

    def rate(_namespace: str, workload: str, _metric: str) -> float:
        return scenario.rate(workload, moment())

    policy = None
    if contender.choose is not None:
        goals = configuration.qos_target, configuration.objective_function
        policy = InTurn(contender.choose(demand, moment), *goals)
    rng = seed_rng(trial.seed, "cluster")
    cluster = EmulatedCluster(make_cluster(demand.city), clock, rng, metrics=rate)
    recorder = TimelineRecorder(scenario.services, configuration.tiers)
    rng = seed_rng(trial.seed, "scheduler")
    async with scheduled(cluster, clock, configuration, policy, rng, recorder) as stage:
        if contender.objective is not None:
            stating = _state_demand(stage.runtime, demand, contender.objective, clock, moment)
            stage.begin(stating)
        for service in SERVICES:
            for resource, obj in _make_objects(service, spreads=contender.spreads):
                cluster.api.create(resource, obj, namespace=NAMESPACE)
        await clock.sleep(start + HOURS * HOUR - clock.monotonic())
    return recorder.record(start, clock.monotonic())


async def _state_demand(
    runtime: Runtime,
    demand: Demand,
    objective: Mapping[str, str | float],
    clock: Clock,
    moment: Moment,
) -> None:
    """Write the demand by site of the hour into the configuration, as an operator's job does."""
    while True:
        services = {
            f"{NAMESPACE}/{name}": {"demand": rates, "rate": sum(rates.values())}
            for name, rates in demand.by_site(moment()).items()
        }
        document = {
            # The work of the solver is limited by counts, so that equal trials have equal results.
            "solver": {"budget": "1m"},
            "objective": objective,
            "services": services,
        }
        runtime.configuration.replace(json.dumps(document), "demand by site", clock.wall())
        await clock.sleep(HOUR - moment() % HOUR)


def _make_objects(service: ServiceSpec, *, spreads: bool) -> list[tuple[Resource, Object]]:
    found = service.objects(_STABILIZATION)
    if spreads:
        template = next(obj for resource, obj in found if resource is DEPLOYMENTS)["spec"][
            "template"
        ]
        selector = {"matchLabels": template["metadata"]["labels"]}
        template["spec"]["topologySpreadConstraints"] = [_SPREAD | {"labelSelector": selector}]
    return found


def _measure(trial: Trial, demand: Demand, record: Record) -> Outcome:
    site_of = {
        node.name: demand.city.names.index(node.labels[_ZONE])
        for node in record.nodes
        if node.tier is Tier.EDGE
    }
    timeline = record.timeline
    clairvoyant = Clairvoyant(demand, record.edge, record.samples, site_of)
    sums = np.zeros(7)
    for stretch in split_timeline(timeline, site_of, trial.sites):
        served, bound = serve_requests(demand, stretch), clairvoyant.bound(stretch)
        at_edge = clairvoyant.bound_edge(stretch)
        each = served.near, bound, at_edge, served.elsewhere, served.cloud
        overload, whole = count_overload(demand, stretch), demand.rates[:, :, stretch.hour].sum()
        sums += stretch.seconds * np.array([*each, overload, whole])
    near, greatest, at_edge, elsewhere, cloud, overloaded = (
        (sums[:-1] / sums[-1]).round(_DIGITS).tolist()
    )
    return Outcome(
        trial,
        near=near,
        bound=greatest,
        edge_bound=at_edge,
        elsewhere=elsewhere,
        cloud=cloud,
        overload=overloaded,
        migrations=len(timeline.moves),
        lost_pod_seconds=round(lost_pod_seconds(timeline), _DIGITS),
    )
