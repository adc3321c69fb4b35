"""Assembly of the scheduler: construction of components in dependency order, background tasks."""

import asyncio
import random
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from kubedsm.app.cluster_reflectors import EventHandler, FollowedCluster
from kubedsm.app.cluster_warnings import IgnoredAnnotations, MismatchWarnings, SlowerEdges
from kubedsm.app.live_configuration import LiveConfiguration
from kubedsm.app.load_monitor import LoadMonitor
from kubedsm.app.prometheus import Asker, InAThread
from kubedsm.app.service_routing import ServiceRouting
from kubedsm.config.current import CurrentConfiguration, as_given
from kubedsm.config.settings import Configuration
from kubedsm.events.controller import Handle
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.events.event_writer import EventWriter, WorkloadEvents
from kubedsm.execution.bind_calls import BindCalls, TierKeeper
from kubedsm.execution.limits import DRY_RUN, Limits, suggest_only
from kubedsm.execution.migration_calls import MigrationCalls
from kubedsm.execution.migration_record import MigrationRecord
from kubedsm.execution.migrations import Migrations
from kubedsm.execution.orphan_sweep import OrphanSweep
from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.execution.volume_calls import VolumeCalls
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.decisions import Decisions
from kubedsm.explain.listener import Listener, Listeners
from kubedsm.explain.migration_outcome import Outcome
from kubedsm.explain.subjects import Explanations
from kubedsm.kube.client.port import Cluster, ObjectName
from kubedsm.model.events import ClusterEvent
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Uid
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.policies.policy import MigratingPolicy, Policy
from kubedsm.planner.requests import InProcessPlanner, Planner, PlanningContext
from kubedsm.planner.worker import Worker
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.process.supervisor import Supervisor, Work
from kubedsm.rebalancing.migration_effects import MigrationRecorder, MoveEffects
from kubedsm.rebalancing.migration_requests import MigrationRequests
from kubedsm.rebalancing.new_pods import NewPods
from kubedsm.rebalancing.packer import Packer
from kubedsm.rebalancing.suggester import Migrator, Suggester
from kubedsm.scheduling.attempts import Attempts
from kubedsm.scheduling.planned_batches import PlannedBatches
from kubedsm.scheduling.preemptor import Preemptor
from kubedsm.scheduling.scheduling_cycle import Scheduler
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm.scheduling.site_monitor import Sites
from kubedsm.scheduling.workload_changes import WorkloadChanges


class Runtime:
    """One scheduler process on one cluster, with all components; `run` ends when cancelled.

    `instance` identifies this process in Events. `policy` replaces the configured
    KubeDSM policy, for comparisons. The configuration follows `source`. The pause switch is in the
    same ConfigMap, or else in `kubedsm` in the `namespace`. `listener` observes all decisions.
    With `apart` planner requests are solved in child processes. `prometheus`: client for measured
    load. `dry_run`: the cluster takes no writes, and decisions have no effect.
    """

    def __init__(  # noqa: PLR0915 - one constructor call after the other
        self,
        cluster: Cluster,
        configuration: Configuration,
        clock: Clock,
        rng: random.Random,
        instance: str = "kubedsm",
        policy: Policy | None = None,
        namespace: str = "kubedsm",
        source: Path | ObjectName | None = None,
        listener: Listener | None = None,
        *,
        apart: bool = False,
        prometheus: Asker | None = None,
        dry_run: bool = False,
    ) -> None:
        # An independent generator: a policy's draws depend on nothing else.
        policy_rng = random.Random(rng.getrandbits(64))
        listener, limits = listener or Listener(), DRY_RUN if dry_run else Limits()
        name = configuration.scheduler_name

        # State.
        self.dry_run, self.synced = dry_run, asyncio.Event()
        adjusted = suggest_only if dry_run else as_given
        current = CurrentConfiguration(configuration, clock.wall(), adjusted=adjusted)
        self.configuration = current
        throttle = LogThrottle(clock)
        self.supervisor = Supervisor(clock, rng)
        self.queue = SchedulingQueue(clock, rng)
        plans: dict[Uid, str] = {}
        followed = plans.keys()
        mirror = ClusterMirror(name, configuration.tiers, followed, self.queue.help)
        self.mirror = mirror
        record = DecisionRecord(clock)
        self.decisions = Decisions(record, mirror, current)
        changes = WorkloadChanges(clock, name, followed, mirror.claimed)

        # Planner.
        context = PlanningContext(
            mirror,
            followed,
            lambda: current.current,
            lambda: policy or current.current.policy,
            clock,
        )
        self.planner: Planner = (
            Worker(context, throttle, listener.request_unanswered)
            if apart
            else InProcessPlanner(context)
        )

        # Events, and the handle of all controllers.
        writer = EventWriter(cluster, clock, throttle, instance, listener)
        why = self.decisions.summary
        self.recorder = EventRecorder(
            mirror,
            followed,
            lambda: self.queue.busy or not binds.none_under_way.is_set(),
            self.supervisor,
            writer,
            why,
        )
        self.workload_events = WorkloadEvents(writer, self.supervisor)
        handle = Handle(
            cluster,
            mirror,
            current,
            clock,
            self.synced,
            self.recorder,
            listener,
            self.supervisor,
            throttle,
        )

        # Execution of plans, and records of their ends.
        binds = BindCalls(handle, limits.binds_in_flight)
        self.sites = Sites(handle)
        others = policy is not None
        self.preemptor = Preemptor(handle, self.queue, self.planner, as_kube_scheduler=others)
        self.attempts = Attempts(handle, self.queue, self.preemptor)
        self.effects = MoveEffects(handle, self.decisions)
        self.ended_migrations = MigrationRecorder(
            handle, self.effects, self.decisions, self.workload_events
        )
        calls = MigrationCalls(handle)
        migrations = Migrations(
            handle,
            self.queue.add,
            self.effects.note_begin,
            self.ended_migrations.record_end,
            self.ended_migrations.record_left_alone,
        )
        self.manager = PlacementManager(
            handle,
            plans,
            binds,
            VolumeCalls(handle, self._apply_event),
            calls,
            migrations,
            OrphanSweep(handle, calls),
            self.attempts.end_bind,
            self._apply_event,
            limits,
            Listeners(record, listener),
        )

        # Scheduling.
        self.scheduler = Scheduler(
            handle,
            self.queue,
            policy_rng,
            changes,
            self.sites,
            self.manager,
            binds,
            self.preemptor,
            self.attempts,
            record,
            dry_run,
            policy,
        )
        self.planned_batches = PlannedBatches(self.scheduler, self.planner)

        # Inputs: configuration, objects, measured load.
        live = LiveConfiguration(handle, source, namespace, random.Random(instance))
        self.pause_switch = migrations.is_paused = live.pause_switch
        self._tiers = TierKeeper(handle)
        of_pods = (
            changes.observe,
            self.manager.observe,
            self.preemptor.observe,
            listener.mirror_changed,
        )
        self.handler = EventHandler(
            mirror,
            self.queue,
            self.supervisor,
            on_pod=of_pods,
            on_gone=(*of_pods, self.recorder.forget),
            on_other=(
                self.sites.observe,
                self.manager.observe_volumes,
                self.preemptor.observe,
                self._tiers.observe,
                self.effects.observe,
                changes.observe_demand,
                SlowerEdges(self.workload_events).observe,
                listener.mirror_changed,
            ),
            on_request=(IgnoredAnnotations(handle).observe,),
            on_owner=(binds.observe,),
        )
        self.followed = FollowedCluster(handle, rng, self.handler.handle)
        load_monitor = LoadMonitor(
            handle, prometheus or InAThread(), self.handler.handle, live.config_map
        )
        self.service_routing = ServiceRouting(handle, self.workload_events)
        mismatches = MismatchWarnings(handle, live.report_unmatched)

        # Background tasks.
        self._following: list[tuple[str, Work]] = [
            *self.followed.loops,
            *live.loops,
            ("sites", partial(self.sites.run, self.manager.abort_at)),
        ]
        self._executing: list[tuple[str, Work]] = [
            ("plans", self.manager.run),
            ("recorder", self.recorder.run),
            ("workload events", self.workload_events.run),
        ]
        self._deciding: list[tuple[str, Work]] = [
            *([] if dry_run else [("sweep", self.manager.sweep)]),
            ("scheduler", self.scheduler.run),
            ("planned batches", self.planned_batches.run),
            ("preemptor", self.preemptor.run),
            ("load monitor", load_monitor.run),
            ("mismatches", mismatches.run),
            ("service routing", self.service_routing.run),
        ]
        if not dry_run:
            migrations.deferrals.known = False
            migration_record = MigrationRecord(
                handle, live.config_map.name.migrations, migrations.deferrals, instance
            )
            self._deciding.append(("migration record", migration_record.run))

        # Rebalancing, absent for policies without migrations.
        self.migrator: Migrator | None = None
        self.suggester: Suggester | None = None
        self.packer: Packer | None = None
        self._requests: MigrationRequests | None = None
        if policy is None or isinstance(policy, MigratingPolicy):
            self.migrator = Migrator(
                handle,
                self.queue,
                self.manager,
                self.preemptor,
                record,
                self.planner,
                self.pause_switch,
                changes,
                self.sites,
            )
            self.suggester = Suggester(self.migrator)
            self._deciding.append(("suggester", self.suggester.run))
            if isinstance(self.scheduler.policy, KubeDSM):
                self.packer = Packer(self.migrator)
                new_pods = NewPods(self.migrator)
                self.scheduler.find_held = new_pods.find_held
                self._deciding += [("packer", self.packer.run), ("new pods", new_pods.run)]
            if not dry_run:
                self._requests = MigrationRequests(
                    live.config_map, live.approvals, self.migrator, instance
                )
                self._deciding.append(("move requests", self._requests.run))
        self.explanations = Explanations(
            self.decisions,
            self.planner,
            self.sites.away,
            self.migrator.suggestion_request if self.migrator else None,
            migrations.deferrals.find,
        )

    def _apply_event(self, event: ClusterEvent) -> None:
        """Apply an event from the response to a write or read, as if the watch had shown it."""
        self.handler.handle(event)

    def summary(self) -> dict[str, int]:
        """Count verified binds, and ended migrations by outcome, for the last log line."""
        migrations = self.ended_migrations.counts
        return {
            "bound": self.attempts.bound,
            "migrations_completed": migrations[Outcome.COMPLETED],
            "migrations_rolled_back": migrations[Outcome.ROLLED_BACK],
            "migrations_failed": migrations[Outcome.FAILED],
        }

    async def run(self) -> None:
        """Follow the cluster, and schedule and migrate pods, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in (self.carry_out, self.decide, self.follow):
                tasks.create_task(part())

    async def follow(self) -> None:
        """Keep the cluster mirror up to date without writes to the API server, until cancelled: the
        work of a standby.
        """
        await self._keep(self._following)

    async def decide(self) -> None:
        """Run the leader's decision loops (scheduling, preemption, suggester, packing) until
        cancelled.
        """
        await self.synced.wait()
        self._tiers.mark_all()
        await self._keep(self._deciding)

    async def carry_out(self) -> None:
        """Execute the plans of binds and migrations, and write Events, until cancelled."""
        await self._keep(self._executing)

    async def _keep(self, loops: Iterable[tuple[str, Work]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part, loop in loops:
                tasks.create_task(self.supervisor.keep(part, loop))

    async def flush_writes(self) -> None:
        """Wait until all pending Events and responses to users' migration requests are written."""
        if self._requests is not None:
            await self._requests.await_answers()
        await self.workload_events.flush()
        await self.recorder.await_flush()
