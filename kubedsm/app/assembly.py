"""Assembly of the scheduler: components in dependency order, and background tasks."""

import asyncio
import random
from functools import partial
from pathlib import Path

from kubedsm.app.cluster_reflectors import EventHandler, FollowedCluster
from kubedsm.app.cluster_warnings import IgnoredAnnotations, MismatchWarnings, SlowerEdges
from kubedsm.app.live_configuration import LiveConfiguration
from kubedsm.app.load_monitor import LoadMonitor
from kubedsm.app.pause_switch import PauseSwitch
from kubedsm.app.prometheus import Asker, InAThread
from kubedsm.config.current import CurrentConfiguration, as_given
from kubedsm.config.settings import Configuration
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.events.event_writer import EventWriter
from kubedsm.events.workload_events import WorkloadEvents
from kubedsm.execution.bind_calls import BindCalls, TierKeeper
from kubedsm.execution.limits import DRY_RUN, Limits, suggest_only
from kubedsm.execution.migration_calls import MigrationCalls
from kubedsm.execution.migrations import Migrations
from kubedsm.execution.orphan_sweep import OrphanSweep
from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.decisions import Decisions
from kubedsm.explain.listener import Listener, Listeners
from kubedsm.explain.migration_outcome import MoveOutcome
from kubedsm.explain.subjects import Explanations
from kubedsm.kube.client.port import Cluster
from kubedsm.kube.watching.config_map import ConfigMapName, FollowedConfigMap
from kubedsm.kube.watching.reflector import ReflectorStatistics
from kubedsm.model.events import NodeApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod, Uid
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.policies.policy import MigratingPolicy, Policy
from kubedsm.planner.protocol import ReplicatedMirror
from kubedsm.planner.requests import InProcessPlanner, Planner, PlanningContext
from kubedsm.planner.what_if import WhatIfRequest
from kubedsm.planner.worker import Worker
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.process.supervisor import Supervisor
from kubedsm.rebalancing.migration_effects import MoveEffects
from kubedsm.rebalancing.migration_requests import MigrationRequests
from kubedsm.rebalancing.packer import Packer
from kubedsm.rebalancing.suggester import Migrator, Suggester
from kubedsm.scheduling.planned_batches import PlannedBatches
from kubedsm.scheduling.preemptor import Preemptor
from kubedsm.scheduling.scheduling_cycle import Scheduler
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm.scheduling.site_monitor import Sites
from kubedsm.scheduling.workload_changes import WorkloadChanges
from plans.steps import Step


class Runtime:
    """One scheduler on one cluster. `run` ends when it is cancelled.

    `instance` identifies this process in Events. `policy` replaces the configured
    KubeDSM policy, for comparisons. The configuration follows `source`. The pause switch is in the
    same ConfigMap, or else in `kubedsm` in the `namespace`. `listener` observes all decisions.
    With `apart` the planner is a separate worker process. `prometheus`: client
    for measured load. `dry_run`: the cluster takes no writes, and decisions have no effect.
    """

    #: rebalancing, absent for policies without migrations
    migrator: Migrator | None = None
    suggester: Suggester | None = None
    packer: Packer | None = None
    _requests: MigrationRequests | None = None

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
        # An independent generator: a policy's draws depend on nothing else.
        policy_rng = random.Random(rng.getrandbits(64))
        listener, limits = listener or Listener(), DRY_RUN if dry_run else Limits()
        timeout, name = limits.request_timeout, configuration.scheduler_name
        self.dry_run, self._other_policy, self.synced = dry_run, policy, asyncio.Event()

        # State.
        adjusted = suggest_only if dry_run else as_given
        current = CurrentConfiguration(configuration, clock.wall(), adjusted=adjusted)
        self.configuration = current
        said = SaidByCause(clock)
        self.supervisor = supervisor = Supervisor(clock, rng)
        self.queue = queue = SchedulingQueue(clock, rng)
        plans: dict[Uid, str] = {}
        followed = plans.keys()
        mirror_type = ReplicatedMirror if apart else ClusterMirror
        self.mirror = mirror = mirror_type(name, configuration.tiers, followed, queue.help)
        record = DecisionRecord(clock)
        self.decisions = Decisions(record, mirror, self._current_policy)
        self.sites = sites = Sites(mirror, current, clock, self.synced)

        # Planner.
        self.planner: Planner
        if isinstance(mirror, ReplicatedMirror):
            worker_rng = random.Random(instance)
            self.planner = Worker(mirror, followed, current, clock, worker_rng, said, listener)
        else:
            self.planner = InProcessPlanner(
                PlanningContext(mirror, followed, self._current_configuration, self._policy, clock)
            )

        self.explanations = Explanations(
            self.decisions,
            self.planner,
            self._current_configuration,
            sites.away,
            self._suggestion_request,
        )

        # Execution: calls, Events, plans.
        at_once = limits.binds_in_flight
        binds = BindCalls(cluster, mirror, said, at_once=at_once, timeout=timeout)
        self.recorder = recorder = EventRecorder(
            cluster,
            clock,
            mirror,
            followed,
            binds.none_under_way,
            supervisor,
            said,
            instance,
            self.decisions.summary,
            listener,
        )
        self._workload_events = workload_events = WorkloadEvents(
            EventWriter(cluster, clock, said, instance, timeout, listener), supervisor
        )
        self.effects = MoveEffects(self.decisions, clock, current, listener)
        calls = MigrationCalls(cluster, clock, timeout, said, recorder.left_to_collector)
        begun, ended = self.effects.note_begin, self._end_migration
        moves = Migrations(mirror, current, clock, queue.add, begun, ended)
        orphans = OrphanSweep(
            mirror,
            calls,
            clock,
            on_ignored=recorder.mark_ignored,
            on_stuck=recorder.stuck,
            on_ended=recorder.taken_over,
        )
        self.manager = manager = PlacementManager(
            mirror,
            plans,
            clock,
            binds,
            calls,
            moves,
            orphans,
            self._end_bind,
            supervisor,
            limits,
            Listeners(record, listener),
        )

        # Scheduling.
        changes = WorkloadChanges(clock, name, manager.follows, mirror.claimant)
        self.preemptor = preemptor = Preemptor(
            mirror=mirror,
            queue=queue,
            cluster=cluster,
            recorder=recorder,
            clock=clock,
            configuration=current,
            planner=self.planner,
            timeout=timeout,
            said=said,
            listener=listener,
            as_kube_scheduler=policy is not None,
        )
        self.scheduler = Scheduler(
            mirror,
            queue,
            current,
            self._policy,
            clock,
            policy_rng,
            changes,
            sites,
            manager,
            binds,
            preemptor,
            recorder,
            workload_events,
            record,
            listener,
            supervisor,
            self.synced,
            dry_run,
        )
        self.planned_batches = PlannedBatches(self.scheduler, self.planner)

        # Inputs: configuration, objects, measured load.
        live_rng = random.Random(instance)
        self._live = live = LiveConfiguration(
            source, namespace, cluster, clock, live_rng, current, recorder, said
        )
        self._tiers = tiers = TierKeeper(mirror, name, recorder.retiered)
        ignored = IgnoredAnnotations(name, clock, partial(recorder.note, "AnnotationIgnored"))
        of_pods = (
            sites.observe,
            changes.observe,
            manager.observe,
            preemptor.observe,
            listener.mirror_changed,
        )
        self.handler = handler = EventHandler(
            mirror,
            queue,
            supervisor,
            on_pod=(binds.observe, *of_pods, ignored.observe),
            on_gone=(*of_pods, recorder.forget),
            on_other=(
                sites.observe,
                preemptor.observe,
                tiers.observe,
                self.effects.observe,
                SlowerEdges(workload_events).observe,
                listener.mirror_changed,
            ),
        )
        self._followed = FollowedCluster(cluster, clock, rng, mirror, handler.handle, self.synced)
        self._load_monitor = LoadMonitor(
            mirror,
            current,
            clock,
            prometheus or InAThread(),
            handler.handle,
            recorder,
            live.config_map,
            listener,
            said,
        )
        self._mismatches = MismatchWarnings(mirror, current, clock, live.report_unmatched)

        if policy is None or isinstance(policy, MigratingPolicy):
            self._add_rebalancing(cluster, instance, moves, changes)
        current.observe(self._apply_configuration)

    def _add_rebalancing(
        self, cluster: Cluster, instance: str, moves: Migrations, changes: WorkloadChanges
    ) -> None:
        """Add suggester, packer and requested migrations, for policies with migrations."""
        clock, config_map = self.scheduler.clock, self._live.config_map
        self.migrator = migrator = Migrator(
            mirror=self.mirror,
            queue=self.queue,
            manager=self.manager,
            moves=moves,
            preemptor=self.preemptor,
            recorder=self.recorder,
            record=self.decisions.record,
            planner=self.planner,
            configuration=self.configuration,
            clock=clock,
            synced=self.synced,
            paused=self.pause_switch,
            listener=self.scheduler.listener,
            changes=changes,
            sites=self.sites,
        )
        self.suggester = Suggester(migrator)
        if isinstance(self._policy(), KubeDSM):
            self.packer = Packer(migrator)
        if not self.dry_run:
            name, rng = config_map.name.approvals, random.Random(instance)
            approvals = FollowedConfigMap(cluster, name, clock, rng)
            self._requests = MigrationRequests(cluster, config_map, approvals, migrator, instance)

    # Callbacks of components constructed before their observers.

    def _suggestion_request(self) -> WhatIfRequest | None:
        """Return the request for the migrations that would be suggested now, if possible."""
        if self.migrator is None or not self.synced.is_set():
            return None
        return self.migrator.what_if((), ())

    def _current_configuration(self) -> Configuration:
        return self.configuration.current

    def _current_policy(self) -> KubeDSM:
        return self.configuration.current.policy

    def _policy(self) -> Policy:
        return self._other_policy or self.configuration.current.policy

    def _end_bind(self, pod: Pod | None, step: Step) -> None:
        self.scheduler.end_bind(pod, step)

    def _end_migration(self, outcome: MoveOutcome) -> None:
        self.scheduler.end_migration(self.effects.note_end(outcome))

    def _apply_configuration(self, before: Configuration) -> None:
        """Apply a new configuration: tiers of nodes, queued pods, and the open batch."""
        after = self.configuration.current
        with self.supervisor.catch_errors("configuration"):
            if after.tiers != before.tiers:
                self.mirror.tiers = after.tiers
                for node in self.mirror.snapshot().nodes.values():
                    self.handler.handle(NodeApplied(node))
            self.queue.reconsider()
            self.scheduler.apply_configuration()

    @property
    def watches(self) -> dict[str, ReflectorStatistics]:
        """Statistics of each reflector, by kind."""
        return self._followed.watches

    @property
    def events_lost(self) -> int:
        """Number of unwritten Events."""
        return self.recorder.lost + self._workload_events.lost

    @property
    def pause_switch(self) -> PauseSwitch:
        return self._live.pause_switch

    @property
    def paused(self) -> bool:
        return self.pause_switch.is_set

    async def run(self) -> None:
        """Follow the cluster, schedule and migrate pods, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in (self.carry_out, self.decide, self.follow):
                tasks.create_task(part())

    async def follow(self) -> None:
        """Keep the mirror up to date without writes, until cancelled; the part of a standby."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._followed.run(self.supervisor))
            tasks.create_task(self._live.run(self.supervisor))
            sites = partial(self.sites.run, self.manager.abort_at)
            tasks.create_task(self.supervisor.keep("sites", sites))

    async def catch_up(self) -> None:
        """Return after completion of a pod list started after this call."""
        await self._followed.list_pods_anew()

    async def decide(self) -> None:
        """Decide on new work, and on work of an earlier leader, until cancelled."""
        await self.synced.wait()
        self._tiers.mark_all()
        async with asyncio.TaskGroup() as tasks:
            keep = self.supervisor.keep
            if not self.dry_run:
                tasks.create_task(keep("sweep", partial(self.manager.sweep, self.synced)))
            tasks.create_task(keep("scheduler", self.scheduler.run))
            tasks.create_task(keep("planned batches", self.planned_batches.run))
            tasks.create_task(keep("worker", self.planner.run))
            tasks.create_task(keep("preemptor", self.preemptor.run))
            tasks.create_task(keep("load monitor", self._load_monitor.run))
            tasks.create_task(keep("mismatches", self._mismatches.run))
            if self.suggester is not None:
                tasks.create_task(keep("suggester", self.suggester.run))
            if self.packer is not None:
                tasks.create_task(keep("packer", self.packer.run))
            if self._requests is not None:
                tasks.create_task(keep("move requests", self._requests.run))

    async def carry_out(self) -> None:
        """Execute plans and write Events, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.supervisor.keep("plans", self.manager.run))
            tasks.create_task(self.supervisor.keep("recorder", self.recorder.run))
            tasks.create_task(self.supervisor.keep("workload events", self._workload_events.run))

    async def flush_writes(self) -> None:
        """Return when all pending answers and Events have been written."""
        if self._requests is not None:
            await self._requests.await_answers()
        await self._workload_events.flush()
        await self.recorder.flushed()
