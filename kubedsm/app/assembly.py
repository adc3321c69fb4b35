"""The running scheduler: all its parts on one cluster."""

import asyncio
import random
from functools import partial
from pathlib import Path

from kubedsm.app.annotation_warnings import IgnoredAnnotations
from kubedsm.app.cluster_reflectors import FollowedCluster
from kubedsm.app.event_handler import EventHandler
from kubedsm.app.live_configuration import FollowedConfiguration
from kubedsm.app.load_monitor import LoadMonitor
from kubedsm.app.mismatch_warnings import MismatchWarnings
from kubedsm.app.pause_switch import PauseSwitch
from kubedsm.app.prometheus import Asker, InAThread
from kubedsm.app.slow_edge_warnings import SlowerEdges
from kubedsm.config.current import CurrentConfiguration, as_given
from kubedsm.config.settings import Configuration
from kubedsm.events.event_recorder import REQUEST_TIMEOUT, EventRecorder
from kubedsm.events.event_writer import EventWriter
from kubedsm.events.workload_events import WorkloadEvents
from kubedsm.execution.bind_calls import BindCalls
from kubedsm.execution.dry_run import WAITING, only_said
from kubedsm.execution.limits import Limits, MoveLimits
from kubedsm.execution.migration_calls import StepCalls
from kubedsm.execution.migrations import Moves
from kubedsm.execution.orphan_sweep import LeftBehind
from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.execution.tier_labels import TierKeeper
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.decisions import Decisions
from kubedsm.explain.listener import Listener, Listeners
from kubedsm.explain.subjects import Explanations
from kubedsm.kube.client.port import Cluster
from kubedsm.kube.watching.config_map import ConfigMapName, FollowedConfigMap
from kubedsm.kube.watching.reflector import ReflectorStatistics
from kubedsm.model.events import NodeApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod, Uid
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.policies.policy import MigratingPolicy, Policy
from kubedsm.planner.mirror_replication import ToldMirror
from kubedsm.planner.requests import InProcess, Known, Thinker
from kubedsm.planner.what_if import WhatIf
from kubedsm.planner.worker import Worker
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.process.supervisor import Supervisor
from kubedsm.rebalancing.migration_effects import MoveEffects
from kubedsm.rebalancing.migration_requests import MoveRequests
from kubedsm.rebalancing.packer import Packer
from kubedsm.rebalancing.suggester import Suggester
from kubedsm.scheduling.decider import Deciding
from kubedsm.scheduling.outcomes import Outcomes
from kubedsm.scheduling.planned_batches import Thoughts
from kubedsm.scheduling.preemptor import Preemptor
from kubedsm.scheduling.scheduler import Scheduler
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm.scheduling.site_monitor import Sites
from kubedsm.scheduling.work_summary import WorkDone
from kubedsm.scheduling.workload_changes import WorkloadChanges


class Runtime:
    """One scheduler on one cluster. `run` ends when it is cancelled.

    `instance` names this process in the Events it writes. The policy is the configured KubeDSM
    unless another one is to be compared with it. The configuration follows its `source`, if it has
    one. The pause switch is in the same ConfigMap; else in `kubedsm` in the `namespace`.
    `listener` hears what happens. What takes long is thought about in this process, or `apart`, in
    a worker process. `prometheus`: how one is asked, over HTTP if not said.
    `dry_run`: the cluster takes no writes, nothing that is decided comes true (see `dry_run`).
    """

    def __init__(
        self,
        cluster: Cluster,
        configuration: Configuration,
        clock: Clock,
        rng: random.Random,
        instance: str = "kubedsm",
        policy: Policy | None = None,
        namespace: str = "kubedsm",
        source: Path | ConfigMapName | None = None,
        listener: Listener | None = None,
        *,
        apart: bool = False,
        prometheus: Asker | None = None,
        dry_run: bool = False,
    ) -> None:
        self._cluster = cluster
        self.configuration = CurrentConfiguration(
            configuration, clock.wall(), adjusted=only_said if dry_run else as_given
        )
        self._other_policy = policy
        self._clock = clock
        # Its own, so that what policies leave to chance depends on nothing else.
        chance = random.Random(rng.getrandbits(64))
        self._listener = listener or Listener()
        self._limits = WAITING if dry_run else Limits()
        self.dry_run = dry_run
        self.work_done = WorkDone(dry_run)
        self._said = SaidByCause(clock)
        self.supervisor = Supervisor(clock, rng)
        self.synced = asyncio.Event()
        self.queue = SchedulingQueue(clock, rng)
        followed: dict[Uid, str] = {}
        self.mirror = (ToldMirror if apart else ClusterMirror)(
            configuration.scheduler_name, configuration.tiers, followed.keys(), self.queue.help
        )
        self.thinker = self._thinker(followed, instance)
        self._record = DecisionRecord(clock)
        self.decisions = Decisions(self._record, self.mirror, self._configured_policy)
        binds = BindCalls(
            cluster,
            self.mirror,
            self._said,
            at_once=self._limits.binds_in_flight,
            timeout=self._limits.request_timeout,
        )
        self._recorder = self._writer_of_events(followed, binds.none_under_way, instance)
        writer = EventWriter(cluster, clock, self._said, instance, REQUEST_TIMEOUT, self._listener)
        self._workload_events = WorkloadEvents(writer, self.supervisor)
        self._effects = MoveEffects(self.decisions, clock, self.configuration, self._listener)
        self.manager = self._runner_of_plans(followed, binds)
        self._changes = WorkloadChanges(
            clock, configuration.scheduler_name, self.manager.follows, self.mirror.claimant
        )
        self._preemptor = self._maker_of_room()
        self.sites = Sites(self.mirror, self.configuration, clock, self.synced)
        self._outcomes = Outcomes(
            self.queue,
            self.manager,
            self._recorder,
            self._workload_events,
            self._record,
            self._preemptor,
            self._listener,
            self.work_done,
        )
        self._scheduler = self._decider(chance, binds)
        self._settings = FollowedConfiguration(
            source,
            namespace,
            cluster,
            clock,
            # Its own chance, as others have.
            random.Random(instance),
            self.configuration,
            self._recorder,
            self._said,
        )
        self.suggester = self._finder_of_moves()
        self.explanations = Explanations(
            self.decisions,
            self.thinker,
            lambda: self.configuration.current,
            self.sites.away,
            self._suggestion_request,
        )
        self.packer = self._packer()
        self._move_requests = self._taker_of_requests(instance)
        self._tiers = TierKeeper(self.mirror, configuration.scheduler_name, self._recorder.retiered)
        self._handler = self._event_handler(binds)
        self._followed = FollowedCluster(
            cluster, clock, rng, self.mirror, self._handler.handle, self.synced
        )
        self._load_monitor = self._asker_for_load(prometheus or InAThread())
        self._mismatches = MismatchWarnings(
            self.mirror, self.configuration, clock, self._settings.tell_unmatched
        )
        self.configuration.observe(self._reconfigured)

    def _thinker(self, followed: dict[Uid, str], instance: str) -> Thinker:
        if not isinstance(self.mirror, ToldMirror):
            return InProcess(
                Known(
                    self.mirror,
                    followed.keys(),
                    lambda: self.configuration.current,
                    self._policy,
                    self._clock,
                )
            )
        return Worker(
            self.mirror,
            followed.keys(),
            self.configuration,
            self._clock,
            # Its own chance, as others have.
            random.Random(instance),
            self._said,
            self._listener,
        )

    def _writer_of_events(
        self, followed: dict[Uid, str], binds_idle: asyncio.Event, instance: str
    ) -> EventRecorder:
        return EventRecorder(
            self._cluster,
            self._clock,
            self.mirror,
            followed.keys(),
            binds_idle,
            self.supervisor,
            self._said,
            instance,
            self.decisions.summary,
            self._listener,
        )

    def _decider(self, chance: random.Random, binds: BindCalls) -> Scheduler:
        deciding = Deciding(
            self.mirror,
            self.queue,
            self.configuration,
            self._policy,
            self._clock,
            chance,
            self._changes,
            self.sites,
        )
        thoughts = Thoughts(
            self.queue, deciding, self._outcomes, self.thinker, self.supervisor, self._clock
        )
        return Scheduler(deciding, self._outcomes, thoughts, binds, self.synced, self.supervisor)

    def _configured_policy(self) -> KubeDSM:
        return self.configuration.current.policy

    def _policy(self) -> Policy:
        return self._other_policy or self.configuration.current.policy

    def _runner_of_plans(self, followed: dict[Uid, str], binds: BindCalls) -> PlacementManager:
        timeout = self._limits.request_timeout
        step_calls = StepCalls(
            self._cluster,
            self._clock,
            timeout,
            self.configuration,
            self._said,
            self._recorder.left_to_collector,
        )
        self._moves = Moves(
            self.mirror,
            MoveLimits(self.configuration),
            self._clock,
            self._released,
            self._effects.begun,
            lambda ended: self._outcomes.move_ended(self._effects.ended(ended)),
        )
        left_behind = LeftBehind(
            self.mirror,
            step_calls,
            self._clock,
            on_ignored=self._recorder.mark_ignored,
            on_stuck=self._recorder.stuck,
            on_ended=self._recorder.taken_over,
        )
        return PlacementManager(
            self.mirror,
            followed,
            self._clock,
            binds,
            step_calls,
            self._moves,
            left_behind,
            lambda pod, step: self._outcomes.settled(pod, step),  # noqa: PLW0108 - made later
            self.supervisor,
            self._limits,
            Listeners(self._record, self._listener),
        )

    def _maker_of_room(self) -> Preemptor:
        return Preemptor(
            mirror=self.mirror,
            queue=self.queue,
            cluster=self._cluster,
            recorder=self._recorder,
            clock=self._clock,
            configuration=self.configuration,
            thinker=self.thinker,
            timeout=self._limits.request_timeout,
            said=self._said,
            listener=self._listener,
            as_kube_scheduler=self._other_policy is not None,
        )

    def _finder_of_moves(self) -> Suggester | None:
        other = self._other_policy
        if other is not None and not isinstance(other, MigratingPolicy):
            return None
        return Suggester(
            mirror=self.mirror,
            queue=self.queue,
            manager=self.manager,
            recorder=self._recorder,
            record=self._record,
            thinker=self.thinker,
            configuration=self.configuration,
            clock=self._clock,
            synced=self.synced,
            paused=self._settings.pause_switch,
            preempting=lambda: self._preemptor.busy,
            listener=self._listener,
            changes=self._changes,
            sites=self.sites,
            moves=self._moves,
        )

    def _suggestion_request(self) -> WhatIf | None:
        """Return the request for the migrations that would be suggested now, if possible."""
        if self.suggester is None or not self.synced.is_set():
            return None
        return self.suggester.what_if((), ())

    def _packer(self) -> Packer | None:
        if self.suggester is None or not isinstance(self._policy(), KubeDSM):
            return None
        return Packer.beside(self.suggester, self._moves, self._preemptor)

    def _taker_of_requests(self, instance: str) -> MoveRequests | None:
        if self.suggester is None or self.dry_run:
            return None
        config_map = self._settings.config_map
        # Its own chance, as others have.
        rng = random.Random(instance)
        approvals = FollowedConfigMap(self._cluster, config_map.name.approvals, self._clock, rng)
        return MoveRequests.beside(
            self.suggester, self._moves, self._cluster, config_map, approvals, instance
        )

    def _event_handler(self, binds: BindCalls) -> EventHandler:
        ours = self.configuration.current.scheduler_name
        ignored = IgnoredAnnotations(ours, self._clock, self._recorder.annotation_ignored)
        of_any_pod = (
            self.sites.observe,
            self._changes.observe,
            self.manager.observe,
            self._preemptor.observe,
            self._listener.changed,
        )
        samples = (self._effects.observe, SlowerEdges(self._workload_events).observe)
        return EventHandler(
            self.mirror,
            self.queue,
            self.supervisor,
            on_pod=(binds.observe, *of_any_pod, ignored.observe),
            on_gone=(*of_any_pod, self._recorder.forget),
            on_other=(
                self.sites.observe,
                self._preemptor.observe,
                self._tiers.observe,
                *samples,
                self._listener.changed,
            ),
        )

    def _asker_for_load(self, prometheus: Asker) -> LoadMonitor:
        return LoadMonitor(
            self.mirror,
            self.configuration,
            self._clock,
            prometheus,
            self._handler.handle,
            self._recorder,
            self._settings.config_map,
            self._listener,
            self._said,
        )

    @property
    def watches(self) -> dict[str, ReflectorStatistics]:
        """How each watch does, by the kind of its objects."""
        return self._followed.watches

    @property
    def events_lost(self) -> int:
        """Events that could not be written."""
        return self._recorder.lost + self._workload_events.lost

    @property
    def paused(self) -> bool:
        """Whether the pause switch lets nothing be moved."""
        return self.pause_switch.is_set

    @property
    def pause_switch(self) -> PauseSwitch:
        return self._settings.pause_switch

    async def run(self) -> None:
        """Follow the cluster and act on it, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in (self.carry_out, self.decide, self.follow):
                tasks.create_task(part())

    async def carry_out(self) -> None:
        """Carry out plans and write Events, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.supervisor.keep("plans", self.manager.run))
            tasks.create_task(self.supervisor.keep("recorder", self._recorder.run))
            tasks.create_task(self.supervisor.keep("workload events", self._workload_events.run))

    async def decide(self) -> None:
        """Take up new work, and what an earlier process has left, until cancelled."""
        await self.synced.wait()
        self._tiers.mark_all()
        async with asyncio.TaskGroup() as tasks:
            keep = self.supervisor.keep
            if not self.dry_run:
                tasks.create_task(keep("sweep", partial(self.manager.sweep, self.synced)))
            tasks.create_task(keep("scheduler", self._scheduler.run))
            tasks.create_task(keep("thoughts", self._scheduler.thoughts.run))
            tasks.create_task(keep("worker", self.thinker.run))
            tasks.create_task(keep("preemptor", self._preemptor.run))
            tasks.create_task(keep("load monitor", self._load_monitor.run))
            tasks.create_task(keep("mismatches", self._mismatches.run))
            if self.suggester is not None:
                tasks.create_task(keep("suggester", self.suggester.run))
            if self.packer is not None:
                tasks.create_task(keep("packer", self.packer.run))
            if self._move_requests is not None:
                tasks.create_task(keep("move requests", self._move_requests.run))

    async def catch_up(self) -> None:
        """Return when all pods are known as they are now, or were at some moment from now on."""
        await self._followed.list_pods_anew()

    async def follow(self) -> None:
        """Only keep the mirror, and write nothing, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._followed.run(self.supervisor))
            tasks.create_task(self._settings.run(self.supervisor))
            sites = partial(self.sites.run, self.manager.leave_alone)
            tasks.create_task(self.supervisor.keep("sites", sites))

    def _reconfigured(self, before: Configuration) -> None:
        """Have all that depends on the configuration thought about anew."""
        after = self.configuration.current
        with self.supervisor.catching("configuration"):
            if after.tiers != before.tiers:
                self.mirror.tiers = after.tiers
                for node in self.mirror.snapshot().nodes.values():
                    self._handler.handle(NodeApplied(node))
            self.queue.reconsider()
            self._scheduler.reconfigured()

    async def flushed(self) -> None:
        """Return when all Events that are to be written have been."""
        if self._move_requests is not None:
            await self._move_requests.answered()
        await self._workload_events.flush()
        await self._recorder.flushed()

    def _released(self, pod: Pod) -> None:
        """Place a pod that a move claimed and has no use for any more, if it still waits."""
        if pod.waits_for_node:
            self.queue.add(pod)
