"""Who runs the containers of pods for the kubelets: nobody, unless they are given somebody."""

from collections.abc import Callable
from typing import Protocol

import attrs

from kubedsm_lab.emulator.api.resources import Object


@attrs.frozen
class Containers:
    """Those of one pod, all of which do as the first that is run does."""

    #: they are up, and say that they are ready
    ready: bool = True
    restarts: int = 0
    #: why they do not run, in a word and a sentence; empty where they do
    waits_for: str = ""
    message: str = ""


#: up as soon as their time has come
UP = Containers()


class ContainerRuntime(Protocol):
    def begin(self, pod: Object, changed: Callable[[], None]) -> None:
        """Have the pod's containers run from now on; call back when `of` or `end` says else."""

    def of(self, uid: str) -> Containers:
        """How the pod's containers are."""

    def end(self, uid: str, grace: float) -> bool:
        """Have them stop within so many seconds. Whether they have; also of a pod not known.

        May be said again, and the earliest moment counts.
        """

    def output(self, pod: Object, container: str) -> bytes | None:
        """What the container has said so far; None of one that is but said to run."""


class NoRuntime:
    """Containers are but said to run."""

    def begin(self, pod: Object, changed: Callable[[], None]) -> None:
        pass

    def of(self, _: str) -> Containers:
        return UP

    def end(self, _: str, __: float) -> bool:
        return True

    def output(self, _: Object, __: str) -> bytes | None:
        return None
