"""Load drivers, open-loop and closed-loop, on asyncio's clock, so also in virtual time.

Open loop: each request is sent at its due time, independently of earlier responses. The pacer
follows the schedule and queues due requests; at most `max_connections` senders process the queue in
order. A slow server therefore delays neither the pacer nor the measurement: latency includes the
waiting time in the queue, from the due time on.

Closed loop: each client sends its next request after the previous response. A slow server throttles
its clients, and no figure contains the requests prevented meanwhile. Each client has its own
connection, so load balancers such as kube-proxy assign each client to one server.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager

import attrs

from loadgen.arrivals import Arrival
from loadgen.measures import TIMEOUT, Outcome, RequestRecorder
from loadgen.transport import Transport, TransportError

#: back-off in seconds of a client without a successful response
_RETRY = 0.1

#: opens a client's connections
Connect = Callable[[], AbstractAsyncContextManager[Transport]]


@attrs.frozen
class Limits:
    #: concurrent requests
    max_connections: int = 256
    #: request timeout in seconds, counted from the scheduled departure
    timeout: float = 30.0


@attrs.frozen
class Clients:
    number: int
    #: measurement duration in seconds, in which requests begin
    seconds: float
    #: request timeout in seconds, counted from transmission
    timeout: float = 15.0
    #: combined requests per second of all clients; the pacer never compensates for late requests
    max_rate: float | None = None


class _Load:
    """Base class of load drivers: sends HTTP requests and records the results until done or
    interrupted.
    """

    def __init__(self, recorder: RequestRecorder) -> None:
        self._recorder = recorder
        self._started: float | None = None

    @property
    def elapsed(self) -> float:
        """Return the seconds since the load run began; 0 before the start."""
        started = self._started
        return 0.0 if started is None else asyncio.get_running_loop().time() - started

    async def _run_tasks(
        self, load: Callable[[asyncio.TaskGroup], Iterable[asyncio.Task[None]]], stop: asyncio.Event
    ) -> None:
        """Run the load's tasks concurrently until the first one completes or `stop` is set; then
        cancel the remaining tasks.
        """
        self._started = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            tasks = load(group)
            first, *_ = tasks
            stopping = group.create_task(stop.wait())
            await asyncio.wait({first, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, stopping):
                task.cancel()

    async def _send_request(
        self, arrival: Arrival, transport: Transport, url: str, seconds: float
    ) -> Outcome:
        """Send one HTTP request; record and return its status, error and latency. A cancelled
        request is recorded as abandoned.
        """
        self._recorder.begin(arrival, self.elapsed)
        status, served_by, failure = None, "", None
        try:
            async with asyncio.timeout(seconds):
                status, served_by = await transport.get(url)
        except TimeoutError:
            failure = TIMEOUT
        except TransportError as error:
            failure = str(error)
        except asyncio.CancelledError:
            self._recorder.abandon(arrival, self.elapsed)
            raise
        outcome = Outcome(arrival, self.elapsed, status, failure, served_by)
        self._recorder.end(outcome)
        return outcome


class Driver(_Load):
    """Open-loop load driver: sends requests on schedule, regardless of outstanding responses."""

    def __init__(
        self,
        urls: Mapping[str, str],
        transport: Transport,
        recorder: RequestRecorder,
        limits: Limits,
    ) -> None:
        """Create an open-loop driver; `urls` has the URL to request for each service."""
        super().__init__(recorder)
        self._urls = urls
        self._transport = transport
        self._limits = limits
        self._queue: asyncio.Queue[Arrival] = asyncio.Queue()
        self._senders: list[asyncio.Task[None]] = []
        self._idle = 0

    async def drive(self, schedule: Iterable[Arrival], stop: asyncio.Event) -> None:
        """Send all requests of the schedule; return when each request has a response, has failed or
        is abandoned.

        When `stop` is set, return immediately; unfinished requests are abandoned.
        """

        def begin(group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
            self._senders.append(group.create_task(self._send_all(schedule, group)))
            return self._senders

        await self._run_tasks(begin, stop)
        while not self._queue.empty():
            self._recorder.abandon(self._queue.get_nowait(), self.elapsed)

    async def _send_all(self, schedule: Iterable[Arrival], group: asyncio.TaskGroup) -> None:
        for arrival in schedule:
            # Even if the request is already due: a late pacer must yield to the concurrent senders.
            await asyncio.sleep(max(0.0, arrival.due - self.elapsed))
            self._recorder.offer(arrival, self.elapsed)
            self._queue.put_nowait(arrival)
            if self._queue.qsize() > self._idle and (
                len(self._senders) <= self._limits.max_connections
            ):
                self._senders.append(group.create_task(self._run_sender()))
        await self._queue.join()

    async def _run_sender(self) -> None:
        while True:
            self._idle += 1
            try:
                arrival = await self._queue.get()
            finally:
                self._idle -= 1
            deadline = arrival.due + self._limits.timeout
            if self.elapsed < deadline:
                url = self._urls[arrival.service]
                await self._send_request(arrival, self._transport, url, deadline - self.elapsed)
            else:
                # The request exceeded its deadline in the queue.
                self._recorder.end(Outcome(arrival, deadline, error=TIMEOUT))
            self._queue.task_done()


class ClosedLoop(_Load):
    """Closed-loop driver: each client waits for its response before the next request.

    `service` identifies the requests in the measurements.
    """

    def __init__(
        self, service: str, url: str, connect: Connect, recorder: RequestRecorder, clients: Clients
    ) -> None:
        super().__init__(recorder)
        self._service = service
        self._url = url
        self._connect = connect
        self._clients = clients

    async def drive(self, stop: asyncio.Event) -> None:
        """Run the closed-loop clients for the configured seconds; return when each request has
        ended.

        When `stop` is set, return immediately; unfinished requests are abandoned.
        """
        await self._run_tasks(lambda group: [group.create_task(self._run_clients())], stop)

    async def _run_clients(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._clients.number):
                group.create_task(self._run_client(number))

    async def _run_client(self, number: int) -> None:
        rate = self._clients.max_rate
        due, gap = (number / rate, self._clients.number / rate) if rate else (0.0, 0.0)
        async with self._connect() as transport:
            while (due := max(due, self.elapsed)) < self._clients.seconds:
                await asyncio.sleep(due - self.elapsed)
                arrival = Arrival(self.elapsed, self._service)
                self._recorder.offer(arrival, arrival.due)
                outcome = await self._send_request(
                    arrival, transport, self._url, self._clients.timeout
                )
                failed = outcome.error not in (None, TIMEOUT)
                due = max(due + gap, self.elapsed + _RETRY if failed else 0.0)
