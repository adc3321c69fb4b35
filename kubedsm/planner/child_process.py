"""Main program of the planner process: solves requests on a replica of the scheduler's cluster
mirror.

The process terminates at the end of its input, together with the scheduler, even while solving.
"""

import os
import sys
import time
import traceback
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO

from kubedsm.config.fields import read_section
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Uid
from kubedsm.planner.protocol import (
    ANNOUNCED,
    Configured,
    Message,
    NumberedRequest,
    NumberedResponse,
    ReplicatedMirror,
    dump_message,
    dump_response,
    load_message,
    pack_frame,
    read_frame,
)
from kubedsm.planner.requests import PlanningContext
from kubedsm.process.clock import SystemClock

#: added to the scheduler's niceness: the scheduler must not wait for the core
NICENESS = 5


class OutOfStepError(Exception):
    """Error: the planner process's replica differs from the scheduler's cluster mirror; the
    restarted process gets a new replica.
    """


class _Clock(SystemClock):
    """Monotonic system clock for a process without an event loop."""

    def monotonic(self) -> float:
        return time.monotonic()


class Inbox:
    """Queue of messages from the scheduler to the planner process, filled by a background
    thread.
    """

    def __init__(self) -> None:
        self.frames: SimpleQueue[bytes] = SimpleQueue()
        # Each counter is written by a single thread.
        self._announced = self._arrived = 0

    @property
    def interrupted(self) -> bool:
        """Return True if the scheduler announced a further request that is still unprocessed."""
        return self._announced > self._arrived

    def count_arrival(self) -> None:
        """Note that an announced request has been received, so its announcement no longer
        interrupts the current request.
        """
        self._arrived += 1

    def read(self, stdin: BinaryIO) -> None:
        """Read messages continuously, so the scheduler never blocks on a long-running request."""
        while frame := read_frame(stdin):
            if frame == ANNOUNCED:
                self._announced += 1
            else:
                self.frames.put(frame)
        os._exit(0)


class Child:
    """State of the planner process: current configuration and replica of the scheduler's cluster
    mirror.

    The first message is the configuration.
    """

    def __init__(self, configured: Configured, inbox: Inbox) -> None:
        self._inbox = inbox
        self._followed: set[Uid] = set()
        self._configuration = read_section(Configuration, configured.document)
        self._mirror = ReplicatedMirror(
            self._configuration.scheduler_name, self._configuration.tiers, self._followed
        )
        self._context = PlanningContext(
            self._mirror,
            self._followed,
            lambda: self._configuration,
            lambda: self._configuration.policy,
            _Clock(),
            lambda: inbox.interrupted,
        )

    def handle(self, message: Message) -> NumberedResponse | None:
        """Handle one message from the scheduler: a configuration, a change of the mirror, or a
        request; return the response to a request.

        Raises OutOfStepError.
        """
        if isinstance(message, NumberedRequest):
            return self._respond_to(message)
        if isinstance(message, Configured):
            self._configuration = read_section(Configuration, message.document)
            self._mirror.tiers = self._configuration.tiers
        else:
            message.repeat_on(self._mirror)
        return None

    def _respond_to(self, numbered: NumberedRequest) -> NumberedResponse:
        if numbered.changes != self._mirror.changes:
            raise OutOfStepError(f"after {self._mirror.changes} changes, not {numbered.changes}")
        self._followed.clear()
        self._followed.update(numbered.followed)
        request = numbered.request
        if numbered.announced and not request.urgent:
            self._inbox.count_arrival()  # or the request would interrupt itself
        try:
            return NumberedResponse(numbered.number, dump_response(request.solve(self._context)))
        except Exception:  # noqa: BLE001 - raised again in the scheduler
            return NumberedResponse(numbered.number, error=traceback.format_exc())
        finally:
            if request.urgent:
                self._inbox.count_arrival()


def serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Run the planner process: read requests from `stdin` and write responses to `stdout`, until
    the end of the input.
    """
    inbox = Inbox()
    Thread(target=inbox.read, args=(stdin,), daemon=True).start()
    child: Child | None = None
    while True:
        for message in load_message(inbox.frames.get()):
            if child is None:
                child = Child(message, inbox)
                continue
            response = child.handle(message)
            if response is not None:
                stdout.write(pack_frame(dump_message(response)))
                stdout.flush()


def main() -> None:
    os.nice(NICENESS)
    responses = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Printed text must not get between the responses.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        serve(sys.stdin.buffer, responses)
    except BrokenPipeError:
        os._exit(0)  # as at the end of the input, which the other thread may still wait for


if __name__ == "__main__":
    main()
