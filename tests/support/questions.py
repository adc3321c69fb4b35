"""Questions for a worker process, which imports this module to answer them."""

import hashlib
import os
import time

import attrs

from support.histories import state_of


@attrs.frozen
class State:
    """Of all that its mirror knows, a digest."""

    name = "state"
    budget = 1.0

    def answered(self, known):
        return hashlib.sha256(repr(state_of(known.mirror)).encode()).hexdigest()


@attrs.frozen
class Process:
    """Who it is: the id of the process, how nice it is, and its session."""

    name = "process"
    budget = 1.0

    def answered(self, known):
        return os.getpid(), os.nice(0), os.getsid(0)


@attrs.frozen
class Dawdle:
    """So many seconds of work."""

    seconds: float
    budget: float = 60.0
    name = "dawdle"

    def answered(self, known):
        time.sleep(self.seconds)
        return self.seconds


@attrs.frozen
class Broken:
    """A mistake."""

    name = "broken"
    budget = 1.0

    def answered(self, known):
        print("not an answer")  # noqa: T201
        raise ValueError("a mistake")


@attrs.frozen
class PodNamed:
    """The pod of that uid."""

    uid: str
    name = "pod"
    budget = 1.0

    def answered(self, known):
        return known.mirror.pod(self.uid)
