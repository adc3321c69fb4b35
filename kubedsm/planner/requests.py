"""Planner interface: requests that take long to solve, and the planners that solve them.

A response describes the cluster at `ClusterMirror.changes` of the request. In this process that is
the present cluster. A worker process takes its time, so its client has to revalidate the response.
"""

from collections.abc import Callable, Container
from typing import Any, Protocol, TypeVar

import attrs

from kubedsm.config.settings import Configuration
from kubedsm.model.deadline import Deadline
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Uid
from kubedsm.optimizer.policies.policy import Policy
from kubedsm.process.clock import Clock, deadline_in

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class NoResponseError(Exception):
    """The planner cannot respond now; the reason has been logged. A later request may succeed."""


@attrs.frozen(slots=True)
class PlanningContext:
    """Read-only inputs of a request."""

    mirror: ClusterMirror
    #: pods of plans under way
    followed: Container[Uid]
    #: the present values
    configuration: Callable[[], Configuration]
    policy: Callable[[], Policy]
    clock: Clock
    #: a request of higher precedence waits for this one
    interrupted: Callable[[], bool] = lambda: False

    def deadline(self, request: "Request[Any]") -> Deadline:
        """Return the end of the budget; a request that is not urgent also ends when interrupted."""
        deadline = deadline_in(request.budget, self.clock)
        if request.urgent:
            return deadline
        return Deadline(lambda: max(deadline.spent(), float(self.interrupted())), deadline.seconds)


class Request(Protocol[R_co]):
    """Value that can be sent to the process of the planner."""

    @property
    def name(self) -> str:
        """Name in metrics and log lines."""

    @property
    def budget(self) -> float:
        """Time limit in seconds; a response may be a little late."""

    @property
    def urgent(self) -> bool:
        """Return whether pods wait for the response; other requests are cut short for it."""

    def solve(self, context: PlanningContext) -> R_co:
        """Compute the response."""


class Planner(Protocol):
    async def solve(self, request: Request[R], *, idle: bool = False) -> R:
        """Return the response. Raises NoResponseError.

        `idle`: nothing depends on the response, and every other request takes precedence.
        """

    async def run(self) -> None:
        """Accept requests until cancelled."""


@attrs.frozen
class InProcessPlanner:
    """Planner in the event loop: it responds at once and blocks all else, for tests and replay."""

    context: PlanningContext

    async def solve(self, request: Request[R], *, idle: bool = False) -> R:  # noqa: ARG002
        return request.solve(self.context)

    async def run(self) -> None:
        pass
