"""Commands forked from a process that has imported their modules, a second of CPU each time.

Like any command, a fork is a process of its own, with its own files, environment and signals. Its
interpreter ends as usual.
"""

import atexit
import gc
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

#: modules that the commands import when they begin
MODULES = (
    "kubedsm.__main__",
    "kubedsm.cli.live_view",
    "kubedsm.cli.scheduler_process",
    "kubedsm.dashboard.server.app",
    "kubedsm.kube.client.credentials",
    "kubedsm_lab.cli.demo_session",
    "kubedsm_lab.cli.emulated_process",
    "kubedsm_lab.cli.recording_session",
)


class Forked:
    """Running command, with the methods of `subprocess.Popen` that tests call."""

    def __init__(self, arguments, stdout=subprocess.PIPE, terminal=None, **environment):
        self.stdout = self.stderr = self.returncode = None
        if terminal is not None:
            files = [terminal] * 3
        else:
            self.stderr, err = _pipe()
            if stdout == subprocess.PIPE:
                self.stdout, out = _pipe()
            else:
                out = os.dup(stdout.fileno())
            files = [os.open(os.devnull, os.O_RDONLY), out, err]
        self._status, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        given = [*map(str, arguments)], {**os.environ, **environment}, Path.cwd()
        request = pickle.dumps((*given, terminal is not None))
        socket.send_fds(_server(), [request], [*files, theirs.fileno()])
        theirs.close()
        for file in {*files} - {terminal}:
            os.close(file)
        self.pid = int(self._status.recv(32))

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._status], (), (), timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self.returncode = int(self._status.recv(32))
            self._status.close()
        return self.returncode

    def poll(self):
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout):
        """Return the rest of the output; kill the process if it takes longer than the timeout."""
        limit = threading.Timer(timeout, self.kill)
        limit.start()
        with ThreadPoolExecutor() as threads:
            said = list(threads.map(_read_to_end, (self.stdout, self.stderr)))
        self.wait()
        limit.cancel()
        return said


def _pipe():
    ours, theirs = os.pipe()
    return os.fdopen(ours), theirs


def _read_to_end(file):
    if file is None or file.closed:
        return ""
    with file:
        return file.read()


@cache
def _server():
    """Start the process that is forked; return the connection to it."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            pass_fds=[theirs.fileno()],
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def serve(line):
    """Fork a command for each request, until there will be no more."""
    for name in MODULES:
        import_module(name)
    gc.freeze()
    with socket.socket(fileno=line) as requests:
        while True:
            request, files, *_ = socket.recv_fds(requests, 2**18, 4)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if not request:
                return
            if not os.fork():
                break
            for number in files:
                os.close(number)
    _run(*pickle.loads(request), *files)  # noqa: S301 - from the tests


def _run(arguments, environment, folder, has_terminal, *files):
    """Run the command in a child process; report its id and its exit code to the last file."""
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    with socket.socket(fileno=files[3]) as report:
        if pid := os.fork():
            os.closerange(0, 3)
            report.send(b"%d" % pid)
            report.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            os._exit(0)
    if has_terminal:
        os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    main = sys.modules["__main__"] = sys.modules["kubedsm.__main__"]
    sys.argv = [main.__file__, *arguments]
    main.main()
