"""The running scheduler: reflectors, event handler, scheduler, placement manager, recorder."""

import asyncio
import random

import structlog

from kubedsm.clock import Clock
from kubedsm.cluster.port import Cluster
from kubedsm.cluster.reflector import Reflector
from kubedsm.cluster.watched import NODES, PODS
from kubedsm.config import Configuration
from kubedsm.core.mirror import Change, ClusterMirror
from kubedsm.core.model import Pod, Tier
from kubedsm.core.policies.kubedsm import KubeDSM
from kubedsm.core.policies.policy import Policy
from kubedsm.event_handler import EventHandler
from kubedsm.placement_manager import PlacementManager
from kubedsm.recorder import Recorder
from kubedsm.scheduler import Scheduler
from kubedsm.scheduling_queue import SchedulingQueue
from plans.steps import Step

log = structlog.get_logger()


def policy_of(configuration: Configuration) -> Policy:
    return KubeDSM(configuration.promise, configuration.objective_function)


class Runtime:
    """One scheduler on one cluster. `run` ends when it is cancelled, or by the first error.

    `instance` names this process in the Events it writes. The policy is the configured KubeDSM
    unless another one is to be compared with it.
    """

    def __init__(
        self,
        cluster: Cluster,
        configuration: Configuration,
        clock: Clock,
        rng: random.Random,
        instance: str = "kubedsm",
        policy: Policy | None = None,
    ) -> None:
        self.mirror = ClusterMirror(configuration.scheduler_name, configuration.tiers)
        self.queue = SchedulingQueue(clock, rng)
        self.synced = asyncio.Event()
        self.manager = PlacementManager(cluster, self.mirror, clock, self._settled)
        self._recorder = Recorder(cluster, clock, self.manager.quiet, instance)
        self._scheduler = Scheduler(
            mirror=self.mirror,
            queue=self.queue,
            manager=self.manager,
            recorder=self._recorder,
            policy=policy or policy_of(configuration),
            batch=configuration.batch,
            clock=clock,
            rng=rng,
            synced=self.synced,
        )
        handler = EventHandler(self.mirror, self.queue, configuration.scheduler_name, self._observe)
        self._reflectors = [
            Reflector(cluster, watched, clock, rng, handler.handle, self._note_synced, log.warning)
            for watched in (NODES, PODS)
        ]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.manager.run())
            tasks.create_task(self._recorder.run())
            tasks.create_task(self._scheduler.run())
            for reflector in self._reflectors:
                tasks.create_task(reflector.run())

    def _observe(self, change: Change) -> None:
        self.manager.observe(change)
        self._scheduler.changed(change)

    def _settled(self, pod: Pod, step: Step) -> None:
        self._scheduler.settled(pod, step)

    def _note_synced(self) -> None:
        if all(reflector.synced for reflector in self._reflectors):
            snapshot = self.mirror.snapshot()
            tiers = {tier: len(snapshot.of_tier(tier)) for tier in Tier}
            log.info("synced", nodes=len(snapshot.nodes), pods=len(snapshot.pods), **tiers)
            self.synced.set()
