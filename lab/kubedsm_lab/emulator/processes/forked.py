"""`loadgen serve` processes, forked from a server process that has loaded the program.

Forty separate processes would take 40 times 0.2 s of CPU and 42 MB; forked they take 5 ms and 9 MB
each. Processes end with their parent.
"""

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Self

import aiohttp

from loadgen.cli import main

#: deadline of /readyz in seconds
_PATIENCE = 5.0
_OK = 200


class ForkedProcess:
    """Forked `loadgen serve` process; `thread` runs blocking calls, one at a time."""

    def __init__(
        self,
        process: multiprocessing.process.BaseProcess,
        port: int,
        thread: Executor,
        http: aiohttp.ClientSession,
    ) -> None:
        self._process = process
        self._thread = thread
        self._http = http
        self._ended = asyncio.Event()
        self.pid = process.pid or 0
        self.url = f"http://127.0.0.1:{port}"
        asyncio.get_running_loop().add_reader(process.sentinel, self._has_ended)

    def _has_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._ended.set()

    async def is_ready(self) -> bool:
        """Return whether the process's readiness endpoint responds with success."""
        try:
            async with self._http.get(f"{self.url}/readyz") as answer:
                return answer.status == _OK
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def ended(self) -> int:
        """Wait until the process ends; return its exit code, or the negative signal number."""
        await self._ended.wait()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._release_process)

    def _release_process(self) -> int:
        code = self._process.exitcode or 0
        self._process.close()
        return code

    def send(self, number: signal.Signals) -> None:
        if not self._ended.is_set():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Forked:
    """Fork server, running while its context is entered; process output goes to `logs`."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._context = multiprocessing.get_context("forkserver")
        self._thread = ThreadPoolExecutor(1)
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        self._context.set_forkserver_preload(
            [*_of_script(), "kubedsm_lab.emulator.processes.before_forks"]
        )
        # The first fork takes a while.
        first = self._context.Process(target=_nothing)
        for step in (first.start, first.join):
            await asyncio.get_running_loop().run_in_executor(self._thread, step)
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_PATIENCE))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.close()
        await asyncio.to_thread(self._thread.shutdown)

    async def start(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> ForkedProcess:
        """Fork a `loadgen serve` process; no process is left if cancelled. Raises OSError."""
        if self._http is None:
            raise RuntimeError("nothing to be forked from")
        port = _free_port()
        local = ("--host", "127.0.0.1", "--port", str(port))
        process = self._context.Process(
            target=_serve,
            args=((*arguments, *local), dict(environment), self._log(name)),
            daemon=True,
        )

        def unwanted(started: asyncio.Future[None]) -> None:
            if started.exception() is None:
                process.kill()

        starting = asyncio.get_running_loop().run_in_executor(self._thread, process.start)
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(unwanted)
            raise
        return ForkedProcess(process, port, self._thread, self._http)

    def output(self, name: str) -> bytes:
        """Return the log of all processes that were started under a name."""
        try:
            return self._log(name).read_bytes()
        except OSError:
            return b""

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"


def _free_port() -> int:
    """Return an unused port; if another process takes it first, the process is restarted."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _of_script() -> list[str]:
    """Return the module of the running script as a list for preloading in the fork server; empty if
    unknown.

    The name `__main__` serves this, but multiprocessing of Python 3.11 to 3.13 ignores it.
    """
    main = getattr(sys.modules["__main__"], "main", None)
    return [] if main is None else [main.__module__]


def _nothing() -> None:
    pass


def _serve(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    """Run `loadgen serve` in the forked process, with output and environment redirected."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(environment)
    main(["serve", *arguments])


def _end_with_parent() -> None:
    """Exit the forked process when the parent ends, as the kernel then closes the parent's end of
    the pipe.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
