"""Main loop of the solver process: load one library, answer requests until the parent is gone."""

import importlib
import math
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Event, Thread

from kubedsm.optimizer.programming.programme import Solved
from kubedsm.solvers.process import GRACE, READY, STOP, Request

LIBRARY_MODULES = {
    "highs": "kubedsm.solvers.highs_library",
    "cp-sat": "kubedsm.solvers.cp_sat_library",
}


class Listener:
    """Reader thread for messages from the parent process: observes the STOP message and the
    parent's exit.
    """

    def __init__(self, line: Connection) -> None:
        self._line = line
        self.requests: SimpleQueue[Request] = SimpleQueue()
        self.stopped = Event()

    def listen(self) -> None:
        try:
            while True:
                message = self._line.recv()
                if message == STOP:
                    self.stopped.set()
                else:
                    self.stopped.clear()
                    self.requests.put(message)
        except (EOFError, OSError):
            os._exit(0)


def serve(library: str, line: Connection) -> None:
    """Load the library and answer requests on `line`; never return."""
    listener = Listener(line)
    solved: Callable[[Request, Event], Solved]
    solved = importlib.import_module(LIBRARY_MODULES[library]).solve_request
    line.send(READY)
    Thread(target=listener.listen, daemon=True).start()
    while True:
        request = listener.requests.get()
        if math.isfinite(request.seconds):
            # SIGALRM ends this process, even if the library never returns and the parent is gone.
            signal.setitimer(signal.ITIMER_REAL, request.seconds + 2 * GRACE)
        answer = solved(request, listener.stopped)
        signal.setitimer(signal.ITIMER_REAL, 0)
        line.send(answer)
