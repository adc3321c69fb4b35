"""Tenants of a cluster that soaks: many that come and go, and one whose objects are odd.

All that the odd one asks for is valid; a real API server takes it.
"""

import asyncio
import random
from collections.abc import Collection, Iterator
from itertools import count
from typing import Any

import attrs

from kubedsm.process.clock import Clock
from kubedsm_lab.bench.api import APPS, POLICY, Api, deployment, pod_spec
from kubedsm_lab.bench.soak.oddities import KEPT, MOST_REPLICAS, ODDITIES, Oddity, Wave

ODD_NAMESPACE = "odd"
#: of the Deployments that come, one in so many comes with a burst
BURST_EVERY = 20


@attrs.define
class OrdinaryTenants:
    """Deployments that are made, scaled and deleted, and whole namespaces with them."""

    api: Api
    clock: Clock
    rng: random.Random
    #: new Deployments a second, and how many there are at most
    rate: float
    most: int
    #: seconds that a namespace lives
    lifetime: float
    #: that come at once, now and then
    burst: int = 1
    namespaces: int = 4
    created: int = 0
    namespaces_deleted: int = 0
    _alive: list[tuple[str, str]] = attrs.field(factory=list, init=False)
    _names: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)
    _homes: list[str] = attrs.field(factory=list, init=False)

    async def run(self) -> None:
        """Come and go until cancelled."""
        for _ in range(self.namespaces):
            await self._settle()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._come_and_go())
            tasks.create_task(self._leave())

    async def _settle(self) -> None:
        home = f"shop-{next(self._names)}"
        await self.api.create_namespace(home)
        self._homes.append(home)

    async def _come_and_go(self) -> None:
        while True:
            await self.clock.sleep(self.rng.expovariate(self.rate))
            for _ in range(1 if self.rng.randrange(BURST_EVERY) else self.burst):
                await self._come()
            if self._alive and self.rng.randrange(2):
                replicas = self.rng.randint(0, MOST_REPLICAS)
                await self.api.scale(*self.rng.choice(self._alive), replicas)
            while len(self._alive) > self.most:
                home, name = self._alive.pop(self.rng.randrange(len(self._alive)))
                await self.api.delete(home, "deployments", name, APPS)

    async def _come(self) -> None:
        home, name = self.rng.choice(self._homes), f"web-{next(self._names)}"
        requests = {
            "cpu": f"{self.rng.randrange(50, 400)}m",
            "memory": f"{self.rng.randrange(32, 256)}Mi",
        }
        body = deployment(name, self.rng.randint(1, MOST_REPLICAS), pod_spec(requests))
        if await self.api.create(home, "deployments", body, APPS):
            self.created += 1
            self._alive.append((home, name))

    async def _leave(self) -> None:
        while True:
            await self.clock.sleep(self.lifetime / self.namespaces)
            await self._settle()
            gone = self._homes.pop(0)
            self._alive = [(home, name) for home, name in self._alive if home != gone]
            await self.api.delete_namespace(gone)
            self.namespaces_deleted += 1


@attrs.define
class OddTenant:
    """Absurd amounts, spread selectors that overlap, and marks that look like ours."""

    api: Api
    clock: Clock
    rng: random.Random
    #: in which ways, of ODDITIES
    ways: Collection[str]
    #: how many in each, at most: what is too much for one decision may be left out of it
    pods: int
    #: where pods that it binds itself run
    node: str
    #: seconds between two of its waves
    pause: float = 6.0
    _names: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)

    @property
    def asked(self) -> int:
        """The most pods that it asks for at once: what is there while the next wave comes."""
        return 2 * len(self.ways) * self.pods

    async def run(self) -> None:
        """Be odd until cancelled."""
        await self.api.create_namespace(ODD_NAMESPACE)
        budget = {"selector": {"matchLabels": KEPT}, "maxUnavailable": 0}
        await self._create("poddisruptionbudgets", {"metadata": {"name": "none"}, "spec": budget})
        async with asyncio.TaskGroup() as tasks:
            for way in self.ways:
                tasks.create_task(self._again_and_again(ODDITIES[way]))

    async def _again_and_again(self, oddity: Oddity) -> None:
        last: list[tuple[str, str]] = []
        while True:
            number = next(self._names)
            wave = Wave(number, self.rng.randint(1, self.pods), self.node, self.rng)
            made = [self._named(number, i, body) for i, body in enumerate(oddity(wave))]
            for plural, body in made:
                await self._create(plural, body)
            await self.clock.sleep(self.pause)
            for plural, name in last:
                await self.api.delete(ODD_NAMESPACE, plural, name, _GROUPS.get(plural, "/api/v1"))
            last = [(plural, body["metadata"]["name"]) for plural, body in made]

    def _named(self, number: int, index: int, body: Any) -> tuple[str, Any]:
        body["metadata"]["name"] = f"odd-{number}-{index}"
        return "deployments" if body.get("kind") == "Deployment" else "pods", body

    async def _create(self, plural: str, body: Any) -> None:
        await self.api.create(ODD_NAMESPACE, plural, body, _GROUPS.get(plural, "/api/v1"))


_GROUPS = {"deployments": APPS, "poddisruptionbudgets": POLICY}
