"""Protocols of scheduling policies."""

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
    """Policy that places pods.

    Pure except for the random numbers: identical inputs, identical decisions.
    """

    def place(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        rng: "random.Random",
        deadline: Deadline = NO_DEADLINE,
    ) -> Decision:
        """Return the nodes for the pending pods, and the reasons of pods without a node."""


@runtime_checkable
class MigratingPolicy(Policy, Protocol):
    """Policy that also migrates running pods."""

    def suggest(
        self,
        snapshot: Snapshot,
        movable: Movable,
        deadline: Deadline = NO_DEADLINE,
        lasting: Lasting = assume_prior,
    ) -> Suggestion:
        """Return the migrations worth their disruption.

        `movable` objects to pods, or returns None.
        """
