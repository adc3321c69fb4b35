"""Planner requests for running pods: suggest migrations, and pack pods to free capacity."""

import math
from collections.abc import Iterable, Mapping
from functools import cache

import attrs

from kubedsm.config.services import Mode
from kubedsm.config.settings import Configuration
from kubedsm.model.model import (
    MIGRATING_LABEL,
    NodeName,
    Pod,
    Resources,
    Uid,
    Workload,
)
from kubedsm.model.sites import NOTHING_AWAY, Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.model.surroundings import Surroundings
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.lasting import Quiet
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.plans import Towards
from kubedsm.optimizer.moving.suggestion import Cause, ClusterScore, Leg, Move, Reason, Suggestion
from kubedsm.optimizer.packing.pack import Plan, find_stuck
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.policies.policy import MigratingPolicy
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.planner.plurals import counted, named
from kubedsm.planner.requests import PlanningContext

#: reasons why packing leaves a pod unschedulable
NO_ROOM = (
    "migrations would not help: no node is large enough, or free capacity is too small in total"
)
NONE_PROVEN = "no migration of movable pods places more pods: proven"
NONE_FOUND = "no migration of movable pods was found that places more pods; not proven"
BELOW_PRICE = (
    "{} would free capacity, but the benefit of {:.1f} pod-seconds does not exceed the cost of"
    " {:.1f}"
)
OVER_BUDGET = "the migrations that would free capacity exceed the budget of the cluster"
_TEMPORARY = frozenset({Cause.WORKLOAD_MOVING, Cause.WORKLOAD_RESTING})


@attrs.frozen(slots=True)
class MigrationRequest:
    """Base class of planner requests about migrations: workloads, sites and capacity that no
    migration may use.
    """

    urgent = False
    #: workloads with a migration under way, and workloads in their cooldown
    moving: frozenset[Workload]
    resting: frozenset[Workload]
    quiet: Quiet
    budget: float
    away: Away = NOTHING_AWAY
    #: capacity required by migrations in progress, without reservation so far
    arriving: Mapping[NodeName, Resources] = attrs.field(factory=dict)
    #: workloads whose migrations a window, a freeze or a budget defers, with the reason
    deferred: Mapping[Workload, str] = attrs.field(factory=dict)
    #: migrations that the budget of the cluster permits; None: no limit
    most_moves: int | None = None

    def snapshot(self, context: PlanningContext) -> Snapshot:
        """Return the cluster snapshot for planning migrations: without partitioned edge sites, and
        with the capacity of pods that arrive by running migrations deducted.

        No capacity is freed for a pod of a plan.
        """
        snapshot = context.mirror.snapshot().with_free(
            {name: Resources() - amount for name, amount in self.arriving.items()}
        )
        snapshot = snapshot.with_gated(lambda pod: pod.uid in context.followed)
        return self.away.close_waiting(snapshot) if self.away else snapshot

    def limit_moves(self, policy: KubeDSM) -> KubeDSM:
        """Return the policy with no more migrations than the budget of the cluster permits."""
        if self.most_moves is None:
            return policy
        most = min(policy.limits.max_moves, self.most_moves)
        return attrs.evolve(policy, limits=attrs.evolve(policy.limits, max_moves=most))

    def movable(self, context: PlanningContext, waited_for: set[Workload]) -> Movable:
        """Return the function that decides, for each pod, why the pod must not be migrated; None if
        the pod may migrate.

        Workloads blocked only by a migration in progress or a cooldown are added to `waited_for`.
        """
        snapshot = context.mirror.snapshot()
        lasting_reason = configured_movable(
            context.configuration(), snapshot.surroundings, self.away
        )
        # Pods of workloads that an earlier leader migrated are restored or evicted first.
        orphaned = {p.workload for p in snapshot.pods.values() if MIGRATING_LABEL in p.labels}

        def reason(pod: Pod) -> Reason | None:
            found = lasting_reason(pod) or self._temporary_reason(pod, context)
            if found is None and pod.workload in orphaned:
                found = Cause.WORKLOAD_MOVING.of()
            if found is not None and found.cause in _TEMPORARY:
                waited_for.add(pod.workload)
            return found

        return reason

    def _temporary_reason(self, pod: Pod, context: PlanningContext) -> Reason | None:
        if pod.uid in context.followed or pod.workload in self.moving:
            return Cause.WORKLOAD_MOVING.of()
        if pod.workload in self.resting:
            return Cause.WORKLOAD_RESTING.of()
        why = self.deferred.get(pod.workload)
        return None if why is None else Cause.WORKLOAD_DEFERRED.of(why)


@attrs.frozen(slots=True)
class SuggestResponse:
    suggestion: Suggestion
    #: incomplete because of migrations, cooldowns, an urgent request or the time limit: suggest
    #: again soon
    rests: bool


@attrs.frozen(slots=True)
class SuggestRequest(MigrationRequest):
    """Planner request for migrations whose benefit exceeds their cost."""

    name = "suggestion"
    #: targets of the remaining migrations of a plan, or empty; None: only migrations that pay by
    #: themselves
    towards: Towards | None = None

    def solve(self, context: PlanningContext) -> SuggestResponse:
        """Compute the migration suggestion. Raises TypeError if the policy never migrates."""
        policy = context.policy()
        if not isinstance(policy, MigratingPolicy):
            raise TypeError(f"{policy} does not migrate")
        towards = {}
        if isinstance(policy, KubeDSM):
            policy, towards = self.limit_moves(policy), {"towards": self.towards}
        waited_for = set[Workload]()
        suggestion = policy.suggest(
            self.snapshot(context),
            self.movable(context, waited_for),
            context.deadline(self),
            cache(self.quiet.lasting),
            **towards,
        )
        incomplete = context.interrupted() or suggestion.out_of_time
        return SuggestResponse(suggestion, rests=bool(waited_for) or incomplete)


@attrs.frozen(slots=True)
class NewPodsRequest(MigrationRequest):
    """Planner request for migrations that make capacity at the edge for new pods, which could
    start in the cloud.
    """

    name = "new pods"
    urgent = True
    new: frozenset[Uid] = frozenset()
    #: largest number of suggestions, carried out one after the other
    rounds: int = 1

    def solve(self, context: PlanningContext) -> tuple[Suggestion, ...]:
        """Return suggestions that place the new pods, each for the cluster after those before.

        A suggestion contains only migrations whose group makes capacity for a new pod, and pays
        without a migration of the pod itself. Raises TypeError if the policy is not KubeDSM.
        """
        policy = context.policy()
        if not isinstance(policy, KubeDSM):
            raise TypeError(f"{policy} makes no capacity for new pods")
        policy = self.limit_moves(policy)
        policy = attrs.evolve(policy, limits=attrs.evolve(policy.limits, max_cloud_to_edge=0))
        snapshot = self.snapshot(context).with_gated(lambda pod: pod.uid not in self.new)
        movable, deadline = self.movable(context, set()), context.deadline(self)
        lasting, left, found = cache(self.quiet.lasting), set(self.new), list[Suggestion]()
        moved = set[Uid]()

        def may_move(pod: Pod) -> Reason | None:
            return Cause.WORKLOAD_MOVING.of() if pod.uid in moved else movable(pod)

        while left and len(found) < self.rounds:
            suggested = policy.suggest(snapshot, may_move, deadline, lasting, new=left)
            if not suggested.awaited:
                break
            suggestion = _keep_useful(suggested)
            found.append(suggestion)
            targets = {m.pod.uid: m.target for m in suggestion.placed}
            snapshot = snapshot.with_placed(targets)
            moved |= targets.keys()
            left -= targets.keys()
        return tuple(found)


def _keep_useful(suggestion: Suggestion) -> Suggestion:
    """Return the suggestion with only the groups of migrations that free capacity for pods."""
    pods: dict[int, list[str]] = {}
    for awaited in suggestion.awaited:
        pods.setdefault(awaited.group, []).append(str(awaited.pod))
    moves = {
        move.pod.uid: attrs.evolve(move, room_for=named(pods[move.group]))
        for move in suggestion.moves
        if move.group in pods
    }
    legs = (leg for leg in suggestion.legs if leg.move.group in pods)
    return attrs.evolve(
        suggestion,
        moves=tuple(moves.values()),
        legs=tuple(attrs.evolve(leg, move=moves[leg.move.pod.uid]) for leg in legs),
    )


@attrs.frozen(slots=True)
class PackResponse:
    """Packing result: evictions and migrations releasing capacity, evictions first."""

    #: with the beneficiary pods; None without migrations
    suggestion: Suggestion | None = None
    evicted: tuple[Pod, ...] = ()
    #: of the search; empty if there was nothing to search for
    certificates: tuple[Certificate, ...] = ()
    #: explanation for each unschedulable pod
    left: Mapping[Uid, str] = attrs.field(factory=dict)
    #: incomplete because of migrations, cooldowns or an urgent request: pack again soon
    rests: bool = False
    #: some migrations were left out whose benefit grows with time
    may_pay_later: bool = False
    #: the time limit passed before the work limit
    out_of_time: bool = False


@attrs.frozen(slots=True)
class PackRequest(MigrationRequest):
    """Planner request for a packing of all pods that makes unschedulable pods schedulable."""

    name = "packing"
    #: unschedulable pods
    refused: frozenset[Uid] = frozenset()

    def solve(self, context: PlanningContext) -> PackResponse:
        """Compute the packing of the cluster. Raises TypeError if the policy does not pack."""
        policy, configuration = context.policy(), context.configuration()
        if not isinstance(policy, KubeDSM):
            raise TypeError(f"{policy} does not pack")
        snapshot, settings = self.snapshot(context), configuration.optimiser
        waiting = find_stuck(snapshot, self.refused)
        left = dict.fromkeys(self.refused - waiting, NO_ROOM)
        if not waiting:
            return PackResponse(left=left)
        waited_for = set[Workload]()
        packed = policy.pack_pods(
            snapshot.with_gated(lambda pod: pod.uid not in waiting),
            self.movable(context, waited_for),
            context.deadline(self),
            tier_share=settings.tier_share,
            allow_evictions=settings.allow_evictions,
        )
        left |= dict.fromkeys(waiting, NONE_PROVEN if packed.placed_proven else NONE_FOUND)
        paying = []
        permitted = math.inf if self.most_moves is None else self.most_moves
        for part in packed.split():
            benefit = sum(self.quiet.lasting(move.pod.workload) for move in part.awaited)
            cost = configuration.migration.price * part.disruptions
            if part.disruptions > permitted:
                left |= {move.pod.uid: OVER_BUDGET for move in part.awaited}
            elif benefit > cost:
                paying.append(part)
                permitted -= part.disruptions
            else:
                text = BELOW_PRICE.format(counted(part.disruptions, "migration"), benefit, cost)
                left |= {move.pod.uid: text for move in part.awaited}
        awaited = {move.pod.uid for part in paying for move in part.awaited}
        return PackResponse(
            suggestion_of(snapshot, policy, paying, proven=packed.proven) if awaited else None,
            tuple(pod for part in paying for pod in part.evicted),
            packed.certificates,
            {uid: why for uid, why in left.items() if uid not in awaited},
            rests=bool(waited_for) or context.interrupted(),
            may_pay_later=len(awaited) < len(packed.awaited),
            out_of_time=packed.out_of_time,
        )


def suggestion_of(
    snapshot: Snapshot, policy: KubeDSM, parts: Iterable[Plan], *, proven: bool
) -> Suggestion:
    """Convert independent parts of a packing to a migration suggestion, with one group of
    migrations for each.
    """
    legs: list[Leg] = []
    awaited: list[Move] = []
    evicted: list[Pod] = []
    for number, part in enumerate(parts):
        awaited += [attrs.evolve(move, group=number) for move in part.awaited]
        legs += [attrs.evolve(leg, move=attrs.evolve(leg.move, group=number)) for leg in part.legs]
        evicted += part.evicted
    found = score_suggestion(snapshot, policy, legs, awaited, evicted)
    return attrs.evolve(_keep_useful(found), proven=proven)


def score_suggestion(
    snapshot: Snapshot,
    policy: KubeDSM,
    legs: Iterable[Leg],
    awaited: Iterable[Move] = (),
    evicted: Iterable[Pod] = (),
) -> Suggestion:
    """Return the suggestion of these migration steps, unproven, with scores before and after."""

    def score(snapshot: Snapshot) -> ClusterScore:
        snapshot, qos_targets = policy.resolve(snapshot)
        fragmentation = Fragmentation(policy.measure, request_mix(snapshot))
        return ClusterScore.of(snapshot, qos_targets, policy.objective, fragmentation)

    legs, awaited = tuple(legs), tuple(awaited)
    moves = tuple({leg.move.pod.uid: leg.move for leg in legs}.values())
    targets = {move.pod.uid: move.target for move in (*moves, *awaited)}
    after = snapshot.without(pod.uid for pod in evicted).with_placed(targets)
    return Suggestion(score(snapshot), score(after), moves, legs, awaited, proven=False)


def configured_movable(
    configuration: Configuration, surroundings: Surroundings, away: Away
) -> Movable:
    """Return a function from a pod to the reason why the configuration or unavailable edge sites
    forbid its migration, or None.
    """
    nodes, workloads = away.nodes, away.workloads

    def reason(pod: Pod) -> Reason | None:
        if pod.workload in workloads or pod.node_name in nodes:
            return Cause.SITE_AWAY.of()
        return reason_to_stay(pod, configuration, surroundings)

    return reason


def migration_mode(pod: Pod, configuration: Configuration) -> Mode:
    """Return the migration mode: configured, or chosen by the tenant unless migration is off.

    Only pods of a Deployment carry the label necessary for detachment.
    """
    mode = configuration.migration_mode(pod.workload)
    if mode != "off" and pod.wishes is not None:
        mode = pod.wishes.migration or mode
    return "recreate" if mode == "surge" and pod.workload.kind != "Deployment" else mode


def reason_to_stay(
    pod: Pod, configuration: Configuration, surroundings: Surroundings
) -> Reason | None:
    """Return the reason why the migration would be refused at its start, if known before."""
    mode = migration_mode(pod, configuration)
    if mode == "off":
        return Cause.MIGRATION_OFF.of()
    if mode == "surge" and (claim := surroundings.find_unshared(pod.pod_class.rules.claim_keys)):
        return Cause.CLAIM_NOT_SHARED.of(claim)
    return None
