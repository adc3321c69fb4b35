"""Solver processes: start the process, send requests, kill after the deadline.

Solver libraries print, exceed time limits, crash, and are not interruptible everywhere. Therefore a
separate process loads the library, with discarded output and a private pipe for requests. The first
request forks the process, which shares the memory of this one. A process that exceeds the deadline
is killed; the next request starts a replacement.
"""

import atexit
import importlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue

import attrs

from kubedsm.model.deadline import STEPS_PER_SECOND, URGENT_SHARE, Deadline
from kubedsm.optimizer.programming.programme import Ints, Programme, Solved, Status
from kubedsm.solvers.forked_process import ForkedProcess, fork

LIBRARY_MODULES = {
    "highs": "kubedsm.solvers.highs_library",
    "cp-sat": "kubedsm.solvers.cp_sat_library",
}
#: Seconds beyond its budget after which a solver is killed.
GRACE = 0.3
#: Seconds for starting Python and loading the library, excluded from solving budgets.
LOADING = 10.0
#: Seconds between attempts after a failed start.
_RETRY = 30.0
#: Seconds between deadline checks: urgent requests may shorten a deadline.
_LOOK = 0.02
_LEAST_SECONDS = 0.001

#: Messages next to requests and `Solved` values.
READY, STOP = "ready", "stop"


@attrs.frozen(eq=False)
class Request:
    programme: Programme
    goal: Ints
    hint: Ints | None
    seconds: float
    plain: bool = False
    #: limit on the search tree, for results that do not depend on the machine (HiGHS)
    nodes: int | None = None
    #: threads (CP-SAT)
    workers: int = 0
    #: limit on counted work, in seconds of an idle core
    effort: float = math.inf


def solve(library: str, request: Request, deadline: Deadline) -> Solved:
    """Solve a programme in the library's solver process, within the deadline plus `GRACE`.

    The solver's work counts for the deadline.
    """
    effort = min(request.effort, request.seconds * URGENT_SHARE, deadline.left)
    seconds = deadline.time_left()
    if math.isinf(seconds):
        seconds = min(request.seconds, deadline.left / URGENT_SHARE)
    if min(effort, seconds) < _LEAST_SECONDS:
        return Solved(Status.UNKNOWN)
    limited, begun = attrs.evolve(request, seconds=seconds, effort=effort), time.monotonic()
    process = _PROCESSES.setdefault(library, SolverProcess(library))
    solved = process.solve(limited, deadline)
    deadline.meter.out_of_time |= time.monotonic() - begun >= seconds
    deadline.spend(round(solved.effort * STEPS_PER_SECOND))
    return solved


class SolverProcess:
    """Child process running one solver library, restarted after termination."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._process: ForkedProcess | None = None
        self._line: Connection | None = None
        self._not_before = -math.inf

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def solve(self, request: Request, deadline: Deadline) -> Solved:
        with self._lock:
            try:
                if not self._is_ready():
                    return Solved(Status.UNKNOWN, note="the solver process did not start")
                answer = self._exchange_request(request, deadline)
            except BaseException:
                # Half a conversation cannot be continued.
                self.stop()
                raise
        return answer

    def _is_ready(self) -> bool:
        if self._process is not None and self._process.is_alive():
            return True
        self.stop()
        if time.monotonic() < self._not_before:
            return False
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            self._line = ours
            try:
                self._process = fork(
                    partial(_serve, self._library, theirs), [theirs.fileno()], silent=True
                )
            except OSError:
                self._process = None
        try:
            if self._process is not None and ours.poll(LOADING) and ours.recv() == READY:
                return True
        except (EOFError, OSError):
            pass
        self._not_before = time.monotonic() + _RETRY
        self.stop()
        return False

    def _exchange_request(self, request: Request, deadline: Deadline) -> Solved:
        line, process = self._line, self._process
        if line is None or process is None:
            raise RuntimeError("the solver process is not running")
        late = threading.Event()
        timer = _kill_after(request.seconds + GRACE, process, late)
        try:
            line.send(request)
            asked = True
            while not line.poll(_LOOK):
                if asked and deadline.passed:
                    line.send(STOP)
                    asked = False
                    timer.cancel()
                    timer = _kill_after(GRACE, process, late)
            answer = line.recv()
        except (EOFError, OSError):
            answer = None
        finally:
            timer.cancel()
        if isinstance(answer, Solved):
            return answer
        self.stop()
        reason = f"was killed {GRACE:g} s after its budget" if late.is_set() else "ended"
        return Solved(Status.UNKNOWN, note=f"the solver process {reason}")

    def stop(self) -> None:
        """Terminate the solver process, if running."""
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
        self._line = self._process = None


def _kill_after(seconds: float, process: ForkedProcess, late: threading.Event) -> threading.Timer:
    """Kill the solver process after the deadline, from a thread: even sending may block."""

    def kill() -> None:
        late.set()
        process.send_kill()

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), kill)
    timer.daemon = True
    timer.start()
    return timer


#: by library
_PROCESSES: dict[str, SolverProcess] = {}


def pids() -> list[int]:
    """Return the process ids of the running solver processes."""
    return [process.pid for process in list(_PROCESSES.values()) if process.pid is not None]


def stop_all() -> None:
    """Kill the solver processes; the next request starts new ones."""
    for process in list(_PROCESSES.values()):
        process.stop()
    _PROCESSES.clear()


atexit.register(stop_all)
# A forked child has no part in the solver processes of its parent.
os.register_at_fork(after_in_child=_PROCESSES.clear)


# In the solver process.


def _listen(line: Connection, requests: "SimpleQueue[Request]", stopped: threading.Event) -> None:
    """Read messages from the parent process; end this process if the parent is gone."""
    try:
        while True:
            message = line.recv()
            if message == STOP:
                stopped.set()
            else:
                stopped.clear()
                requests.put(message)
    except (EOFError, OSError):
        os._exit(0)


def _serve(library: str, line: Connection) -> None:
    """Load the library and answer requests on `line`; never return."""
    requests, stopped = SimpleQueue[Request](), threading.Event()
    solved: Callable[[Request, threading.Event], Solved]
    solved = importlib.import_module(LIBRARY_MODULES[library]).solve_request
    line.send(READY)
    threading.Thread(target=_listen, args=(line, requests, stopped), daemon=True).start()
    while True:
        request = requests.get()
        if math.isfinite(request.seconds):
            # SIGALRM ends this process, even if the library never returns and the parent is gone.
            signal.setitimer(signal.ITIMER_REAL, request.seconds + 2 * GRACE)
        answer = solved(request, stopped)
        signal.setitimer(signal.ITIMER_REAL, 0)
        line.send(answer)
