"""What a scheduler has to be able to do, to be run and compared."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import Pod
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.lasting import Lasting, assumed
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.suggestion import Suggestion
from kubedsm.optimizer.placing.decision import Decision

if TYPE_CHECKING:
    import random


class Policy(Protocol):
    """Pure but for the chance it is handed: equal inputs give equal decisions."""

    def place(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        rng: "random.Random",
        deadline: Deadline = NO_DEADLINE,
    ) -> Decision:
        """Decide where these waiting pods of the snapshot go, and why the others go nowhere."""


@runtime_checkable
class MigratingPolicy(Policy, Protocol):
    """A policy that also moves pods that run."""

    def suggest(
        self,
        snapshot: Snapshot,
        movable: Movable,
        deadline: Deadline = NO_DEADLINE,
        lasting: Lasting = assumed,
    ) -> Suggestion:
        """Find the moves worth their disruption; `movable` objects to pods, or says None."""
