"""A burst of pods on any cluster: schedulers that run there, in turn, and what became of each.

One Deployment a burst, scaled from none to all at once, with a template of its own, gone before the
next one. Source: the burst benchmark of the rotating-score-cache paper. True times are those at
which one watch shows that a pod is there, bound, Ready; those that the API writes are whole
seconds.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

import attrs

from kubedsm.bench.api import APPS, CORE, Api, deployment, pod_spec
from kubedsm.bench.burst_figures import evenness, times
from kubedsm.clock import Clock
from kubedsm.cluster.client.port import Cluster
from kubedsm.cluster.watching.reflector import Reflector
from kubedsm.cluster.watching.watched import PODS
from kubedsm.core.world.events import ClusterEvent, PodApplied
from kubedsm.core.world.model import Pod, Uid

REQUESTS = {"cpu": "10m", "memory": "16Mi"}
#: seconds between two looks
_LOOK = 0.05

#: by name, such as `watch.createdToBound.p99`
Figures = Mapping[str, float]
#: in seconds, of each pod that has come so far
Moments = Mapping[Any, float]


@attrs.frozen(slots=True)
class ClusterBurstResult:
    pods: int
    nodes: int
    #: of each scheduler the figures of each round
    rounds: Mapping[str, Sequence[Figures]]

    @property
    def medians(self) -> dict[str, dict[str, float]]:
        """Of each scheduler, over the rounds that have the figure."""
        return {name: _medians(found) for name, found in self.rounds.items()}

    @property
    def ratios(self) -> dict[str, dict[str, float]]:
        """The first scheduler's to each other one's: the median of the rounds' own."""
        first, *others = self.rounds
        return {
            other: _medians(
                {name: ours[name] / theirs[name] for name in ours if theirs.get(name)}
                for ours, theirs in zip(self.rounds[first], self.rounds[other], strict=True)
            )
            for other in others
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "pods": self.pods,
            "nodes": self.nodes,
            "rounds": min(map(len, self.rounds.values())),
            "schedulers": _rounded(self.medians),
            "ratiosTo": _rounded(self.ratios),
        }


def _medians(rounds: Iterable[Figures]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for figures in rounds:
        for name, value in figures.items():
            found.setdefault(name, []).append(value)
    return {name: median(values) for name, values in found.items()}


def _rounded(figures: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {
        who: {name: round(value, 4) for name, value in found.items()}
        for who, found in figures.items()
    }


@attrs.define
class Sightings:
    """When each pod was first seen, first seen bound, and first seen Ready; and its last state."""

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

    def forget(self) -> None:
        for seen in (self.created, self.bound, self.ready, self.pods):
            seen.clear()


@attrs.define
class _Bursts:
    """One burst after the other, in a namespace of their own."""

    api: Api
    clock: Clock
    namespace: str
    pods: int
    patience: float
    image: str
    nodes: Sequence[str]
    seen: Sightings

    async def burst(self, scheduler: str, number: int) -> dict[str, float]:
        """Raises ClusterError, TimeoutError if no pod comes, is bound, or goes."""
        self.seen.forget()
        name = f"burst-{number}"
        labels = {"bench-run": name, "bench-scheduler": scheduler, "applicationId": name}
        spec = pod_spec(REQUESTS, schedulerName=scheduler)
        spec["containers"][0]["image"] = self.image
        path = f"{APPS}/namespaces/{self.namespace}/deployments"
        await self.api.call("POST", path, deployment(name, 0, spec, labels), passing=())
        patch = {"spec": {"replicas": self.pods}}
        await self.api.call("PATCH", f"{path}/{name}", patch, passing=())
        await self._within(self.patience, lambda: len(self.seen.ready) >= self.pods)
        if not self.seen.bound:
            made = f"{len(self.seen.created)} of {self.pods} pods were created"
            raise TimeoutError(
                f"{scheduler}: {made}, and none of them was bound within {self.patience:g} s;"
                " is there a scheduler of that name?"
            )
        listed = await self._listed()
        await self.api.delete(self.namespace, "deployments", name, APPS)
        figures = self._figures(listed)
        due = self.clock.monotonic() + self.patience
        while await self._listed():
            if self.clock.monotonic() > due:
                raise TimeoutError(f"pods of {name} were there {self.patience:g} s after it went")
            await self.clock.sleep(_LOOK)
        return figures

    async def _within(self, seconds: float, true: Callable[[], bool]) -> None:
        due = self.clock.monotonic() + seconds
        while not true() and self.clock.monotonic() < due:
            await self.clock.sleep(_LOOK)

    async def _listed(self) -> list[dict[str, Any]]:
        listed = await self.api.get(f"{CORE}/namespaces/{self.namespace}/pods")
        items: list[dict[str, Any]] = listed["items"]
        return items

    def _figures(self, listed: Sequence[dict[str, Any]]) -> dict[str, float]:
        seen, written = self.seen, [_written(pod) for pod in listed]
        created, bound, ready = (
            {number: at[moment] for number, at in enumerate(written) if moment in at}
            for moment in _MOMENTS
        )
        return {
            **_named("watch", self._spans(seen.created, seen.bound, seen.ready)),
            **_named("api", self._spans(created, bound, ready)),
            **self._evenness(),
        }

    def _spans(self, created: Moments, bound: Moments, ready: Moments) -> dict[str, float]:
        began = min(created.values(), default=0.0)
        return {
            **_named("createdToBound", times(_between(created, bound), self.pods)),
            **_named("createdToReady", times(_between(created, ready), self.pods)),
            **_named("boundToReady", times(_between(bound, ready), self.pods)),
            "makespan": 1000 * (max(bound.values(), default=began) - began),
        }

    def _evenness(self) -> dict[str, float]:
        figures: dict[str, float] = {}
        placed = [(pod.node_name, pod.requests) for pod in self.seen.pods.values() if pod.node_name]
        for what in ("pods", "cpu", "memory"):
            got = dict.fromkeys(self.nodes, 0)
            for node, requests in placed:
                got[node] = got.get(node, 0) + requests.amount(what)
            used = [amount for amount in got.values() if amount]
            figures |= _named(f"onAllNodes.{what}", evenness(list(got.values())))
            figures |= _named(f"onNodesUsed.{what}", evenness(used))
        return figures


async def run(
    cluster: Cluster,
    clock: Clock,
    rng: random.Random,
    report: Callable[[str], None],
    *,
    schedulers: Sequence[str],
    pods: int,
    rounds: int,
    patience: float,
    image: str,
) -> ClusterBurstResult:
    """Let each scheduler place `pods` pods, in turn, `rounds` times, and leave nothing behind.

    Each round begins with another one. Raises ClusterError, and TimeoutError if nothing is bound
    within `patience` seconds, or what was made does not go.
    """
    api, namespace = Api(cluster), f"kubedsm-burst-{rng.getrandbits(32):08x}"
    nodes = [node["metadata"]["name"] for node in (await api.get(f"{CORE}/nodes"))["items"]]
    found: dict[str, list[Figures]] = {scheduler: [] for scheduler in schedulers}
    seen, synced = Sightings(clock), asyncio.Event()
    watched = attrs.evolve(PODS, path=f"{CORE}/namespaces/{namespace}/pods")
    await api.call("POST", f"{CORE}/namespaces", {"metadata": {"name": namespace}}, passing=())
    bursts = _Bursts(api, clock, namespace, pods, patience, image, nodes, seen)
    try:
        async with asyncio.TaskGroup() as tasks:
            following = Reflector(cluster, watched, clock, rng, seen.handle, synced.set, report)
            watching = tasks.create_task(following.run())
            async with asyncio.timeout(patience):
                await synced.wait()
            for number in range(rounds):
                first = number % len(schedulers)
                for turn, scheduler in enumerate((*schedulers[first:], *schedulers[:first])):
                    figures = await bursts.burst(scheduler, number * len(schedulers) + turn)
                    found[scheduler].append(figures)
            watching.cancel()
    finally:
        await api.delete_namespace(namespace)
    return ClusterBurstResult(pods, len(nodes), found)


#: when a pod was created, bound and Ready, as the API names them
_MOMENTS = ("creation", "PodScheduled", "Ready")


def _written(pod: dict[str, Any]) -> dict[str, float]:
    """When what happened to the pod, as the API has it written down: seconds since the epoch."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    moments = {
        condition["type"]: condition["lastTransitionTime"]
        for condition in conditions
        if condition["status"] == "True" and condition.get("lastTransitionTime")
    }
    moments["creation"] = pod["metadata"]["creationTimestamp"]
    return {
        name: datetime.fromisoformat(moments[name]).timestamp()
        for name in _MOMENTS
        if name in moments
    }


def _between(before: Moments, after: Moments) -> list[float]:
    return [at - before[which] for which, at in after.items() if which in before]


def _named(prefix: str, figures: Figures) -> dict[str, float]:
    return {f"{prefix}.{name}": value for name, value in figures.items()}
