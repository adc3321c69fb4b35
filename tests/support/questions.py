"""Requests to a planner process."""

import hashlib
import os
import random
import time
from pathlib import Path

import attrs
import numpy as np

from kubedsm.optimizer.programming.programme import Rows
from kubedsm.solvers.available import Highs
from support.histories import state_of


@attrs.frozen
class Question:
    """Request of a test; its name is that of its class."""

    budget: float = attrs.field(default=1.0, kw_only=True)
    urgent: bool = attrs.field(default=False, kw_only=True)

    @property
    def name(self):
        return type(self).__name__.lower()


@attrs.frozen
class State(Question):
    """Request for a digest of the worker's mirror."""

    def solve(self, known):
        return hashlib.sha256(repr(state_of(known.mirror)).encode()).hexdigest()


@attrs.frozen
class Process(Question):
    """Request for the worker's process id, niceness and session."""

    def solve(self, known):
        return os.getpid(), os.nice(0), os.getsid(0)


@attrs.frozen
class Files(Question):
    """Request for the names of the worker's open file descriptors."""

    def solve(self, known):
        return [path.name for path in Path("/proc/self/fd").iterdir()]


@attrs.frozen
class Dawdle(Question):
    """Request that keeps the worker busy for some seconds."""

    seconds: float
    budget: float = 60.0

    def solve(self, known):
        time.sleep(self.seconds)
        return self.seconds


@attrs.frozen
class Ponder(Question):
    """Request that runs until its deadline; returns whether it was interrupted."""

    budget: float

    def solve(self, known):
        deadline = known.deadline(self)
        while not deadline.passed:
            time.sleep(0.001)
        return known.interrupted()


@attrs.frozen
class Broken(Question):
    """Request that raises an error."""

    def solve(self, known):
        print("not an answer")  # noqa: T201
        raise ValueError("a mistake")


@attrs.frozen
class Repeat(Question):
    """Request for some bytes, many times."""

    what: bytes

    def solve(self, known):
        return self.what * 10**7


@attrs.frozen
class PodNamed(Question):
    """Request for the pod of a uid."""

    uid: str

    def solve(self, known):
        return known.mirror.pod(self.uid)


@attrs.frozen
class Solve(Question):
    """Request to solve a program that cannot be solved in time; returns the solver's progress."""

    budget: float

    def solve(self, known):
        rng = random.Random(1)
        rows = Rows()
        numbers = rows.variables([5] * 60)
        for _ in range(200):
            weights = [rng.randrange(1, 1000) for _ in numbers]
            rows.add((numbers, weights), most=sum(weights) // 3)
        goal = np.array([rng.randrange(1, 1000) for _ in numbers])
        return Highs().maximise(rows.programme(), goal, known.deadline(self)).status
