"""What a scheduler has to be able to do, to be run and compared."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kubedsm.core.goals.lasting import Lasting, assumed
from kubedsm.core.moving.movable import Movable
from kubedsm.core.moving.suggestion import Suggestion
from kubedsm.core.placing.decision import Decision
from kubedsm.core.world.deadline import NO_DEADLINE, Deadline
from kubedsm.core.world.model import Pod
from kubedsm.core.world.snapshot import Snapshot

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
