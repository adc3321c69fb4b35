"""Runner of the burst benchmark on any cluster: bursts of pods under alternating schedulers.

Each burst is a separate Deployment, scaled from 0 to all replicas at once and deleted before the
next burst. Source: the burst benchmark of the rotating-score-cache paper. Times of creation, bind
and readiness are observed by a watch; the API also records timestamps, in whole seconds.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any

import attrs

from kubedsm.kube.client.port import Cluster
from kubedsm.kube.wire.decoding import PODS
from kubedsm.model.events import ClusterEvent, PodApplied
from kubedsm.model.model import Pod, Uid
from kubedsm.process.clock import Clock
from kubedsm_lab.bench.api import APPS, CORE, Api, deployment, follow_cluster
from kubedsm_lab.bench.burst.result import (
    BurstResult,
    Figures,
    Round,
    Side,
    summarize_evenness,
    summarize_times,
)
from kubedsm_lab.bench.hollow_nodes import RUN, on_hollow_nodes
from kubedsm_lab.emulator.emulated_cluster import EMULATED_RUNTIME
from kubedsm_lab.emulator.paper import pod_spec

REQUESTS = {"cpu": "10m", "memory": "16Mi"}
_POLL_PERIOD = 0.05
#: Condition types, and creation: when a pod was created, bound and Ready.
_RECORDED = ("creation", "PodScheduled", "Ready")

#: Seconds by pod, for the observed pods.
Times = Mapping[Any, float]


@attrs.frozen(kw_only=True)
class Plan:
    """Plan of a burst benchmark: schedulers, pods, rounds, and pauses in seconds."""

    schedulers: Sequence[str]
    pods: int
    rounds: int
    #: deadline until the pods of a burst are Ready, and until all are deleted
    patience: float
    image: str
    #: namespace of the bursts, created and deleted
    namespace: str = attrs.field(factory=lambda: f"kubedsm-burst-{random.getrandbits(32):08x}")
    #: only hollow nodes, labelled with the namespace, take part
    hollow: bool = False
    #: wait before each round, and before each burst
    silence: float = 0.0
    pause: float = 0.0

    def orders(self) -> Iterator[Sequence[str]]:
        """Yield the order in which the schedulers run in each round, rotated by one position per
        round.
        """
        for number in range(self.rounds):
            first = number % len(self.schedulers)
            yield (*self.schedulers[first:], *self.schedulers[:first])


async def run(
    cluster: Cluster,
    clock: Clock,
    report: Callable[[str], None],
    plan: Plan,
    alone: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> BurstResult:
    """Create bursts of pods for each scheduler and round in a temporary namespace, and return the
    measurements. The namespace is always deleted.

    The context manager `alone` pauses the other schedulers. Raises ClusterError, and TimeoutError
    if no pod of a burst is bound, or if deleted pods remain.
    """
    api, namespace = Api(cluster), plan.namespace
    nodes = (await api.get(f"{CORE}/nodes"))["items"]
    if plan.hollow:
        nodes = [each for each in nodes if each["metadata"]["labels"].get(RUN) == namespace]
    names = [node["metadata"]["name"] for node in nodes]
    found: dict[str, list[Round]] = {scheduler: [] for scheduler in plan.schedulers}
    seen = Sightings(clock)
    watched = attrs.evolve(PODS, path=f"{CORE}/namespaces/{namespace}/pods")
    await api.call("POST", f"{CORE}/namespaces", {"metadata": {"name": namespace}}, ignore=())
    bursts = _Bursts(api, clock, plan, names, seen)
    try:
        following = follow_cluster(
            cluster, clock, seen.handle, watched, patience=plan.patience, report=report
        )
        async with following:
            for number, order in enumerate(plan.orders()):
                await clock.sleep(plan.silence)
                for scheduler in order:
                    await clock.sleep(plan.pause)
                    name = f"burst-{number}-{plan.schedulers.index(scheduler)}"
                    with alone(scheduler):
                        found[scheduler].append(await bursts.create_burst(scheduler, name))
                    await bursts.delete_burst(name)
    finally:
        await api.delete_namespace(namespace)
    sides = tuple(Side(scheduler, rounds) for scheduler, rounds in found.items())
    emulated = plan.hollow or all(map(_is_emulated, nodes))
    return BurstResult(plan.pods, len(nodes), emulated, sides)


@attrs.define
class Sightings:
    """Pods as observed by the watch: times of creation, bind and readiness, and the latest state of
    each.
    """

    clock: Clock
    created: dict[Uid, float] = attrs.field(factory=dict, init=False)
    bound: dict[Uid, float] = attrs.field(factory=dict, init=False)
    ready: dict[Uid, float] = attrs.field(factory=dict, init=False)
    pods: dict[Uid, Pod] = attrs.field(factory=dict, init=False)

    def handle(self, event: ClusterEvent) -> None:
        if not isinstance(event, PodApplied):
            return
        pod, now = event.pod, self.clock.monotonic()
        self.pods[pod.uid] = pod
        self.created.setdefault(pod.uid, now)
        if pod.node_name is not None:
            self.bound.setdefault(pod.uid, now)
        if pod.ready:
            self.ready.setdefault(pod.uid, now)

    def clear(self) -> None:
        for times in (self.created, self.bound, self.ready, self.pods):
            times.clear()


@attrs.define
class _Bursts:
    """Runner of bursts: creates, measures and deletes one Deployment per burst in one namespace."""

    api: Api
    clock: Clock
    plan: Plan
    nodes: Sequence[str]
    seen: Sightings

    async def create_burst(self, scheduler: str, name: str) -> Round:
        """Create a burst and wait until its pods are Ready; return the measurements.

        Raises ClusterError, and TimeoutError if no pod is created or bound.
        """
        self.seen.clear()
        pods, patience = self.plan.pods, self.plan.patience
        labels = {"bench-run": name, "bench-scheduler": scheduler, "applicationId": name}
        where = on_hollow_nodes(self.plan.namespace) if self.plan.hollow else {}
        spec = pod_spec(REQUESTS, schedulerName=scheduler, **where)
        spec["containers"][0]["image"] = self.plan.image
        path = f"{APPS}/namespaces/{self.plan.namespace}/deployments"
        await self.api.call("POST", path, deployment(name, 0, spec, labels), ignore=())
        patch = {"spec": {"replicas": pods}}
        await self.api.call("PATCH", f"{path}/{name}", patch, ignore=())
        due = self.clock.monotonic() + patience
        while len(self.seen.ready) < pods and self.clock.monotonic() < due:
            await self.clock.sleep(_POLL_PERIOD)
        if not self.seen.bound:
            created = f"{len(self.seen.created)} of {pods} pods were created"
            raise TimeoutError(
                f"{scheduler}: {created}, and none of them was bound within {patience:g} s;"
                " is there a scheduler of that name?"
            )
        recorded = [
            _read_recorded_times(pod) for pod in await self.api.list_pods(self.plan.namespace)
        ]
        by_moment: list[Times] = [
            {number: at[moment] for number, at in enumerate(recorded) if moment in at}
            for moment in _RECORDED
        ]
        figures = {
            **_add_prefix(
                "watch", self._summarize_spans(self.seen.created, self.seen.bound, self.seen.ready)
            ),
            **_add_prefix("api", self._summarize_spans(*by_moment)),
            **self._summarize_nodes(),
        }
        placed = Counter(pod.node_name or "" for pod in self.seen.pods.values())
        return Round(figures, {node: placed[node] for node in self.nodes})

    async def delete_burst(self, name: str) -> None:
        """Delete the Deployment of a burst and wait until its pods are gone.

        Raises ClusterError, TimeoutError.
        """
        await self.api.delete(self.plan.namespace, "deployments", name, APPS)
        patience = self.plan.patience
        due = self.clock.monotonic() + patience
        while await self.api.list_pods(self.plan.namespace):
            if self.clock.monotonic() > due:
                raise TimeoutError(f"pods of {name} exist {patience:g} s after its deletion")
            await self.clock.sleep(_POLL_PERIOD)

    def _summarize_spans(self, created: Times, bound: Times, ready: Times) -> dict[str, float]:
        began = min(created.values(), default=0.0)
        spans = {
            "createdToBound": (created, bound),
            "createdToReady": (created, ready),
            "boundToReady": (bound, ready),
        }
        figures = {"makespan": 1000 * (max(bound.values(), default=began) - began)}
        for name, (before, after) in spans.items():
            seconds = [at - before[pod] for pod, at in after.items() if pod in before]
            figures |= _add_prefix(name, summarize_times(seconds, self.plan.pods))
        return figures

    def _summarize_nodes(self) -> dict[str, float]:
        figures: dict[str, float] = {}
        placed = [(pod.node_name, pod.requests) for pod in self.seen.pods.values() if pod.node_name]
        for what in ("pods", "cpu", "memory"):
            amounts = dict.fromkeys(self.nodes, 0)
            for node, requests in placed:
                amounts[node] = amounts.get(node, 0) + requests.amount(what)
            used = [amount for amount in amounts.values() if amount]
            every = list(amounts.values())
            figures |= _add_prefix(f"onAllNodes.{what}", summarize_evenness(every))
            figures |= _add_prefix(f"onNodesUsed.{what}", summarize_evenness(used))
        return figures


def _is_emulated(node: dict[str, Any]) -> bool:
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return info.get("containerRuntimeVersion") == EMULATED_RUNTIME


def _read_recorded_times(pod: dict[str, Any]) -> dict[str, float]:
    """Return the pod's creation, bind and Ready times as recorded by the API, in Unix seconds."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    moments = {
        condition["type"]: condition["lastTransitionTime"]
        for condition in conditions
        if condition["status"] == "True" and condition.get("lastTransitionTime")
    }
    moments["creation"] = pod["metadata"]["creationTimestamp"]
    return {
        name: datetime.fromisoformat(moments[name]).timestamp()
        for name in _RECORDED
        if name in moments
    }


def _add_prefix(prefix: str, figures: Figures) -> dict[str, float]:
    return {f"{prefix}.{name}": value for name, value in figures.items()}
