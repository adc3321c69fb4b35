"""Capacity at the edge for new pods: migrate less valuable pods away before the new pods start.

A new pod that would start in the cloud, and migrate to the edge afterwards, waits instead if
migrations of other pods pay that make capacity for it: the pod is nominated to an edge node, and
saves its own migration. Without such migrations the pod does not wait, and no pod waits for longer
than `batch.migrationWait` after its creation. Replacements of other pods of their workload, and
pods that end by themselves, start at once. After a restart pending pods are considered again.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from heapq import nlargest

import attrs
import numpy as np
import structlog

from kubedsm.model.model import ENDING_KINDS, Pod, Tier, Uid, Workload
from kubedsm.model.sites import NOTHING_AWAY
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.gains import LEAST_GAIN, Gains, Worths, leading_gain, net
from kubedsm.objective.lasting import Quiet
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.suggestion import Suggestion
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.planner.plurals import named
from kubedsm.planner.rebalancing_requests import NewPodsRequest
from kubedsm.planner.requests import NoResponseError
from kubedsm.rebalancing.packer import Execution
from kubedsm.rebalancing.suggester import Migrator

log = structlog.get_logger()

#: expected seconds from the start of a migration to the deletion of the old pod, without the drain
#: delay; replaced by observations
USUAL = 5.0
#: limit of the wait for binds in progress, in seconds; and of consecutive plans that further new
#: pods or other changes overtake
CALM, TRIES = 2.0, 3
#: seconds without waiting pods after the last such plan: under a steady load, plans help no pod
PAUSE = 30.0


@attrs.define
class NewPods:
    """Control loop that makes capacity at the edge for new pods, one suggestion after the other."""

    migrator: Migrator
    #: end of the wait of each pod that waited, monotonic; until the pod has a node
    _until: dict[Uid, float] = attrs.field(factory=dict, init=False)
    _wake: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    #: end of the pause, monotonic
    _paused_until: float = attrs.field(default=-math.inf, init=False)
    #: duration of the last migrations for new pods
    _observed: float | None = attrs.field(default=None, init=False)

    # Selection, within a scheduling cycle.

    def find_held(self, snapshot: Snapshot, decision: Decision) -> Mapping[Uid, float]:
        """Return the seconds that pods of the decision wait instead of starting in the cloud."""
        now, mirror = self.migrator.clock.monotonic(), self.migrator.mirror
        policy = self.migrator.configuration.current.policy
        coming = [binding.pod for binding in decision.bindings if binding.tier is Tier.CLOUD]
        if not coming:
            return {}
        known = ((uid, mirror.pod(uid)) for uid in self._until)
        waiting = {uid for uid, pod in known if pod is not None and pod.waits_for_node}
        self._until = {uid: until for uid, until in self._until.items() if uid in waiting}
        new = [pod for pod in coming if pod.uid not in self._until]
        if new and self._may_begin():
            groups = self._group_additional(new)
            gaining = self._list_gaining(snapshot, decision, groups)
            chosen = [pod for workload in gaining for pod in groups[workload]]
            left = max(map(self._seconds_left, chosen), default=0.0)
            most = self._count_rounds(left) * (policy.limits.max_moves // 2) - len(waiting)
            for pod in chosen[: max(0, most)]:
                self._until[pod.uid] = now + self._seconds_left(pod)
        held = {pod.uid: self._until.get(pod.uid, 0.0) - now for pod in coming}
        held = {uid: seconds for uid, seconds in held.items() if seconds > 0}
        if held and not self.migrator.making_room:
            self.migrator.making_room = True
            self._wake.set()
        return held

    def _may_begin(self) -> bool:
        """Return True if migrations for further new pods may be planned now."""
        migrator = self.migrator
        settings = migrator.configuration.current
        return (
            settings.batch.migration_wait > 0
            and migrator.clock.monotonic() >= self._paused_until
            and settings.suggester.mode == "apply"
            and settings.suggester.algorithm == "exact"
            and not migrator.paused()
            and not migrator.manager.migrations.groups
            and not migrator.preemptor.busy
            and migrator.sites.away() == NOTHING_AWAY
        )

    def _seconds_left(self, pod: Pod) -> float:
        age = max(0.0, self.migrator.clock.wall() - pod.created)
        return self.migrator.configuration.current.batch.migration_wait - age

    def _group_additional(self, pods: Iterable[Pod]) -> dict[Workload, list[Pod]]:
        """Group the pods by workload, of workloads without Ready and terminating pods.

        Additional pods of a serving workload answer a load that is there, and replacements of
        terminating pods restore what served: these start at once.
        """
        groups: dict[Workload, list[Pod]] = {}
        for pod in pods:
            if pod.workload.kind not in ENDING_KINDS and self._seconds_left(pod) > 0:
                groups.setdefault(pod.workload, []).append(pod)
        for pod in self.migrator.mirror.pods() if groups else ():
            if pod.ready or (pod.terminating and not pod.finished):
                groups.pop(pod.workload, None)
        return groups

    def _list_gaining(
        self, snapshot: Snapshot, decision: Decision, groups: Mapping[Workload, Sequence[Pod]]
    ) -> list[Workload]:
        """Return the workloads for whose new pods a migration could pay, the greatest benefit of a
        pod first: the departure of another workload's pod from the edge, or a migration within the
        edge.

        A necessary condition, without search.
        """
        policy = self.migrator.configuration.current.policy
        if not groups:
            return []
        snapshot, qos_targets = policy.resolve(snapshot)
        shares = {**snapshot.census.shares, **decision.shares_after}
        gains = Gains(shares, qos_targets, policy.objective, snapshot.census.levels)
        lasting = cache(self.migrator.changes.quiet().lasting)
        worths = Worths(gains, lasting) if policy.limits.price else gains
        # Benefits at several priority levels compare by the highest one, with or without a price.
        price = round(policy.limits.price * NANO) if len(gains.nothing) == 1 else 0
        # Pods that the decision places do not leave, and have their capacity.
        running = (w for w, share in snapshot.census.shares.items() if share.edge)
        departures = nlargest(2, ((worths.of_changes({w: -1}), w) for w in running))
        placed = [each.pod.requests for each in decision.bindings if each.tier is Tier.EDGE]
        edge = snapshot.in_turn(Tier.EDGE)

        def may_pay(workload: Workload, pods: Sequence[Pod]) -> bool:
            if not departures or workload not in shares:
                return False
            if qos_targets(workload).demand is not None:
                return False
            arrivals = worths.of_changes({workload: len(pods)})
            changes = [
                tuple(sum(levels) for levels in zip(arrivals, lost, strict=True))
                for lost, other in departures
                if other != workload
            ]
            asked = {name: amount for name, amount in pods[0].requests.items() if amount}
            free = np.maximum(edge.free(tuple(asked)), 0).sum(axis=0)
            taken = [sum(each.amount(name) for each in placed) for name in asked]
            if (free - taken >= list(asked.values())).all():
                changes.append(arrivals)
            return any(leading_gain(net(each, price)) > LEAST_GAIN * NANO for each in changes)

        gaining = [workload for workload, pods in groups.items() if may_pay(workload, pods)]
        return sorted(gaining, key=lambda each: worths.of_changes({each: 1}), reverse=True)

    # Planning and execution.

    async def run(self) -> None:
        """Make capacity for new pods until cancelled."""
        await self.migrator.synced.wait()
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                # One estimate for all suggestions: what paid at the beginning is finished.
                quiet, failed = self.migrator.changes.quiet(), 0
                while failed < TRIES and (served := await self._serve(quiet)) is not False:
                    failed = 0 if served else failed + 1
                if failed == TRIES:
                    self._paused_until = self.migrator.clock.monotonic() + PAUSE
            finally:
                self._release(self._list_waiting())
                self.migrator.making_room = False

    def _list_waiting(self) -> list[Pod]:
        """Return the pods that wait for capacity at the edge."""
        now = self.migrator.clock.monotonic()
        pods = (self.migrator.mirror.pod(uid) for uid, until in self._until.items() if until > now)
        return [pod for pod in pods if pod is not None and pod.waits_for_node]

    def _release(self, pods: Iterable[Pod]) -> None:
        """Let pods start in the cloud."""
        for pod in pods:
            self._until[pod.uid] = 0.0
            self.migrator.record.end_wait(pod.uid)
            if pod.uid in self.migrator.queue.backing_off():
                self.migrator.queue.add(pod)

    async def _serve(self, quiet: Quiet) -> bool | None:
        """Plan migrations for the waiting pods, and carry out the first of the suggestions.

        Return False if no pod is to wait any longer, None if the cluster has changed meanwhile.
        """
        migrator = self.migrator
        await migrator.wait_for(migrator.is_idle, CALM)
        waiting = self._list_waiting()
        applies = migrator.configuration.current.suggester.mode == "apply"
        if not (waiting and applies and migrator.is_idle()):
            return False
        snapshot, state = migrator.mirror.snapshot(), migrator.state
        candidates = migrator.about_candidates(
            NewPodsRequest,
            budget=migrator.configuration.current.batch.budget,
            new=frozenset(pod.uid for pod in waiting),
            rounds=self._count_rounds(self._longest_wait(waiting)),
        )
        try:
            found = await migrator.planner.solve(attrs.evolve(candidates, quiet=quiet))
        except NoResponseError:
            return False
        permitted = self._list_permitted(found)
        unchanged = migrator.is_idle() and migrator.state[1:] == state[1:]
        if not unchanged or {p.uid for p in self._list_waiting()} != {p.uid for p in waiting}:
            return None
        helped = {move.pod.uid for suggestion in permitted for move in suggestion.awaited}
        self._release(pod for pod in waiting if pod.uid not in helped)
        if not permitted:
            return False
        first = permitted[0]
        if not migrator.frees_capacity(snapshot, first):
            return None
        self._report_waits(permitted)
        return await self._execute(snapshot, first)

    def _longest_wait(self, waiting: Iterable[Pod]) -> float:
        return max(self._until[pod.uid] for pod in waiting) - self.migrator.clock.monotonic()

    def _count_rounds(self, seconds: float) -> int:
        """Return how many suggestions can be carried out in the given time."""
        expected = self._observed
        if expected is None:
            expected = USUAL + self.migrator.configuration.current.migration.drain_delay
        return int(seconds // expected)

    def _list_permitted(self, found: Sequence[Suggestion]) -> list[Suggestion]:
        """Return the first suggestions, as many as windows, freezes and budgets permit together."""
        find_deferral = self.migrator.manager.migrations.deferrals.find
        together: list[Workload] = []
        for number, suggestion in enumerate(found):
            together += [move.pod.workload for move in suggestion.moves]
            if any(find_deferral(workload, together) for workload in dict.fromkeys(together)):
                return list(found[:number])
        return list(found)

    def _report_waits(self, suggestions: Iterable[Suggestion]) -> None:
        migrator = self.migrator
        for suggestion in suggestions:
            for awaited in suggestion.awaited:
                pod, group = awaited.pod, awaited.group
                moves = [move for move in suggestion.moves if move.group == group]
                makers = named([f"{move.pod} to {move.target}" for move in moves])
                why = f"capacity on {awaited.target}, freed by migrating {makers}"
                known = migrator.record.reason_to_wait(pod.uid)
                left = self._until[pod.uid] - migrator.clock.monotonic()
                migrator.record.note_wait(pod.uid, why, migrator.clock.wall() + left)
                text = f"The pod {migrator.record.reason_to_wait(pod.uid)}"
                migrator.listener.pod_waits(pod, text, ())
                if not known:
                    migrator.recorder.record_event("WaitingForEdge", pod, text)

    async def _execute(self, snapshot: Snapshot, suggestion: Suggestion) -> bool:
        """Carry out the migrations of a suggestion; return True if a new pod got the capacity."""
        migrator = self.migrator
        began = migrator.clock.monotonic()
        log.info(
            "capacity for new pods",
            new=[str(move.pod) for move in suggestion.awaited],
            moves=[f"{m.pod} {m.source} -> {m.target}" for m in suggestion.moves],
        )
        until = max(self._until[move.pod.uid] for move in suggestion.awaited)
        execution = Execution(migrator, suggestion, until, migrator.queue.backing_off)
        ended = await execution.run(snapshot)
        if ended is None or not ended.placed:
            return False
        self._observed = migrator.clock.monotonic() - began
        return True
