"""The worker process: a mirror of its own, told all that the scheduler's is told, and questions.

It ends when the scheduler does, for then nobody is at the other end, whatever it is thinking about.
"""

import os
import sys
import time
import traceback
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

import attrs

from kubedsm.config.fields import structured
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Uid
from kubedsm.planner.frames import framed, pickled, pickled_answer, read, unpickled
from kubedsm.planner.mirror_replication import Call, ToldMirror
from kubedsm.planner.requests import Known, Question
from kubedsm.process.clock import SystemClock

#: added to the scheduler's own niceness: it must not have to wait for the core
NICENESS = 5


@attrs.frozen(slots=True)
class Configured:
    """From now on this configuration holds; the document of one."""

    document: Any


@attrs.frozen(slots=True)
class Asked:
    number: int
    question: Question[Any]
    #: the pods that a plan is about
    followed: frozenset[Uid]
    #: of the scheduler's mirror: the worker's must be at the same
    changes: int
    #: whether it was announced, so that what is thought about is cut short
    announced: bool


@attrs.frozen(slots=True)
class Answered:
    number: int
    #: pickled, to be read only if it is still waited for
    answer: bytes = b""
    #: instead, the traceback of what was wrong with us
    error: str = ""


#: what the scheduler says
Said = Call | Configured | Asked
#: instead of a frame of that: a question comes next that need not wait for a long thought
ANNOUNCED = b"!"


class OutOfStepError(Exception):
    """This mirror is not the scheduler's: it has to be made anew, which a new process does."""


class _Clock(SystemClock):
    """No event loop runs here."""

    def monotonic(self) -> float:
        return time.monotonic()


class Heard:
    """What the scheduler has said, as far as it has not been taken in."""

    def __init__(self) -> None:
        self.frames: SimpleQueue[bytes] = SimpleQueue()
        # Each is counted by a thread of its own.
        self._announced = self._come = 0

    @property
    def hurry(self) -> bool:
        """Whether a question that was announced has yet to have its turn."""
        return self._announced > self._come

    def come(self) -> None:
        """Take note that one that was announced has had its turn."""
        self._come += 1

    def listen(self, stdin: BinaryIO) -> None:
        """In a thread of its own, so that whoever writes never has to wait for a long thought."""
        while frame := read(stdin):
            if frame == ANNOUNCED:
                self._announced += 1
            else:
                self.frames.put(frame)
        os._exit(0)


class Child:
    """What the worker process knows. The first it is told is how it is configured."""

    def __init__(self, configured: Configured, heard: Heard) -> None:
        self._heard = heard
        self._followed: set[Uid] = set()
        self._configuration = _configuration(configured)
        self._mirror = ToldMirror(
            self._configuration.scheduler_name, self._configuration.tiers, self._followed
        )
        self._known = Known(
            self._mirror,
            self._followed,
            lambda: self._configuration,
            lambda: self._configuration.policy,
            _Clock(),
            lambda: heard.hurry,
        )

    def take(self, said: Said) -> Answered | None:
        """Take in what is said; the answer, if it is a question. Raises OutOfStepError."""
        if isinstance(said, Asked):
            return self._answered(said)
        if isinstance(said, Configured):
            self._configuration = _configuration(said)
            self._mirror.tiers = self._configuration.tiers
        else:
            said.made(self._mirror)
        return None

    def _answered(self, asked: Asked) -> Answered:
        if asked.changes != self._mirror.changes:
            raise OutOfStepError(f"after {self._mirror.changes} changes, not {asked.changes}")
        self._followed.clear()
        self._followed.update(asked.followed)
        if asked.announced and not asked.question.urgent:
            self._heard.come()  # or it would be cut short by itself
        try:
            return Answered(asked.number, pickled_answer(asked.question.answered(self._known)))
        except Exception:  # noqa: BLE001 - told where all that is caught is told
            return Answered(asked.number, error=traceback.format_exc())
        finally:
            if asked.question.urgent:
                self._heard.come()


def _configuration(said: Configured) -> Configuration:
    return structured(Configuration, said.document)


def serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Answer what is asked; for ever, as the end of the input ends the process."""
    heard = Heard()
    Thread(target=heard.listen, args=(stdin,), daemon=True).start()
    child: Child | None = None
    while True:
        for said in unpickled(heard.frames.get()):
            if child is None:
                child = Child(said, heard)
                continue
            answered = child.take(said)
            if answered is not None:
                stdout.write(framed(pickled(answered)))
                stdout.flush()


def main() -> None:
    os.nice(NICENESS)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever is printed is no answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        serve(sys.stdin.buffer, answers)
    except BrokenPipeError:
        os._exit(0)  # as at the end of the input, which the other thread may still be waiting for
