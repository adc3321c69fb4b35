"""What is followed of the cluster: its pods, its nodes, and their surroundings."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from kubedsm.kube.client.port import Cluster
from kubedsm.kube.watching.reflector import Reflector, ReflectorStatistics
from kubedsm.kube.watching.watched import NODES, PODS, SURROUNDINGS
from kubedsm.model.events import ClusterEvent, KindKnown
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Tier
from kubedsm.model.surroundings import Surrounding
from kubedsm.process.clock import Clock
from kubedsm.process.supervisor import Supervisor

log = structlog.get_logger()


class FollowedCluster:
    """Each event goes to `handle`. `synced` is set once all is known that there is to be known."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        rng: random.Random,
        mirror: ClusterMirror,
        handle: Callable[[ClusterEvent], None],
        synced: asyncio.Event,
    ) -> None:
        self._mirror = mirror
        self._handle = handle
        self._synced = synced
        reflector: Callable[..., Reflector[Any, ClusterEvent]] = partial(
            Reflector, clock=clock, rng=rng, on_event=handle, report=log.warning
        )
        self._pods = reflector(cluster, PODS, on_synced=self._note_synced)
        nodes = reflector(cluster, NODES, on_synced=self._note_synced)
        self._reflectors = [nodes, self._pods] + [
            reflector(
                cluster,
                watched,
                on_synced=partial(self._note_known, kind),
                on_refused=self._note_synced,
            )
            for kind, watched in SURROUNDINGS.items()
        ]

    @property
    def watches(self) -> dict[str, ReflectorStatistics]:
        """How each watch does, by the kind of its objects."""
        return {reflector.kind: reflector.statistics for reflector in self._reflectors}

    async def run(self, supervisor: Supervisor) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(supervisor.keep("reflector", reflector.run))

    async def list_pods_anew(self) -> None:
        """Return when all pods are known as they are now, or were at some moment from now on."""
        await self._pods.list_anew()

    def _note_known(self, kind: type[Surrounding]) -> None:
        self._handle(KindKnown(kind))
        self._note_synced()

    def _note_synced(self) -> None:
        if self._synced.is_set() or not all(r.synced or r.refused for r in self._reflectors):
            return
        snapshot = self._mirror.snapshot()
        tiers = {tier: len(snapshot.of_tier(tier)) for tier in Tier}
        log.info("synced", nodes=len(snapshot.nodes), pods=len(snapshot.pods), **tiers)
        self._synced.set()
