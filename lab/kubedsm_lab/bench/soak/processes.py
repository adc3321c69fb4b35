"""`kubedsm emulate` and `kubedsm run` as processes of their own, and what is seen of them."""

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

import attrs
import orjson

from kubedsm.process.clock import Clock

#: of one line of a log: with a traceback it is long
LONGEST_LINE = 2**24
#: seconds that a process has to end when it is told to
PATIENCE = 30.0
#: seconds until a scheduler that ended is started again, and between two looks at its memory
PAUSE = 1.0
#: what it says that ends because another leads
_GAVE_WAY = b"kubedsm: error: not leading any more:"
_KIBI = 1024


@asynccontextmanager
async def emulated_cluster(nodes: Sequence[dict[str, Any]], *options: str) -> AsyncIterator[Path]:
    """Run `kubedsm emulate` with those nodes, in the short form or as Node objects.

    Gives its kubeconfig's path.
    """
    with tempfile.TemporaryDirectory(prefix="kubedsm-") as folder:
        cluster = Path(folder) / "cluster.json"
        as_objects = all("kind" in node for node in nodes)
        document = {"kind": "List", "items": nodes} if as_objects else {"nodes": nodes}
        cluster.write_bytes(orjson.dumps(document))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "kubedsm", "emulate", "--cluster", str(cluster), "--port", "0", "-o", "json"),
            *options,
            stdout=asyncio.subprocess.PIPE,
        )
        if process.stdout is None:
            raise RuntimeError("the server's output is not piped")
        try:
            line = await process.stdout.readline()
            yield Path(orjson.loads(line)["kubeconfig"])
        finally:
            await ended(process)


@attrs.define
class LogCount:
    """What a scheduler has to say, counted by its events."""

    errors: Counter[str] = attrs.field(factory=Counter)
    warnings: Counter[str] = attrs.field(factory=Counter)
    #: when moves ended, on the monotonic clock, and how
    moves: list[tuple[float, str]] = attrs.field(factory=list)
    tracebacks: int = 0
    #: how often a process ended because another led
    gave_way: int = 0
    #: whether the process that runs was elected
    leading: bool = False
    #: where it answers for /metrics
    metrics: str = ""
    #: where the page is, if there is one
    page: str = ""
    #: set once it knows the cluster
    synced: asyncio.Event = attrs.field(factory=asyncio.Event)

    def take(self, line: bytes, now: float) -> None:
        """Take in a line: JSON, or whatever Python has to say when a process ends."""
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            entry = None
        if not isinstance(entry, dict):
            self.tracebacks += b"Traceback (most recent call last)" in line
            if line.startswith(_GAVE_WAY):
                self.gave_way += 1
            elif line.startswith(b"kubedsm: error:"):
                self.errors[line.decode(errors="replace").strip()] += 1
            return
        event, level = str(entry.get("event")), entry.get("level")
        self.tracebacks += "exception" in entry
        if level in ("error", "critical"):
            self.errors[event] += 1
        elif level == "warning":
            self.warnings[event] += 1
        else:
            self._heard(event, entry, now)

    def _heard(self, event: str, entry: dict[str, Any], now: float) -> None:
        if event == "connected":
            self.metrics, self.page = str(entry.get("metrics")), str(entry.get("page", ""))
        elif event == "synced":
            self.synced.set()
        elif event == "leading":
            self.leading = True
        elif event == "move ended":
            self.moves.append((now, str(entry.get("outcome"))))

    def began(self) -> None:
        """Another process speaks from now on."""
        self.leading, self.metrics, self.page = False, "", ""

    @classmethod
    def of_all(cls, logs: Iterable["LogCount"]) -> "LogCount":
        """What they said, together."""
        whole = cls()
        for log in logs:
            whole.errors += log.errors
            whole.warnings += log.warnings
            whole.moves += log.moves
            whole.tracebacks += log.tracebacks
            whole.gave_way += log.gave_way
        return whole


@attrs.frozen(slots=True)
class Look:
    """At a process: when, on the monotonic clock; seconds since it began; its resident bytes."""

    at: float
    age: float
    resident: int


class Scheduler:
    """`kubedsm run` on a cluster: started again when it ends, as a kubelet would."""

    def __init__(self, kubeconfig: Path, clock: Clock, *options: str) -> None:
        self._command = (
            *("-m", "kubedsm", "run", "--kubeconfig", str(kubeconfig)),
            *("--diagnostics-port", "0", "--metrics-address", "127.0.0.1:0", "-o", "json"),
            *options,
        )
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False
        self._killed = False
        self._children: set[int] = set()
        self.log = LogCount()
        #: how often it ended by itself, other than to give way
        self.ends = 0
        #: of it and its children together
        self.memory: list[Look] = []

    @property
    def pid(self) -> int:
        """Of the process that runs, or ran last; 0 before the first."""
        return self._process.pid if self._process is not None else 0

    async def run(self) -> None:
        """Keep one running until `stop`, or until cancelled."""
        while not self._stopping:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._command,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LONGEST_LINE,
            )
            self._process, self._killed, gave_way = process, False, self.log.gave_way
            self.log.began()
            try:
                async with asyncio.TaskGroup() as tasks:
                    for stream in (process.stdout, process.stderr):
                        if stream is not None:
                            tasks.create_task(self._listen(stream))
                    watching = tasks.create_task(self._look_at_memory(process.pid))
                    await process.wait()
                    watching.cancel()
            finally:
                await ended(process)
            if not self._stopping:
                self.ends += not self._killed and self.log.gave_way == gave_way
                await self._clock.sleep(PAUSE)

    async def stop(self) -> float:
        """Tell it to end, and wait until it has. Returns the seconds that it took."""
        self._stopping = True
        started = self._clock.monotonic()
        if self._process is not None:
            await ended(self._process)
        return self._clock.monotonic() - started

    def kill(self) -> None:
        """Have it end without a word, if it runs."""
        self._killed = True
        self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """To the process itself, if it runs; its children hear nothing."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def left_over(self) -> list[int]:
        """Children that live although it does not."""
        return [pid for pid in self._children if _lives(pid)]

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            self.log.take(line, self._clock.monotonic())

    async def _look_at_memory(self, pid: int) -> None:
        began = self._clock.monotonic()
        while True:
            await self._clock.sleep(PAUSE)
            with suppress(OSError):  # it has just ended
                processes = family(pid)
                self._children.update(processes[1:])
                now = self._clock.monotonic()
                self.memory.append(Look(now, now - began, sum(map(resident, processes))))


def resident(pid: int) -> int:
    """Bytes of memory that the process holds. Raises OSError."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = (line.partition(":") for line in status.splitlines())
    return next((int(value.split()[0]) * _KIBI for name, _, value in fields if name == "VmRSS"), 0)


def cpu_seconds(pid: int) -> float:
    """Of all threads of the process, since it began. Raises OSError."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> tuple[int, ...]:
    """The process, and those that it has started. Raises OSError."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return pid, *map(int, children)


def _lives(pid: int) -> bool:
    """Also False for one that has ended, and that nobody has asked for its exit code."""
    try:
        return resident(pid) > 0
    except OSError:
        return False


async def ended(process: asyncio.subprocess.Process) -> None:
    """Have it ended: told first, then killed."""
    if process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await process.wait()
    if process.returncode is None:
        process.kill()
    await process.wait()
