"""`kubedsm bench site`: availability of services while an edge site is partitioned and after
reconnection.

Each scheduler has the same outage in virtual time on an emulated cluster: KubeDSM, KubeDSM without
site labels, and kube-scheduler's rules. Measurements count from the first partition to the end.
"""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import attrs

from kubedsm.config.sections import SiteSettings
from kubedsm.config.settings import Configuration
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.bench.report import Report
from kubedsm_lab.emulator.api.object_state import (
    condition_of,
    is_ready,
    is_terminating,
    labels_of,
    node_of,
    reason_of,
)
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS, Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.paper import NAMESPACE, node, service_objects
from kubedsm_lab.replay.virtual_time import VirtualClock, run_in_virtual_time
from kubedsm_lab.replay.world import find_policy, scheduled

SITES = {"north": ("north-1", "north-2"), "south": ("south-1", "south-2")}
PARTITIONED = "north"
#: Seconds until all pods run, and between samples.
WARM_UP, SAMPLE_PERIOD = 120.0, 1.0


@attrs.frozen
class Outage:
    """Plan of an edge site's outage: number of network partitions, and seconds partitioned,
    reconnected in between, and observed afterwards.
    """

    name: str
    cuts: int
    away: float
    back: float = 0.0
    after: float = 3600.0


OUTAGES = (
    Outage("short cut", 1, 240.0),
    Outage("long cut", 1, 900.0),
    Outage("five cuts", 5, 480.0, 150.0),
)
#: Replicas by service, which determine an edge pod's contribution to the QoS score.
SERVICES = {"one": 2, "two": 3, "three": 4, "four": 5, "five": 6}
WITHOUT_SITES = "without sites"
SCHEDULERS = (KUBEDSM, WITHOUT_SITES, "kube-scheduler")


@attrs.define
class Tally:
    """Totals over all services since the first partition, in pod-seconds: desired, serving, at the
    edge and Ready pods.
    """

    wanted: float = 0.0
    #: by pods with running containers; by edge pods among these; by pods reported as Ready
    serving: float = 0.0
    edge: float = 0.0
    ready: float = 0.0
    created: int = 0
    #: pods evicted by taint; each needs a replacement
    evicted: int = 0

    @property
    def needless(self) -> int:
        """Return the number of pods created beyond the replacements of pods that taints evicted."""
        return self.created - self.evicted

    def as_json(self) -> dict[str, float]:
        return {
            "servingShare": round(self.serving / self.wanted, 4),
            "unheardPodSeconds": round(self.wanted - self.ready),
            "edgeShare": round(self.edge / self.wanted, 4),
            "created": self.created,
            "evicted": self.evicted,
            "needless": self.needless,
        }


def run() -> Report:
    courses = {
        outage.name: {name: play(outage, name).as_json() for name in SCHEDULERS}
        for outage in OUTAGES
    }
    headings = ("serving", "not Ready", "at edge", "created", "evicted", "needless")
    tables = [
        table(
            ("", *headings),
            [(name, *(f"{value:g}" for value in row.values())) for name, row in rows.items()],
            title=f"{outage} of an edge site (emulated)",
            numbers=headings,
        )
        for outage, rows in courses.items()
    ]
    note = (
        "serving, at edge: share of the desired pods; not Ready: pod-seconds without a pod known"
        " to be Ready; needless: pods created without an eviction."
    )
    return Report({"emulated": True, "courses": courses}, tables, [note])


def play(outage: Outage, scheduler: str) -> Tally:
    return run_in_virtual_time(_play_outage(outage, scheduler))


async def _play_outage(outage: Outage, scheduler: str) -> Tally:
    clock, tally = VirtualClock(), Tally()
    cluster = EmulatedCluster(_cluster_spec(), clock, random.Random(0))
    configuration = Configuration()
    if scheduler == WITHOUT_SITES:
        configuration = attrs.evolve(configuration, site=SiteSettings(label=()))
    policy = find_policy(KUBEDSM if scheduler == WITHOUT_SITES else scheduler, configuration)
    async with scheduled(cluster, clock, configuration, policy, random.Random(1)) as stage:
        for name, replicas in SERVICES.items():
            deployment, *_ = service_objects(name, "1", "950Mi")
            deployment["spec"]["replicas"] = replicas
            cluster.api.create(DEPLOYMENTS, deployment, namespace=NAMESPACE)
        await clock.sleep(WARM_UP)

        def count_pods(change: ObjectChange) -> None:
            if change.resource is PODS:
                tally.created += change.type == "ADDED"
                tally.evicted += evicts_by_taint(change)

        unsubscribe = cluster.api.store.subscribe(count_pods)
        stage.begin(_sample_pods(cluster, clock, tally))
        for _ in range(outage.cuts):
            cluster.disconnect(*SITES[PARTITIONED])
            await clock.sleep(outage.away)
            cluster.reconnect(*SITES[PARTITIONED])
            await clock.sleep(outage.back)
        await clock.sleep(outage.after)
        unsubscribe()
    return tally


def _cluster_spec() -> ClusterSpec:
    nodes: list[Object] = [node("cloud", "cloud", "64", "128Gi")]
    for site, names in SITES.items():
        for name in names:
            edge = node(name, "edge", "4", "16Gi")
            edge["metadata"]["labels"]["topology.kubernetes.io/zone"] = site
            nodes.append(edge)
    return ClusterSpec(tuple(nodes))


async def _sample_pods(cluster: EmulatedCluster, clock: VirtualClock, tally: Tally) -> None:
    edge = {name for names in SITES.values() for name in names}
    while True:
        runs, replicas = list_serving(cluster), list_wanted(cluster)
        pods: list[Any] = list(cluster.api.list(PODS))
        ready = (pod for pod in pods if is_ready(pod) and not is_terminating(pod))
        at_edge = (pod for pod in runs if node_of(pod) in edge)
        tally.wanted += sum(replicas.values()) * SAMPLE_PERIOD
        tally.serving += up_to_wanted(runs, replicas) * SAMPLE_PERIOD
        tally.edge += up_to_wanted(at_edge, replicas) * SAMPLE_PERIOD
        tally.ready += up_to_wanted(ready, replicas) * SAMPLE_PERIOD
        await clock.sleep(SAMPLE_PERIOD)


def list_wanted(cluster: EmulatedCluster) -> dict[str, int]:
    """Return the desired replicas of every Deployment by name."""
    deployments = cluster.api.list(DEPLOYMENTS)
    return {each["metadata"]["name"]: int(each["spec"]["replicas"]) for each in deployments}


def list_serving(cluster: EmulatedCluster) -> list[Object]:
    """Return the pods whose containers run, including pods on disconnected nodes."""
    up = cluster.serving()
    return [pod for pod in cluster.api.list(PODS) if pod["metadata"]["uid"] in up]


def up_to_wanted(pods: Iterable[Object], replicas: dict[str, int]) -> int:
    """Count the pods of all Deployments, each Deployment with at most its desired replicas."""
    counts = Counter(labels_of(pod).get("app", "") for pod in pods)
    return sum(min(counts[name], number) for name, number in replicas.items())


def evicts_by_taint(change: ObjectChange) -> bool:
    """Return whether the change begins a pod's deletion by taint eviction from an
    unreachable node.
    """
    return (
        change.resource is PODS
        and change.type == "MODIFIED"
        and _by_taint(change.object)
        and not _by_taint(change.previous)
    )


def _by_taint(pod: Object | None) -> bool:
    found = None if pod is None else condition_of(pod, "DisruptionTarget")
    return reason_of(found) == "DeletionByTaintManager"
