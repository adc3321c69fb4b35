"""Tenants of a soak: many with ordinary Deployments, and an odd one with extreme objects.

Every odd object is valid: a real API server accepts all of them.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from typing import Any

import attrs
import orjson

from kubedsm.kube.wire.annotations import MOVE_ANNOTATION
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm.process.clock import Clock
from kubedsm_lab.bench.api import APPS, CORE, POLICY, Api, deployment
from kubedsm_lab.emulator.paper import pod_spec

ODD_NAMESPACE = "odd"
#: One new Deployment in `BURST_EVERY` is part of a burst.
BURST_EVERY = 20
MOST_REPLICAS = 4
#: Seconds between two waves of the odd tenant.
_WAVE_PERIOD = 6.0
_NAMESPACES = 4
#: Labels selected by the odd tenant's PodDisruptionBudget.
_PROTECTED = {"kept": "always"}
_ABSURD = (
    {"cpu": "100T"}, {"cpu": "1E"}, {"cpu": "9223372036854775807"}, {"memory": "1e20"},
    {"memory": "9223372036854775807"}, {"cpu": "1", "example.com/device": "9223372036854775807"},
)  # fmt: skip
_GROUPS = {"deployments": APPS, "poddisruptionbudgets": POLICY}


@attrs.define
class OrdinaryTenants:
    """Ordinary load: Deployments and namespaces that are created, scaled and deleted."""

    api: Api
    clock: Clock
    rng: random.Random
    #: new Deployments a second, and most Deployments at a time
    rate: float
    most: int
    #: lifetime of a namespace in seconds
    lifetime: float
    #: Deployments of a burst
    burst: int = 1
    created: int = 0
    namespaces_deleted: int = 0
    _deployments: list[tuple[str, str]] = attrs.field(factory=list, init=False)
    _numbers: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)
    _namespaces: list[str] = attrs.field(factory=list, init=False)

    async def run(self) -> None:
        """Create, scale and delete Deployments and namespaces until cancelled."""
        for _ in range(_NAMESPACES):
            await self._add_namespace()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._change_deployments())
            tasks.create_task(self._replace_namespaces())

    async def _add_namespace(self) -> None:
        name = f"shop-{next(self._numbers)}"
        await self.api.create_namespace(name)
        self._namespaces.append(name)

    async def _change_deployments(self) -> None:
        while True:
            await self.clock.sleep(self.rng.expovariate(self.rate))
            for _ in range(1 if self.rng.randrange(BURST_EVERY) else self.burst):
                await self._add_deployment()
            if self._deployments and self.rng.randrange(2):
                replicas = self.rng.randint(0, MOST_REPLICAS)
                await self.api.scale(*self.rng.choice(self._deployments), replicas)
            while len(self._deployments) > self.most:
                at = self.rng.randrange(len(self._deployments))
                namespace, name = self._deployments.pop(at)
                await self.api.delete(namespace, "deployments", name, APPS)

    async def _add_deployment(self) -> None:
        namespace, name = self.rng.choice(self._namespaces), f"web-{next(self._numbers)}"
        requests = {
            "cpu": f"{self.rng.randrange(50, 400)}m",
            "memory": f"{self.rng.randrange(32, 256)}Mi",
        }
        body = deployment(name, self.rng.randint(1, MOST_REPLICAS), pod_spec(requests))
        if await self.api.create(namespace, "deployments", body, APPS):
            self.created += 1
            self._deployments.append((namespace, name))

    async def _replace_namespaces(self) -> None:
        while True:
            await self.clock.sleep(self.lifetime / _NAMESPACES)
            await self._add_namespace()
            gone = self._namespaces.pop(0)
            self._deployments = [each for each in self._deployments if each[0] != gone]
            await self.api.delete_namespace(gone)
            self.namespaces_deleted += 1


@attrs.define
class OddTenant:
    """Tenant that creates valid but extreme objects, such as unschedulable pods, in successive
    waves.
    """

    api: Api
    clock: Clock
    rng: random.Random
    #: keys of ODDITIES
    ways: Collection[str]
    #: most pods of one wave; a decision may exclude further pods
    pods: int
    #: node of pods created with a nodeName
    node: str
    _numbers: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)

    @property
    def asked(self) -> int:
        """Return the maximum number of the odd tenant's pods at any time, as two waves overlap."""
        return 2 * len(self.ways) * self.pods

    async def run(self) -> None:
        """Create and delete waves of extreme pods until cancelled."""
        await self.api.create_namespace(ODD_NAMESPACE)
        budget = {"selector": {"matchLabels": _PROTECTED}, "maxUnavailable": 0}
        await self._create_object(
            "poddisruptionbudgets", {"metadata": {"name": "none"}, "spec": budget}
        )
        async with asyncio.TaskGroup() as tasks:
            for way in self.ways:
                tasks.create_task(self._make_waves(ODDITIES[way]))

    async def _make_waves(self, oddity: "Oddity") -> None:
        last: list[tuple[str, str]] = []
        while True:
            number = next(self._numbers)
            wave = Wave(number, self.rng.randint(1, self.pods), self.node, self.rng)
            objects = [self._give_name(number, i, body) for i, body in enumerate(oddity(wave))]
            for plural, body in objects:
                await self._create_object(plural, body)
            await self.clock.sleep(_WAVE_PERIOD)
            for plural, name in last:
                await self.api.delete(ODD_NAMESPACE, plural, name, _GROUPS.get(plural, CORE))
            last = [(plural, body["metadata"]["name"]) for plural, body in objects]

    def _give_name(self, number: int, index: int, body: Any) -> tuple[str, Any]:
        body["metadata"]["name"] = f"odd-{number}-{index}"
        return "deployments" if body.get("kind") == "Deployment" else "pods", body

    async def _create_object(self, plural: str, body: Any) -> None:
        await self.api.create(ODD_NAMESPACE, plural, body, _GROUPS.get(plural, CORE))


@attrs.frozen
class Wave:
    """Pods that the odd tenant creates together; `node` is the nodeName of pods that are created
    already bound.
    """

    number: int
    pods: int
    node: str
    rng: random.Random


#: Yields pods and Deployments without names.
Oddity = Callable[[Wave], Iterator[Any]]


def absurd(wave: Wave) -> Iterator[Any]:
    """Yield pods with requests beyond the capacity of any node."""
    for index in range(wave.pods):
        yield {"metadata": {}, "spec": pod_spec(_ABSURD[index % len(_ABSURD)])}


def overlapping(wave: Wave) -> Iterator[Any]:
    """Yield pods with topology spread constraints, each with a different selector of the other
    pods.
    """
    for index in range(wave.pods):
        chosen = [str(n) for n in range(wave.pods) if n == index or wave.rng.randrange(2)]
        selector = {"matchExpressions": [{"key": "n", "operator": "In", "values": chosen}]}
        constraint = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }
        spec = pod_spec({"cpu": "1m"}, topologySpreadConstraints=[constraint])
        yield {"metadata": {"labels": {"n": str(index)}}, "spec": spec}


def forged(wave: Wave) -> Iterator[Any]:
    """Yield pods with forged migration labels and annotations, and a Deployment with the label.

    A PodDisruptionBudget of 0 protects the pods.
    """
    label = {MIGRATING_LABEL: f"w{wave.number}"}
    for index in range(wave.pods - MOST_REPLICAS):
        note = {"plan": "p", "replicaSet": "../../x", "target": wave.node, "since": 0}
        annotations = {MOVE_ANNOTATION: orjson.dumps(note).decode()}
        spec = pod_spec({"cpu": "1m"}, nodeName=wave.node)
        spec["schedulerName"] = "kubedsm" if index % 2 else "default-scheduler"
        metadata = {"labels": label | _PROTECTED, "annotations": annotations}
        yield {"metadata": metadata, "spec": spec}
    yield deployment("forged", MOST_REPLICAS, pod_spec({"cpu": "10m"}), label)


ODDITIES: Mapping[str, Oddity] = {
    "absurd": absurd,
    "overlapping": overlapping,
    "forged": forged,
}
