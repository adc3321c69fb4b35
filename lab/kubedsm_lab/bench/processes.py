"""Child processes of benchmarks: emulated API servers, and schedulers observed by log and /proc."""

import asyncio
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import orjson

from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.process.clock import Clock, ends_within

#: Bytes of the longest log line, which may contain a traceback.
LONGEST_LINE = 2**24
#: Seconds from SIGTERM to SIGKILL.
_GRACE = 30.0
#: Restart delay of a scheduler, and period of memory samples, in seconds.
PAUSE = 1.0
#: Error of a scheduler that has lost the Lease.
_GAVE_WAY = b"kubedsm: error: not leading any more:"
#: Line that reports synchronisation, from schedulers without a log.
READY = b"watching"


@asynccontextmanager
async def emulated_cluster(
    nodes: Sequence[dict[str, Any]], *options: str
) -> AsyncIterator[tuple[Path, KubernetesCluster]]:
    """Run `kubedsm emulate` as a process; yield the path of its kubeconfig, and a connection.

    `nodes` are Node objects, or nodes in the short form of a cluster file.
    """
    with tempfile.TemporaryDirectory(prefix="kubedsm-") as folder:
        file = Path(folder) / "cluster.json"
        as_objects = all("kind" in node for node in nodes)
        document = {"kind": "List", "items": nodes} if as_objects else {"nodes": nodes}
        file.write_bytes(orjson.dumps(document))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "kubedsm", "emulate", "--cluster", str(file), "--port", "0", "-o", "json"),
            *options,
            stdout=asyncio.subprocess.PIPE,
        )
        if process.stdout is None:
            raise RuntimeError("the server's output is not piped")
        try:
            line = await process.stdout.readline()
            path = Path(orjson.loads(line)["kubeconfig"])
            async with await KubernetesCluster.connect(path) as cluster:
                yield path, cluster
        finally:
            await end_process(process)


@attrs.define
class LogCount:
    """Counts of errors, warnings, migrations and leadership changes in a scheduler's log."""

    errors: Counter[str] = attrs.field(factory=Counter)
    warnings: Counter[str] = attrs.field(factory=Counter)
    #: ends of migrations: monotonic time, outcome
    moves: list[tuple[float, str]] = attrs.field(factory=list)
    tracebacks: int = 0
    #: processes that ended because another replica leads
    gave_way: int = 0
    #: whether the running process is the leader
    leading: bool = False
    #: base URL of /metrics
    metrics: str = ""
    #: set once the mirror is synced
    synced: asyncio.Event = attrs.field(factory=asyncio.Event)

    def read_line(self, line: bytes, now: float) -> None:
        """Count one log line: JSON, or plain text of the Python interpreter."""
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            entry = None
        if not isinstance(entry, dict):
            if line.strip() == READY:
                self.synced.set()
            self.tracebacks += b"Traceback (most recent call last)" in line
            if line.startswith(_GAVE_WAY):
                self.gave_way += 1
            elif line.startswith(b"kubedsm: error:"):
                self.errors[line.decode(errors="replace").strip()] += 1
            return
        self._count_entry(entry, now)

    def _count_entry(self, entry: dict[str, Any], now: float) -> None:
        event, level = str(entry.get("event")), entry.get("level")
        self.tracebacks += "exception" in entry
        if level in ("error", "critical"):
            self.errors[event] += 1
        elif level == "warning":
            self.warnings[event] += 1
        elif event == "connected":
            self.metrics = str(entry.get("metrics"))
        elif event == "synced":
            self.synced.set()
        elif event == "leading":
            self.leading = True
        elif event == "migration ended":
            self.moves.append((now, str(entry.get("outcome"))))

    def restart(self) -> None:
        """Reset the leadership and the URL read from the log, which belong to the previous
        process.
        """
        self.leading, self.metrics = False, ""

    @classmethod
    def sum(cls, logs: Iterable["LogCount"]) -> "LogCount":
        total = cls()
        for log in logs:
            total.errors += log.errors
            total.warnings += log.warnings
            total.moves += log.moves
            total.tracebacks += log.tracebacks
            total.gave_way += log.gave_way
        return total


@attrs.frozen(slots=True)
class MemorySample:
    """Memory of a scheduler and its planner and solver processes, in bytes, at a monotonic time and
    an age of the process in seconds.
    """

    at: float
    age: float
    #: sum of PSS: a page of several processes counts once
    resident: int
    #: sum of RSS: a page counts once for each process
    each: int = 0


def run_command(kubeconfig: Path, *options: str) -> tuple[str, ...]:
    """Return the arguments of `kubedsm run` for the cluster of a kubeconfig."""
    return (
        *("kubedsm", "run", "--kubeconfig", str(kubeconfig)),
        *("--diagnostics-port", "0", "--metrics-address", "127.0.0.1:0", "-o", "json"),
        *options,
    )


class Scheduler:
    """Scheduler child process; `command` is a Python module and its arguments.

    With `restarts` the process is restarted whenever it exits, as a kubelet does. `prefix` is a
    command that starts the process, such as one that limits its CPU.
    """

    def __init__(
        self,
        command: Sequence[str],
        clock: Clock,
        *,
        restarts: bool = False,
        prefix: Sequence[str] = (),
    ) -> None:
        self._command = command
        self._prefix = prefix
        self._clock = clock
        self._restarts = restarts
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False
        self._killed = False
        self._began = 0.0
        #: start times by process id
        self._children: dict[int, str] = {}
        self.log = LogCount()
        #: ends other than by `kill`, `stop` or the loss of the Lease
        self.ends = 0
        #: of the process and its children together
        self.memory: list[MemorySample] = []
        #: last line of each stream
        self.last_lines = {"stdout": b"", "stderr": b""}

    @property
    def pid(self) -> int:
        """Return the id of the current or last process; 0 before the first start."""
        return self._process.pid if self._process is not None else 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Run the scheduler process during the block and yield the task group that supervises the
        process. Raises as `run` does.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.run())
            yield tasks
            await self.stop()

    async def run(self) -> None:
        """Run the process until `stop` or cancellation; raise ChildProcessError if it exits."""
        while not self._stopping:
            process = await asyncio.create_subprocess_exec(
                *(*self._prefix, sys.executable, "-m", *self._command),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LONGEST_LINE,
            )
            self._process, self._killed, gave_way = process, False, self.log.gave_way
            self._began = self._clock.monotonic()
            self.log.restart()
            try:
                async with asyncio.TaskGroup() as tasks:
                    streams = {"stdout": process.stdout, "stderr": process.stderr}
                    for name, stream in streams.items():
                        if stream is not None:
                            tasks.create_task(self._read_log(name, stream))
                    sampling = tasks.create_task(self._sample_memory(process.pid))
                    await process.wait()
                    sampling.cancel()
            finally:
                await end_process(process)
            if self._stopping:
                return
            self.ends += not self._killed and self.log.gave_way == gave_way
            if not self._restarts:
                problem = self.last_lines["stderr"].decode(errors="replace").strip()
                raise ChildProcessError(f"{self._command[0]} ended by itself: {problem}")
            await self._clock.sleep(PAUSE)

    async def stop(self) -> float:
        """Send SIGTERM to the scheduler process, and return the seconds until the process has
        ended.
        """
        self._stopping = True
        started = self._clock.monotonic()
        if self._process is not None:
            await end_process(self._process)
        return self._clock.monotonic() - started

    def kill(self) -> None:
        self._killed = True
        self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the scheduler process, but not to its children."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def orphans(self) -> list[int]:
        """Return the ids of child processes that are still alive after the scheduler's exit."""
        children = self._children.items()
        return [pid for pid, start in children if start and _read_start(pid) == start]

    async def read_metrics(self) -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.log.metrics}/metrics", raise_for_status=True) as response,
        ):
            return await response.text()

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the CPU seconds of the scheduler process, then those of its planner and solver
        processes, ended ones included. Raises OSError.
        """
        while True:
            try:
                main, *children = family(self.pid)
                ended = sum(ended_children_seconds(pid) for pid in (main, *children))
                return cpu_seconds(main), ended + sum(map(cpu_seconds, children))
            except (FileNotFoundError, ProcessLookupError):
                # A planner process that has just ended counts with the ended ones next time.
                if not _read_start(self.pid):
                    raise

    def sample_memory(self) -> MemorySample:
        """Measure the memory of the scheduler, planner and solver processes. Raises OSError."""
        now = self._clock.monotonic()
        sizes = [memory(pid) for pid in family(self.pid)]
        resident, each = (sum(size[name] for size in sizes) for name in ("Pss", "Rss"))
        return MemorySample(now, now - self._began, resident, each)

    async def _read_log(self, name: str, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            self.last_lines[name] = line
            self.log.read_line(line, self._clock.monotonic())

    async def _sample_memory(self, pid: int) -> None:
        while True:
            await self._clock.sleep(PAUSE)
            with suppress(OSError):  # a process has just ended
                self._children |= {child: _read_start(child) for child in family(pid)[1:]}
                self.memory.append(self.sample_memory())


def memory(pid: int) -> dict[str, int]:
    """Return Rss and Pss of one process in bytes. Raises OSError."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    fields = (line.partition(":") for line in lines)
    return {n: int(v.split()[0]) * 1024 for n, _, v in fields if n in {"Rss", "Pss"}}


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of one process, all threads. Raises OSError."""
    return _stat_seconds(pid, 11)


def ended_children_seconds(pid: int) -> float:
    """Return the CPU seconds of the ended descendants of a process. Raises OSError."""
    return _stat_seconds(pid, 13)


def _stat_seconds(pid: int, field: int) -> float:
    """Return two adjacent fields of /proc/PID/stat, user and system time, in seconds."""
    fields = _read_stat(pid)
    return (int(fields[field]) + int(fields[field + 1])) / os.sysconf("SC_CLK_TCK")


def _read_stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command's name. Raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def family(pid: int) -> tuple[int, ...]:
    """Return the ids of a process and of its descendants. Raises OSError."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return pid, *(each for child in children for each in family(int(child)))


def _read_start(pid: int) -> str:
    """Return the start time of a live process in clock ticks, empty if it has ended.

    Linux reuses process ids, in minutes on a busy machine; id and start time together are unique.
    """
    try:
        state, *fields = _read_stat(pid)
    except OSError:
        return ""
    return fields[18] if state != "Z" else ""


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM to the process, and SIGKILL after the grace period."""
    if process.returncode is None:
        process.terminate()
        await ends_within(_GRACE, process.wait())
    if process.returncode is None:
        process.kill()
    await process.wait()
