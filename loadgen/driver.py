"""Open-loop load: requests are sent when they are due, whatever became of those before them.

The pacer follows the schedule and puts each request that is due into a queue; at most
`max_connections` senders take them from there, first come, first served. So a slow server slows
neither the pacer nor the counting: a request that waits for a sender waits in the queue, at some
hundred bytes, and its latency counts from when it was due.

The event loop is the clock (`loop.time()`), so that the driver runs in virtual time on a loop
whose time is virtual.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import attrs

from loadgen.arrivals import Arrival
from loadgen.measures import TIMEOUT, Outcome, RequestRecorder
from loadgen.transport import Transport, TransportError


@attrs.frozen
class Limits:
    #: requests under way at once
    max_connections: int = 256
    #: seconds from when a request was due to when it is given up
    timeout: float = 30.0


async def outcome_of(
    arrival: Arrival, transport: Transport, url: str, seconds: float, elapsed: Callable[[], float]
) -> Outcome:
    """Send one request and see what becomes of it in those seconds; `elapsed` is the run's time."""
    status, served_by, failure = None, "", None
    try:
        async with asyncio.timeout(seconds):
            status, served_by = await transport.get(url)
    except TimeoutError:
        failure = TIMEOUT
    except TransportError as error:
        failure = str(error)
    return Outcome(arrival, elapsed(), status, failure, served_by)


class Driver:
    def __init__(
        self,
        urls: Mapping[str, str],
        transport: Transport,
        recorder: RequestRecorder,
        limits: Limits,
    ) -> None:
        """`urls` are by service."""
        self._urls = urls
        self._transport = transport
        self._recorder = recorder
        self._limits = limits
        self._queue: asyncio.Queue[Arrival] = asyncio.Queue()
        self._senders: list[asyncio.Task[None]] = []
        self._idle = 0
        self._started: float | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the scenario began; 0 before."""
        started = self._started
        return 0.0 if started is None else asyncio.get_running_loop().time() - started

    async def drive(self, schedule: Iterable[Arrival], stop: asyncio.Event) -> None:
        """Send every request of the schedule; return when each has ended.

        When `stop` is set, return at once; what has not ended is abandoned.
        """
        self._started = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self._send_all(schedule, group))
            stopping = group.create_task(stop.wait())
            await asyncio.wait({sending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (sending, stopping, *self._senders):
                task.cancel()
        while not self._queue.empty():
            self._recorder.abandon(self._queue.get_nowait(), self.elapsed)

    async def _send_all(self, schedule: Iterable[Arrival], group: asyncio.TaskGroup) -> None:
        for arrival in schedule:
            # Also when it is due already: a pacer that runs late must let the senders run.
            await asyncio.sleep(max(0.0, arrival.due - self.elapsed))
            self._recorder.offer(arrival, self.elapsed)
            self._queue.put_nowait(arrival)
            if self._queue.qsize() > self._idle and (
                len(self._senders) < self._limits.max_connections
            ):
                self._senders.append(group.create_task(self._sender()))
        await self._queue.join()

    async def _sender(self) -> None:
        while True:
            self._idle += 1
            try:
                arrival = await self._queue.get()
            finally:
                self._idle -= 1
            await self._send(arrival)
            self._queue.task_done()

    async def _send(self, arrival: Arrival) -> None:
        deadline = arrival.due + self._limits.timeout
        if self.elapsed >= deadline:
            # It was not noticed when its time was over, but it was then.
            self._recorder.end(Outcome(arrival, deadline, error=TIMEOUT))
            return
        self._recorder.begin(arrival, self.elapsed)
        url, left = self._urls[arrival.service], deadline - self.elapsed
        try:
            outcome = await outcome_of(arrival, self._transport, url, left, lambda: self.elapsed)
        except asyncio.CancelledError:
            self._recorder.abandon(arrival, self.elapsed)
            raise
        self._recorder.end(outcome)
