"""CP-SAT: constraint programming with clause learning, by the library `ortools`.

It brings a HiGHS of its own, and no process can load two: so it is asked in another one, which is
started when it is first needed and kept. There it can be stopped, too, when it is late.
"""

import atexit
import math
import multiprocessing
import subprocess
import sys
from multiprocessing.connection import Connection

import attrs

from kubedsm.core.solving.programme import Ints, Programme, Solved, Status
from kubedsm.core.world.deadline import Deadline

READY = "ready"
#: seconds that loading the library may take, and those beyond its time until it is stopped
_LOADING, _LATE = 60.0, 1.0
_LEAST_SECONDS = 0.001


@attrs.frozen(eq=False)
class Asked:
    programme: Programme
    goal: Ints
    hint: Ints | None
    seconds: float
    workers: int
    effort: float


@attrs.frozen
class CpSat:
    """The limits hold for each programme by itself, whatever its deadline."""

    name = "cp-sat"
    seconds: float = math.inf
    #: threads; 0: one for each core
    workers: int = 0
    #: in its own seconds; with one worker they make the same of equal programmes, however busy
    #: the machine is
    effort: float = math.inf

    def maximise(
        self, programme: Programme, goal: Ints, deadline: Deadline, hint: Ints | None = None
    ) -> Solved:
        if min(self.seconds, deadline.left) < _LEAST_SECONDS or not _PROCESS.ready():
            return Solved(Status.UNKNOWN)
        seconds = min(self.seconds, deadline.left)
        if seconds < _LEAST_SECONDS:
            return Solved(Status.UNKNOWN)
        asked = Asked(programme, goal, hint, seconds, self.workers, self.effort)
        return _PROCESS.answer(asked) or Solved(Status.UNKNOWN)


class _Process:
    """The one process that answers; started again after it was stopped, or ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None

    def ready(self) -> bool:
        """Whether it can be asked."""
        if self._process is not None and self._process.poll() is None:
            return True
        self.stop()
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            self._line = ours
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", "kubedsm.solvers.cp_sat_process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        return self._heard(_LOADING) == READY

    def answer(self, asked: Asked) -> Solved | None:
        """None if it is late, or ends."""
        try:
            if self._line is not None:
                self._line.send(asked)
        except OSError:
            self.stop()
        heard = self._heard(asked.seconds + _LATE)
        return heard if isinstance(heard, Solved) else None

    def _heard(self, seconds: float) -> object:
        line = self._line
        try:
            if line is not None and line.poll(seconds if math.isfinite(seconds) else None):
                return line.recv()
        except (EOFError, OSError):
            pass
        self.stop()
        return None

    def stop(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._line = self._process = None


_PROCESS = _Process()
atexit.register(_PROCESS.stop)
