"""An edge site that is cut off and comes back: what is lost by that, and what is done about it.

In virtual time on an emulated cluster, the same course for each scheduler: KubeDSM, KubeDSM to
which no node is at a site, and kube-scheduler's rules. Counted from the first cut to the end.
"""

import asyncio
import random
from typing import Any

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.config.sections import SiteSettings
from kubedsm.config.settings import Configuration
from kubedsm.kube.client.port import Cluster
from kubedsm.optimizer.policies.policy import Policy
from kubedsm.process.clock import VirtualClock
from kubedsm_lab.baselines.registry import POLICIES
from kubedsm_lab.emulator.actors.pod_state import is_ready, is_terminating, node_of
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS, Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import NAMESPACE, node, service_objects
from kubedsm_lab.replay.capacity import evicts_by_taint, serving, up_to_wanted, wanted
from kubedsm_lab.replay.plain_bindings import PlainBindings
from kubedsm_lab.replay.virtual_time import run_in_virtual_time

SITES = {"north": ("north-1", "north-2"), "south": ("south-1", "south-2")}
#: that is cut off
CUT = "north"
#: seconds: until all is in place, and from one look at all pods to the next
BEFORE, LOOK = 120.0, 1.0


@attrs.frozen
class Course:
    """So many cuts, and for how many seconds the site is away and back, and back in the end."""

    name: str
    cuts: int
    away: float
    back: float = 0.0
    after: float = 3600.0


COURSES = (
    Course("short cut", 1, 240.0),
    Course("long cut", 1, 900.0),
    Course("five cuts", 5, 480.0, 150.0),
)
#: replicas: what a pod is worth at the edge goes by how many there are
SERVICES = {"one": 2, "two": 3, "three": 4, "four": 5, "five": 6}
SCHEDULERS = ("kubedsm", "without sites", "kube-scheduler")


@attrs.define
class Tally:
    """Pod-seconds of all services, since the first cut."""

    wanted: float = 0.0
    #: by pods whose containers run; of these, at the edge; and by those known to be Ready
    serving: float = 0.0
    edge: float = 0.0
    heard: float = 0.0
    #: pods; those that Kubernetes evicted by taint had to be replaced, no others
    created: int = 0
    evicted: int = 0

    @property
    def needless(self) -> int:
        """Pods that were created in place of none that Kubernetes evicted."""
        return self.created - self.evicted

    def as_json(self) -> dict[str, Any]:
        return {
            "servingShare": round(self.serving / self.wanted, 4),
            "unheardPodSeconds": round(self.wanted - self.heard),
            "edgeShare": round(self.edge / self.wanted, 4),
            "created": self.created,
            "evicted": self.evicted,
            "needless": self.needless,
        }


def run() -> dict[str, Any]:
    results = {
        course.name: {scheduler: play(course, scheduler).as_json() for scheduler in SCHEDULERS}
        for course in COURSES
    }
    return {"emulated": True, "courses": results}


def play(course: Course, scheduler: str) -> Tally:
    return run_in_virtual_time(_play(course, scheduler))


def _spec() -> ClusterSpec:
    nodes: list[Object] = [node("cloud", "cloud", "64", "128Gi")]
    for site, names in SITES.items():
        for name in names:
            made = node(name, "edge", "4", "16Gi")
            made["metadata"]["labels"]["topology.kubernetes.io/zone"] = site
            nodes.append(made)
    return ClusterSpec(tuple(nodes))


async def _play(course: Course, scheduler: str) -> Tally:
    clock, tally = VirtualClock(), Tally()
    async with EmulatedCluster(_spec(), clock, random.Random(0)) as cluster:
        front = EmulatedFront(cluster.routes, clock, latency=0.01)
        runtime = _runtime(scheduler, front, clock)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(runtime.run())
            await runtime.synced.wait()
            for name, replicas in SERVICES.items():
                deployment, *_ = service_objects(name, "1", "950Mi")
                deployment["spec"]["replicas"] = replicas
                cluster.api.create(DEPLOYMENTS, deployment, namespace=NAMESPACE)
            await clock.sleep(BEFORE)

            def notice(change: ObjectChange) -> None:
                if change.resource is PODS:
                    tally.created += change.type == "ADDED"
                    tally.evicted += evicts_by_taint(change)

            unsubscribe = cluster.api.store.subscribe(notice)
            watching = tasks.create_task(_count(cluster, clock, tally))
            for _ in range(course.cuts):
                cluster.disconnect(*SITES[CUT])
                await clock.sleep(course.away)
                cluster.reconnect(*SITES[CUT])
                await clock.sleep(course.back)
            await clock.sleep(course.after)
            unsubscribe()
            watching.cancel()
            running.cancel()
    return tally


def _runtime(scheduler: str, front: Cluster, clock: VirtualClock) -> Runtime:
    configuration, rng = Configuration(), random.Random(1)
    policy: Policy | None = None
    if scheduler == "without sites":
        configuration = attrs.evolve(configuration, site=SiteSettings(label=()))
    elif scheduler in POLICIES and scheduler != "kubedsm":
        policy = POLICIES[scheduler](configuration.promise, configuration.objective_function)
        front = PlainBindings(front)
    return Runtime(front, configuration, clock, rng, policy=policy)


async def _count(cluster: EmulatedCluster, clock: VirtualClock, tally: Tally) -> None:
    edge = {name for names in SITES.values() for name in names}
    while True:
        runs, replicas = serving(cluster), wanted(cluster)
        tally.wanted += sum(replicas.values()) * LOOK
        tally.serving += up_to_wanted(runs, replicas) * LOOK
        at_edge = (pod for pod in runs if node_of(pod) in edge)
        tally.edge += up_to_wanted(at_edge, replicas) * LOOK
        pods = cluster.api.list(PODS)
        ready = (pod for pod in pods if is_ready(pod) and not is_terminating(pod))
        tally.heard += up_to_wanted(ready, replicas) * LOOK
        await clock.sleep(LOOK)
