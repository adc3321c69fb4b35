"""What viewers of the page cost `kubedsm run`, while pods come and go.

The scheduler, the emulated API server and whoever views are processes of their own. Nobody views,
many do, and as many are connected that read nothing: in turns.
"""

import asyncio
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, cast

import attrs
from yarl import URL

from kubedsm.kube.client.port import Cluster
from kubedsm.process.clock import Clock
from kubedsm_lab.bench.api import CORE, Api
from kubedsm_lab.bench.footprint import NAMESPACE, fill, running, until_bound
from kubedsm_lab.bench.soak.processes import Scheduler, cpu_seconds, resident
from kubedsm_lab.bench.telling import figure, many, span

#: pods that come or go in a second
CHANGES = 10
#: seconds from one part of a round to the next, unless all is to take less: whoever is new has
#: all of it by then
SETTLING = 2.0
#: seconds of changes before the first, unless all is to take less
WARMING = 15.0
_MB = 10**6
_LAST_CHUNK = b"\r\n0\r\n\r\n"


@attrs.frozen(slots=True)
class Part:
    """Of a round."""

    #: of one core
    cpu_percent: float
    #: what all viewers got in a second
    messages: float
    bytes: float


@attrs.frozen(slots=True)
class ViewingResult:
    nodes: int
    pods: int
    viewers: int
    seconds: float
    alone: Sequence[Part]
    viewed: Sequence[Part]
    unread: Sequence[Part]
    #: bytes, of `kubedsm run` at the end
    resident: int

    def as_json(self) -> dict[str, Any]:
        return {
            "emulated": True,
            "nodes": self.nodes,
            "pods": self.pods,
            "changesPerSecond": CHANGES,
            "viewers": self.viewers,
            "rounds": len(self.alone),
            "seconds": round(self.seconds, 1),
            "cpuPercentOfACore": {
                "alone": round(median(part.cpu_percent for part in self.alone), 2),
                "moreWithViewers": round(self.more(self.viewed), 2),
                "moreWithViewersThatReadNothing": round(self.more(self.unread), 2),
            },
            "messagesPerSecondOfAViewer": round(self.messages, 2),
            "bytesPerSecondOfAViewer": round(self.bytes),
            "residentMB": round(self.resident / _MB, 1),
        }

    def more(self, parts: Sequence[Part]) -> float:
        """Percent of a core beyond what it takes alone: of the rounds, the median."""
        rounds = zip(parts, self.alone, strict=True)
        return median(part.cpu_percent - alone.cpu_percent for part, alone in rounds)

    @property
    def messages(self) -> float:
        """That a viewer is told in a second."""
        return median(part.messages for part in self.viewed) / self.viewers

    @property
    def bytes(self) -> float:
        """Of these messages."""
        return median(part.bytes for part in self.viewed) / self.viewers

    @property
    def sentences(self) -> list[str]:
        alone = median(part.cpu_percent for part in self.alone)
        return [
            (
                f"{many(self.viewers, 'viewer')} of the page take"
                f" {figure(self.more(self.viewed), 2)} % of a core of `kubedsm run`, and as many"
                f" that read nothing {figure(self.more(self.unread), 2)} %; without them it takes"
                f" {figure(alone, 2)} %: {many(self.nodes, 'node')}, emulated, and"
                f" {many(self.pods, 'pod')}, of which {CHANGES} come or go in a second."
            ),
            (
                f"A viewer is told {figure(self.messages, 2)} messages in a"
                f" second, of {figure(self.bytes / 1000, 2)} kB together."
                f" `kubedsm run` has {self.resident / _MB:,.0f} MB at the end."
            ),
            f"Medians of {many(len(self.alone), 'round')}, {span(self.seconds)} each part.",
        ]


class _Viewer(asyncio.Protocol):
    """Asks for the stream, and counts what it is told."""

    def __init__(self, host: str, *, reads: bool) -> None:
        self._host = host
        self._reads = reads
        self.messages = self.bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection = cast(asyncio.Transport, transport)
        self._ask()
        if not self._reads:
            self._connection.pause_reading()

    def _ask(self) -> None:
        request = f"GET /page/stream HTTP/1.1\r\nHost: {self._host}\r\n\r\n"
        self._connection.write(request.encode())

    def data_received(self, data: bytes) -> None:
        self.messages += data.count(b"data: ")
        self.bytes += len(data)
        if data.endswith(_LAST_CHUNK):
            self._ask()


async def run(
    cluster: Cluster, scheduler: Scheduler, clock: Clock, *, pods: int, viewers: int,
    rounds: int, seconds: float,
) -> ViewingResult:  # fmt: skip
    """The scheduler must show its page, and the cluster have nodes and nothing else in it.

    Raises ClusterError, TimeoutError if pods are not bound, and ChildProcessError if the scheduler
    does not stay.
    """
    api = Api(cluster)
    counts = await fill(api, pods)
    alone: list[Part] = []
    viewed: list[Part] = []
    unread: list[Part] = []
    async with running(scheduler) as tasks:
        await until_bound(api, pods, clock)
        changing = tasks.create_task(_change(api, counts, clock))
        # What is done only once is over then.
        await clock.sleep(min(WARMING, seconds))
        for _ in range(rounds):
            alone.append(await _part(scheduler, clock, seconds, 0))
            viewed.append(await _part(scheduler, clock, seconds, viewers))
            unread.append(await _part(scheduler, clock, seconds, viewers, reads=False))
        changing.cancel()
        held = resident(scheduler.pid)
        if scheduler.ends:
            raise ChildProcessError("kubedsm run ended before it was told to")
    nodes = len((await api.get(f"{CORE}/nodes"))["items"])
    return ViewingResult(nodes, pods, viewers, seconds, alone, viewed, unread, held)


async def _change(api: Api, counts: Mapping[str, int], clock: Clock) -> None:
    """Have a pod more of each workload, one after the other, then one less again."""
    due, more = clock.monotonic(), True
    while True:
        for name, count in counts.items():
            await api.scale(NAMESPACE, name, count + more)
            due += 1 / CHANGES
            await clock.sleep(max(0.0, due - clock.monotonic()))
        more = not more


async def _part(
    scheduler: Scheduler, clock: Clock, seconds: float, viewers: int, *, reads: bool = True
) -> Part:
    address = URL(scheduler.log.page)
    host, port = address.host or "", address.port or 0
    loop = asyncio.get_running_loop()
    connected = [
        await loop.create_connection(lambda: _Viewer(address.authority, reads=reads), host, port)
        for _ in range(viewers)
    ]
    await clock.sleep(min(SETTLING, seconds))
    told = [viewer for _, viewer in connected]
    messages, received = sum(v.messages for v in told), sum(v.bytes for v in told)
    used, began = cpu_seconds(scheduler.pid), clock.monotonic()
    await clock.sleep(seconds)
    used, took = cpu_seconds(scheduler.pid) - used, clock.monotonic() - began
    for transport, _ in connected:
        transport.abort()
    return Part(
        100 * used / took,
        (sum(v.messages for v in told) - messages) / took,
        (sum(v.bytes for v in told) - received) / took,
    )
