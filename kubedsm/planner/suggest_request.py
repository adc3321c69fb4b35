"""The question which moves are worth their disruption."""

from collections.abc import Mapping
from functools import cache

import attrs

from kubedsm.config.services import Mode
from kubedsm.config.settings import Configuration
from kubedsm.model.model import NodeName, Pod, Resources, Workload
from kubedsm.model.sites import NOTHING_AWAY, Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.lasting import Quiet
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.suggestion import Cause, Reason, Suggestion
from kubedsm.optimizer.policies.policy import MigratingPolicy
from kubedsm.planner.requests import Known


@attrs.frozen(slots=True)
class Suggested:
    suggestion: Suggestion
    #: whether anything was left alone only because it is, or was, being moved; or for want of time,
    #: as an urgent question came
    rests: bool


@attrs.frozen(slots=True)
class AboutMoves:
    """What is to be heeded by whoever thinks about moves."""

    urgent = False
    #: workloads of which a pod is being moved, and that were moved a moment ago
    moving: frozenset[Workload]
    resting: frozenset[Workload]
    quiet: Quiet
    budget: float
    away: Away = NOTHING_AWAY
    #: capacity that migrations under way are going to use and have not reserved yet
    arriving: Mapping[NodeName, Resources] = attrs.field(factory=dict)

    def seen(self, known: Known) -> Snapshot:
        """Return the cluster without what is away, and with all that plans under way hold fixed.

        No room is made for a pod that a plan is about.
        """
        snapshot = known.mirror.snapshot().using(self.arriving)
        snapshot = snapshot.instead(
            {
                uid: attrs.evolve(pod, gated=True)
                for uid, pod in snapshot.pods.items()
                if pod.waits_for_node and uid in known.followed
            }
        )
        return self.away.left_alone(snapshot) if self.away else snapshot

    def movable(self, known: Known, rests: set[Workload]) -> Movable:
        """Why pods must not be moved; those that only rest, or are being moved, are noted."""
        configuration, kept = known.configuration(), kept_by(self.away)

        def reason(pod: Pod) -> Reason | None:
            why = kept(pod) or reason_to_stay(pod, configuration) or self._rest(pod, known)
            if why is not None and why.cause in _RESTS:
                rests.add(pod.workload)
            return why

        return reason

    def _rest(self, pod: Pod, known: Known) -> Reason | None:
        if pod.uid in known.followed or pod.workload in self.moving:
            return Cause.WORKLOAD_MOVING.of()
        return Cause.WORKLOAD_RESTING.of() if pod.workload in self.resting else None


@attrs.frozen(slots=True)
class MovesToMake(AboutMoves):
    """Asked of a policy that moves pods."""

    name = "suggestion"

    def answered(self, known: Known) -> Suggested:
        """Raise TypeError if the policy moves nothing."""
        policy = known.policy()
        if not isinstance(policy, MigratingPolicy):
            raise TypeError(f"{policy} moves nothing")
        rests = set[Workload]()
        suggestion = policy.suggest(
            self.seen(known),
            self.movable(known, rests),
            known.deadline(self),
            cache(self.quiet.lasting),
        )
        return Suggested(suggestion, rests=bool(rests) or known.interrupted())


_RESTS = frozenset({Cause.WORKLOAD_MOVING, Cause.WORKLOAD_RESTING})


def kept_by(away: Away) -> Movable:
    """Why a pod must not be moved on account of sites that are away."""
    nodes, workloads = away.nodes, away.workloads

    def kept(pod: Pod) -> Reason | None:
        here = pod.workload in workloads or pod.node_name in nodes
        return Cause.SITE_AWAY.of() if here else None

    return kept


def migration_of(pod: Pod, configuration: Configuration) -> Mode:
    """How the pod may be moved: as configured; or as its tenant wishes, unless that is not at all.

    Only the pods of a Deployment carry the label by which they can be detached.
    """
    mode = configuration.migration_mode(pod.workload)
    if mode != "off" and pod.wishes is not None:
        mode = pod.wishes.migration or mode
    return "recreate" if mode == "surge" and pod.workload.kind != "Deployment" else mode


def reason_to_stay(pod: Pod, configuration: Configuration) -> Reason | None:
    """Why its move would be refused when it starts, as far as that is known before."""
    mode = migration_of(pod, configuration)
    if mode == "off":
        return Cause.MIGRATION_OFF.of()
    if pod.pod_class.rules.claims and mode == "surge":
        return Cause.CLAIM_NOT_SHARED.of()
    return None
