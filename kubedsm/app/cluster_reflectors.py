"""Reflectors (client-go's informers) of the cluster, and the handler that applies their events."""

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import structlog

from kubedsm.config.settings import Configuration
from kubedsm.events.controller import Handle
from kubedsm.kube.watching.reflector import Reflector, ReflectorStatistics
from kubedsm.kube.wire.decoding import NODES, PODS, SURROUNDINGS
from kubedsm.model.events import Change, ClusterEvent, KindKnown, NodeApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Tier
from kubedsm.model.surroundings import Surrounding
from kubedsm.process.supervisor import Supervisor, Work
from kubedsm.scheduling.scheduling_queue import SchedulingQueue

log = structlog.get_logger()

Observer = Callable[[Change], None]


class EventHandler:
    """Handler of watch events: apply each to the cluster mirror, then notify the observers, and the
    scheduling queue last.

    `on_pod` observes added and changed pods, `on_gone` deleted pods, `on_other` everything else.
    Of the first, `on_request` observes pods with tenant annotations, and `on_owner` pods with
    another owner than before. Synchronous from end to end: all observers see the same state.
    """

    def __init__(
        self,
        mirror: ClusterMirror,
        queue: SchedulingQueue,
        supervisor: Supervisor,
        on_pod: Iterable[Observer] = (),
        on_gone: Iterable[Observer] = (),
        on_other: Iterable[Observer] = (),
        on_request: Iterable[Observer] = (),
        on_owner: Iterable[Observer] = (),
    ) -> None:
        self._mirror = mirror
        self._supervisor = supervisor
        last: Observer = partial(queue.observe, mirror=mirror)
        self._on_pod = (*on_pod, last)
        self._on_gone = (*on_gone, last)
        self._on_other = (*on_other, last)
        self._on_request = tuple(on_request)
        self._on_owner = tuple(on_owner)

    def handle(self, event: ClusterEvent) -> None:
        with self._supervisor.catch_errors("event", {"story": event}):
            change = self._mirror.apply(event)
            before, after = change.pod_before, change.pod_after
            if after is None:
                observers = self._on_gone if before is not None else self._on_other
            else:
                observers = self._on_pod
                if after.wishes is not None:
                    observers = self._on_request + observers
                if before is not None and before.workload != after.workload:
                    observers = self._on_owner + observers
            self._supervisor.notify_observers("event", observers, change, story=event)


class FollowedCluster:
    """Reflectors (client-go's informers) of pods, nodes, and all other objects that scheduling
    depends on.

    Events go to `apply`. The handle's `synced` is set once every kind is listed or refused.
    Configuration changes of the tier labels apply all nodes again.
    """

    def __init__(
        self,
        handle: Handle,
        rng: random.Random,
        apply: Callable[[ClusterEvent], None],
    ) -> None:
        cluster, self._mirror = handle.cluster, handle.mirror
        self._configuration = handle.configuration
        self._apply = apply
        self._synced = handle.synced
        reflector: Callable[..., Reflector[Any, ClusterEvent]] = partial(
            Reflector, clock=handle.clock, rng=rng, on_event=apply, report=log.warning
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
        self.loops: list[tuple[str, Work]] = [("reflector", r.run) for r in self._reflectors]
        self._configuration.observe(self._apply_tiers)

    @property
    def watches(self) -> dict[str, ReflectorStatistics]:
        """Statistics of each reflector, by the kind of the watched objects."""
        return {reflector.kind: reflector.statistics for reflector in self._reflectors}

    async def list_pods_anew(self) -> None:
        """List all pods of the cluster again; wait for a list that began after the call."""
        await self._pods.list_anew()

    def _apply_tiers(self, before: Configuration) -> None:
        tiers = self._configuration.current.tiers
        if tiers != before.tiers:
            self._mirror.tiers = tiers
            for node in self._mirror.nodes():
                self._apply(NodeApplied(node))

    def _note_known(self, kind: type[Surrounding]) -> None:
        self._apply(KindKnown(kind))
        self._note_synced()

    def _note_synced(self) -> None:
        if self._synced.is_set() or not all(r.synced or r.refused for r in self._reflectors):
            return
        # The first decision needs these aggregates, too: no pod waits for them then.
        snapshot = self._mirror.snapshot()
        index = snapshot.index
        counts = {tier.value: len(index.of_tier(tier)) for tier in Tier}
        counts["zones"] = len(set(index.zones.values()))
        log.info("synced", nodes=len(index), pods=len(snapshot.pods), **counts)
        self._synced.set()
