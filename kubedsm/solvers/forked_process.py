"""Child process forked from this one: runs one function on a copy of all values, then ends.

A fork takes milliseconds, and shares the memory pages that neither process writes. Of several
threads only the forking one exists in the child; hence the function takes no lock that another
thread may hold: no logging, no event loop, no import of a module that another thread may import.
"""

import gc
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import attrs


@attrs.define(eq=False)
class ForkedProcess:
    """Handle of a forked child process; `status` as in `subprocess`, None while running."""

    pid: int
    status: int | None = None
    #: no signal reaches a process id that is reaped, and maybe used again
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def is_alive(self) -> bool:
        """Return True if the process has not ended; reap the process otherwise."""
        self._reap(os.WNOHANG)
        return self.status is None

    def send_kill(self) -> None:
        """Send SIGKILL, from any thread."""
        with self._lock:
            if self.status is None:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the process, if running, and reap the process."""
        self.send_kill()
        self._reap(0)

    def _reap(self, options: int) -> None:
        with self._lock:
            if self.status is not None:
                return
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # a parent that ignores SIGCHLD has no statuses
                self.status = 0
                return
            if pid:
                self.status = os.waitstatus_to_exitcode(status)


def fork(
    run: Callable[[], object], keep: Collection[int], *, silent: bool = False
) -> ForkedProcess:
    """Fork a child process that calls `run` and ends; raise OSError.

    The child keeps the file descriptors `keep` and stderr, unless `silent`, and no other: it must
    not hold the parent's connections open. Signals of a terminal are for the parent alone, and
    handlers of the parent are not called in the child.
    """
    # A signal that arrives in between would wake the event loop of the parent.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # Python warns of forks with threads; see the docstring of the module.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            _run_child(run, keep, silent=silent, mask=before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return ForkedProcess(pid)


def _run_child(
    run: Callable[[], object], keep: Collection[int], *, silent: bool, mask: Collection[int]
) -> None:
    """Call `run` and leave the process: the frames of the parent below are not returned to."""
    status = 1
    try:
        # Finalisers of the parent's objects must not run here; collections would copy each page.
        gc.freeze()
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.setsid()
        _keep_files(keep, silent=silent)
        run()
        status = 0
    except BaseException:  # noqa: BLE001 - printed; the process ends
        traceback.print_exc()
    finally:
        os._exit(status)


def _keep_files(keep: Collection[int], *, silent: bool) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    if silent:
        os.dup2(null, 2)
    os.dup2(2, 1)  # only the parent writes to stdout
    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    # Listed, since the limit of open files in a container may be a thousand million.
    kept = {0, 1, 2, *keep}
    for number in [int(file.name) for file in Path("/dev/fd").iterdir()]:
        if number not in kept:
            with suppress(OSError):  # that of the listing itself
                os.close(number)
