"""What is asked, of what is known, and who may be asked.

An answer is about the cluster as it was at `changes` of the mirror. In this process that is now;
a worker process takes its time, and whoever asked it has to look whether the answer still holds.
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

A_co = TypeVar("A_co", covariant=True)
T = TypeVar("T")


class NoAnswerError(Exception):
    """There is none now; the reason has been logged. Asked again later, there may be one."""


@attrs.frozen(slots=True)
class Known:
    """What an answer is worked out from; only looked at."""

    mirror: ClusterMirror
    #: the pods that a plan is about
    followed: Container[Uid]
    #: the ones that hold now
    configuration: Callable[[], Configuration]
    policy: Callable[[], Policy]
    clock: Clock
    #: whether a question has come that comes before the one thought about, and waits for its answer
    interrupted: Callable[[], bool] = lambda: False

    def deadline(self, question: "Question[Any]") -> Deadline:
        """Until when to think about it; unless it is urgent, only until one comes before it."""
        deadline = deadline_in(question.budget, self.clock)
        if question.urgent:
            return deadline
        return Deadline(lambda: max(deadline.spent(), float(self.interrupted())), deadline.seconds)


class Question(Protocol[A_co]):
    """A value, so that it can be sent to where it is answered."""

    @property
    def name(self) -> str:
        """What such questions are called in metrics and log lines."""

    @property
    def budget(self) -> float:
        """Seconds that it may be thought about; answers are a bit late, as deadlines are."""

    @property
    def urgent(self) -> bool:
        """Whether pods wait for the answer: what is not urgent is then answered as it is known."""

    def answered(self, known: Known) -> A_co:
        """Think about it."""


class Thinker(Protocol):
    async def ask(self, question: Question[T], *, idle: bool = False) -> T:
        """Return the answer. Raises NoAnswerError.

        `idle`: nothing is done about it, and whatever else is asked comes first.
        """

    async def run(self) -> None:
        """Be there to be asked, until cancelled."""


@attrs.frozen
class InProcess:
    """Answers at once, and nothing else happens meanwhile: no time goes by that is not measured."""

    known: Known

    async def ask(self, question: Question[T], *, idle: bool = False) -> T:  # noqa: ARG002
        return question.answered(self.known)

    async def run(self) -> None:
        pass
