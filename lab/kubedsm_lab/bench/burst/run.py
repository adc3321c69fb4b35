"""Bursts of pods on any cluster: schedulers that run there, in turn, and what became of each.

One Deployment a burst, scaled from none to all at once, with a template of its own, gone before the
next one. Source: the burst benchmark of the rotating-score-cache paper. True times are those at
which one watch shows that a pod is there, bound, Ready; those that the API writes are whole
seconds.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any

import attrs

from kubedsm.kube.client.port import Cluster
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.watching.watched import PODS
from kubedsm.model.events import ClusterEvent, PodApplied
from kubedsm.model.model import Pod, Uid
from kubedsm.process.clock import Clock
from kubedsm_lab.bench.api import APPS, CORE, Api, deployment, pod_spec
from kubedsm_lab.bench.burst.figures import evenness, times
from kubedsm_lab.bench.burst.result import BurstResult, Figures, Round, Side
from kubedsm_lab.emulator.emulated_cluster import EMULATED_RUNTIME

REQUESTS = {"cpu": "10m", "memory": "16Mi"}
#: seconds between two looks
_LOOK = 0.05

#: in seconds, of each pod that has come so far
Moments = Mapping[Any, float]


@attrs.frozen(kw_only=True)
class Plan:
    schedulers: Sequence[str]
    pods: int
    rounds: int
    #: seconds that a burst may take until it is Ready, and until it is gone
    patience: float
    image: str
    #: seconds before each round, and before each burst
    silence: float = 0.0
    pause: float = 0.0


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
    plan: Plan
    nodes: Sequence[str]
    seen: Sightings

    async def burst(self, scheduler: str, name: str) -> Round:
        """Leaves it there. Raises ClusterError, TimeoutError if no pod comes, or is bound."""
        self.seen.forget()
        pods, patience = self.plan.pods, self.plan.patience
        labels = {"bench-run": name, "bench-scheduler": scheduler, "applicationId": name}
        spec = pod_spec(REQUESTS, schedulerName=scheduler)
        spec["containers"][0]["image"] = self.plan.image
        path = f"{APPS}/namespaces/{self.namespace}/deployments"
        await self.api.call("POST", path, deployment(name, 0, spec, labels), passing=())
        patch = {"spec": {"replicas": pods}}
        await self.api.call("PATCH", f"{path}/{name}", patch, passing=())
        await self._within(patience, lambda: len(self.seen.ready) >= pods)
        if not self.seen.bound:
            made = f"{len(self.seen.created)} of {pods} pods were created"
            raise TimeoutError(
                f"{scheduler}: {made}, and none of them was bound within {patience:g} s;"
                " is there a scheduler of that name?"
            )
        figures = self._figures(await self._listed())
        placed = Counter(pod.node_name or "" for pod in self.seen.pods.values())
        return Round(figures, {node: placed[node] for node in self.nodes})

    async def cleared(self, name: str) -> None:
        """Have all of it gone. Raises ClusterError, TimeoutError."""
        await self.api.delete(self.namespace, "deployments", name, APPS)
        patience = self.plan.patience
        due = self.clock.monotonic() + patience
        while await self._listed():
            if self.clock.monotonic() > due:
                raise TimeoutError(f"pods of {name} were there {patience:g} s after it went")
            await self.clock.sleep(_LOOK)

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
            **_named("createdToBound", times(_between(created, bound), self.plan.pods)),
            **_named("createdToReady", times(_between(created, ready), self.plan.pods)),
            **_named("boundToReady", times(_between(bound, ready), self.plan.pods)),
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
    plan: Plan,
    alone: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> BurstResult:
    """Let each scheduler place its pods, in turn, in each round, and leave nothing behind.

    Each round begins with another one. `alone`: within it that scheduler has the machine to itself.
    Raises ClusterError, and TimeoutError if nothing is bound within its time, or what was made does
    not go.
    """
    api, namespace = Api(cluster), f"kubedsm-burst-{rng.getrandbits(32):08x}"
    nodes = (await api.get(f"{CORE}/nodes"))["items"]
    names = [node["metadata"]["name"] for node in nodes]
    found: dict[str, list[Round]] = {scheduler: [] for scheduler in plan.schedulers}
    seen, synced = Sightings(clock), asyncio.Event()
    watched = attrs.evolve(PODS, path=f"{CORE}/namespaces/{namespace}/pods")
    await api.call("POST", f"{CORE}/namespaces", {"metadata": {"name": namespace}}, passing=())
    bursts = _Bursts(api, clock, namespace, plan, names, seen)
    try:
        async with asyncio.TaskGroup() as tasks:
            following = Reflector(cluster, watched, clock, rng, seen.handle, synced.set, report)
            watching = tasks.create_task(following.run())
            async with asyncio.timeout(plan.patience):
                await synced.wait()
            for number, order in enumerate(_orders(plan)):
                await clock.sleep(plan.silence)
                for scheduler in order:
                    await clock.sleep(plan.pause)
                    name = f"burst-{number}-{plan.schedulers.index(scheduler)}"
                    with alone(scheduler):
                        found[scheduler].append(await bursts.burst(scheduler, name))
                    await bursts.cleared(name)
            watching.cancel()
    finally:
        await api.delete_namespace(namespace)
    sides = tuple(Side(scheduler, rounds) for scheduler, rounds in found.items())
    return BurstResult(plan.pods, len(nodes), all(map(_is_emulated, nodes)), sides)


def _orders(plan: Plan) -> Iterator[Sequence[str]]:
    """Of the schedulers in each round."""
    for number in range(plan.rounds):
        first = number % len(plan.schedulers)
        yield (*plan.schedulers[first:], *plan.schedulers[:first])


def _is_emulated(node: dict[str, Any]) -> bool:
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return info.get("containerRuntimeVersion") == EMULATED_RUNTIME


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
