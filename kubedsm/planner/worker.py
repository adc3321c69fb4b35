"""Planner that solves each request in a forked child process, next to the event loop.

A child has the cluster mirror of the moment of the request; it copies only memory pages that change
meanwhile, and its memory is free again after the response. Requests are solved in order. Urgent
requests interrupt the present request; all requests interrupt idle requests.
"""

import asyncio
import io
import os
import pickle
import socket
import threading
import traceback
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

import attrs
import structlog

from kubedsm.model.model import Pod, Uid
from kubedsm.planner.requests import NoResponseError, PlanningContext, Request, time_limit
from kubedsm.process.clock import SystemClock
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.solvers.forked_process import ForkedProcess, fork
from kubedsm.solvers.process import stop_all

log = structlog.get_logger()

R = TypeVar("R")

#: seconds after the time limit until a request is considered stuck
PATIENCE = 30.0
#: seconds for the process to end by itself
GRACE = 1.0
#: added to the scheduler's niceness if no pod waits: the scheduler must not wait for the core
NICENESS = 5
#: messages to a child: its turn has come; a request of higher precedence waits
BEGIN, INTERRUPT = b"b", b"i"
#: last byte of a child's output: a response, or the traceback of a bug
RESPONSE, FAILURE = b"r", b"f"
#: bytes read from a child at a time
CHUNK = 2**18


class RequestFailedError(Exception):
    """Error: the planner process raised an unexpected exception while solving a request; includes
    the traceback.
    """


# In the scheduler.


@attrs.define(eq=False)
class _Child:
    """Child process that solves one request, and the connection to the child."""

    process: ForkedProcess
    line: socket.socket
    #: 0: idle, 2: urgent
    precedence: int

    def interrupt(self) -> None:
        with suppress(OSError):  # the child has just ended
            self.line.send(INTERRUPT)

    async def read_output(self) -> bytes:
        """Let the child begin; return the output until the end of the child."""
        loop, output = asyncio.get_running_loop(), bytearray()
        await loop.sock_sendall(self.line, BEGIN)
        while data := await loop.sock_recv(self.line, CHUNK):
            output += data
        return bytes(output)

    async def end(self) -> None:
        """Close the child's input so the child exits, and kill the child after `GRACE` seconds."""
        try:
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(GRACE):
                    self.line.shutdown(socket.SHUT_WR)
                    while await asyncio.get_running_loop().sock_recv(self.line, CHUNK):
                        pass
        finally:
            self.line.close()
            self.process.kill()


@attrs.define(eq=False, repr=False)
class Worker:
    """Planner that solves requests in child processes, one at a time."""

    _context: PlanningContext
    _throttle: LogThrottle
    #: callback with the name of a request that got no response: the process ended, or exceeded its
    #: limit
    _on_unanswered: Callable[[str], object]
    #: one child at a time of the requests that are neither urgent nor idle, and of those idle
    _requesting: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _idling: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    #: one child at a time solves, in the order of the requests
    _turn: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _children: list[_Child] = attrs.field(factory=list, init=False)

    async def solve(self, request: Request[R], *, idle: bool = False) -> R:
        """Solve the request in a child process, and return the response.

        Pods of the response are as they were at the time of the request. Raises NoResponseError and
        RequestFailedError.
        """
        lock = self._idling if idle else self._requesting
        async with nullcontext() if request.urgent else lock:
            try:
                return await self._solve_apart(request, 2 if request.urgent else 1 - idle)
            except NoResponseError as error:
                self._throttle.log(log.warning, "no response", str(error), request=request.name)
                self._on_unanswered(request.name)
                raise

    async def _solve_apart(self, request: Request[R], precedence: int) -> R:
        pods, seconds = self._context.mirror.snapshot().pods, time_limit(request) + PATIENCE
        child = self._start_child(request, precedence)
        for other in self._children:
            if other.precedence < precedence:
                other.interrupt()
        self._children.append(child)
        try:
            # Pods wait for an urgent response; any other request may wait as long as those before.
            async with asyncio.timeout(seconds if request.urgent else None) as limit, self._turn:
                limit.reschedule(asyncio.get_running_loop().time() + seconds)
                output = await child.read_output()
        except TimeoutError:
            raise NoResponseError(f"the planner took more than {seconds:g} s") from None
        except OSError:
            output = b""
        finally:
            self._children.remove(child)
            await child.end()
        if child.process.status or not output.endswith((RESPONSE, FAILURE)):
            raise NoResponseError(f"the planner process ended: status {child.process.status}")
        if output.endswith(FAILURE):
            raise RequestFailedError(output[:-1].decode())
        # By the pods of the request, because some may be deleted by now.
        response: R = load_response(output, pods.__getitem__)
        return response

    def _start_child(self, request: Request[Any], precedence: int) -> _Child:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                process = fork(partial(_solve, request, self._context, theirs), [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise NoResponseError(f"the planner process did not start: {error}") from None
        return _Child(process, ours, precedence)


# In the child.


class _Inbox:
    """Messages of the scheduler to the child, read by a background thread."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self.begun = threading.Event()
        self.interrupted = False

    def read(self) -> None:
        """Read messages; end the process at the end of the input, even while solving."""
        with suppress(OSError):
            while message := self._line.recv(1):
                if message == BEGIN:
                    self.begun.set()
                else:
                    self.interrupted = True
        stop_all()
        os._exit(0)


def _solve(request: Request[Any], context: PlanningContext, line: socket.socket) -> None:
    """Solve the request once its turn has come, and write the output to `line`."""
    os.nice(0 if request.urgent else NICENESS)
    inbox = _Inbox(line)
    threading.Thread(target=inbox.read, daemon=True).start()
    inbox.begun.wait()
    context = attrs.evolve(context, clock=SystemClock(), interrupted=lambda: inbox.interrupted)
    try:
        output = dump_response(request.solve(context)) + RESPONSE
    except Exception:  # noqa: BLE001 - raised again in the scheduler
        output = traceback.format_exc().encode() + FAILURE
    with suppress(OSError):  # the scheduler has ended, or gave the request up
        line.sendall(output)
    stop_all()


# Responses.


def dump_response(value: object) -> bytes:
    """Pickle a response of the planner process, with pods represented by uid."""
    buffer = io.BytesIO()
    _ResponsePickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def load_response(data: bytes, pod: Callable[[Uid], Pod]) -> Any:
    return _ResponseUnpickler(io.BytesIO(data), pod).load()


class _ResponsePickler(pickle.Pickler):
    def persistent_id(self, obj: object) -> Uid | None:
        return obj.uid if isinstance(obj, Pod) else None


class _ResponseUnpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, pod: Callable[[Uid], Pod]) -> None:
        super().__init__(stream)
        self._pod = pod

    def persistent_load(self, pid: Uid) -> Pod:
        return self._pod(pid)
