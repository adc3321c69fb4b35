"""Protocols of scheduling policies: placing pending pods, and optionally migrating running pods."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import Pod
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.lasting import Lasting, assume_prior
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.suggestion import Suggestion
from kubedsm.optimizer.placing.decision import Decision

if TYPE_CHECKING:
    import random


class Policy(Protocol):
    """Scheduling policy that places pending pods.

    Deterministic except for the random numbers: identical inputs give identical decisions.
    """

    def place(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        rng: "random.Random",
        deadline: Deadline = NO_DEADLINE,
    ) -> Decision:
        """Decide on the nodes of the pending pods; return placements, and the nodes' rejections of
        unschedulable pods.
        """


@runtime_checkable
class MigratingPolicy(Policy, Protocol):
    """Scheduling policy that also migrates running pods."""

    def suggest(
        self,
        snapshot: Snapshot,
        movable: Movable,
        deadline: Deadline = NO_DEADLINE,
        lasting: Lasting = assume_prior,
    ) -> Suggestion:
        """Return the migrations of running pods whose benefit exceeds their disruption.

        movable: returns why a pod must not be migrated, or None.
        """
