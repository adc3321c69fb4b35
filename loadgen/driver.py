"""Load drivers, open-loop and closed-loop, on asyncio's clock, so also in virtual time.

Open loop: each request is sent at its due time, independently of earlier responses. The pacer
follows the schedule and queues due requests; at most `max_connections` senders process the queue in
order. A slow server therefore delays neither the pacer nor the measurement: latency includes the
waiting time in the queue, from the due time on.

Closed loop: each client sends its next request after the previous response. A slow server throttles
its clients, and no figure contains the requests prevented meanwhile. The clients of `ClosedLoop`
have one URL and a connection each, so load balancers such as kube-proxy assign each client to one
server; `ScenarioLoop` has one client per service of a scenario, as DrStress.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs

from loadgen.arrivals import Arrival
from loadgen.measures import TIMEOUT, Outcome, RequestRecorder
from loadgen.scenario import Api, Scenario
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


@attrs.frozen
class _Pace:
    """Timing of one client's requests, in seconds since the load run began."""

    first: float
    #: at least, between the beginnings of two requests
    gap: float
    #: no request begins at or after it
    end: float


class Load:
    """Base class of load drivers: sends HTTP requests and records the results until done or
    interrupted.
    """

    def __init__(self, recorder: RequestRecorder) -> None:
        self._recorder = recorder
        self._started: float | None = None
        #: the first one is over when all requests have ended
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def elapsed(self) -> float:
        """Return the seconds since the load run began; 0 before the start."""
        started = self._started
        return 0.0 if started is None else asyncio.get_running_loop().time() - started

    async def drive(self, stop: asyncio.Event) -> None:
        """Send all requests; return when each has a response, has failed or is abandoned.

        When `stop` is set, return immediately; unfinished requests are abandoned.
        """
        self._started = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(self._send_all(group))
            self._tasks.append(first)
            stopping = group.create_task(stop.wait())
            await asyncio.wait({first, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (*self._tasks, stopping):
                task.cancel()

    async def _send_all(self, group: asyncio.TaskGroup) -> None:
        """Send all requests and await their ends, with further tasks in the group."""
        raise NotImplementedError

    async def _await_clients(
        self, group: asyncio.TaskGroup, clients: Iterable[Coroutine[Any, Any, None]]
    ) -> None:
        tasks = [group.create_task(client) for client in clients]
        self._tasks += tasks
        await asyncio.wait(tasks)

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

    async def _send_paced(
        self, service: str, url: str, transport: Transport, timeout: float, pace: _Pace
    ) -> None:
        """Send requests one after the other, as long as they begin before the end of `pace`."""
        due = pace.first
        while (due := max(due, self.elapsed)) < pace.end:
            await asyncio.sleep(due - self.elapsed)
            arrival = Arrival(self.elapsed, service)
            self._recorder.offer(arrival)
            outcome = await self._send_request(arrival, transport, url, timeout)
            failed = outcome.error not in (None, TIMEOUT)
            due = max(due + pace.gap, self.elapsed + _RETRY if failed else 0.0)


class Driver(Load):
    """Open-loop load driver: sends requests on schedule, regardless of outstanding responses."""

    def __init__(
        self,
        schedule: Iterable[Arrival],
        urls: Mapping[str, str],
        transport: Transport,
        recorder: RequestRecorder,
        limits: Limits,
    ) -> None:
        """Create an open-loop driver; `urls` has the URL to request for each service."""
        super().__init__(recorder)
        self._schedule = schedule
        self._urls = urls
        self._transport = transport
        self._limits = limits
        self._queue: asyncio.Queue[Arrival] = asyncio.Queue()
        self._idle = 0

    async def drive(self, stop: asyncio.Event) -> None:
        await super().drive(stop)
        while not self._queue.empty():
            self._recorder.abandon(self._queue.get_nowait(), self.elapsed)

    async def _send_all(self, group: asyncio.TaskGroup) -> None:
        for arrival in self._schedule:
            # Even if the request is already due: a late pacer must yield to the concurrent senders.
            await asyncio.sleep(max(0.0, arrival.due - self.elapsed))
            self._recorder.offer(arrival, self.elapsed)
            self._queue.put_nowait(arrival)
            if self._queue.qsize() > self._idle and (
                len(self._tasks) <= self._limits.max_connections
            ):
                self._tasks.append(group.create_task(self._run_sender()))
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


class ClosedLoop(Load):
    """Closed-loop driver: each client waits for its response before the next request, for the
    configured seconds. The URL is the name of the service in the measurements.
    """

    def __init__(
        self, url: str, connect: Connect, recorder: RequestRecorder, clients: Clients
    ) -> None:
        super().__init__(recorder)
        self._url = url
        self._connect = connect
        self._clients = clients

    async def _send_all(self, group: asyncio.TaskGroup) -> None:
        await self._await_clients(group, map(self._run_client, range(self._clients.number)))

    async def _run_client(self, number: int) -> None:
        clients, rate = self._clients, self._clients.max_rate
        first, gap = (number / rate, clients.number / rate) if rate else (0.0, 0.0)
        pace = _Pace(first, gap, clients.seconds)
        async with self._connect() as transport:
            await self._send_paced(self._url, self._url, transport, clients.timeout, pace)


class ScenarioLoop(Load):
    """Closed-loop driver of a scenario, as DrStress: one client per service, at most one request
    per period, and none before the response to the previous one.

    The first request of an interval follows one period after its start. An interval whose last
    response comes after its end delays the following ones.
    """

    def __init__(
        self,
        scenario: Scenario,
        urls: Mapping[str, str],
        transport: Transport,
        recorder: RequestRecorder,
        timeout: float,
    ) -> None:
        """Create a closed-loop driver; `urls` has the URL to request for each service, `timeout` is
        in seconds from transmission.
        """
        super().__init__(recorder)
        self._scenario = scenario
        self._urls = urls
        self._transport = transport
        self._timeout = timeout

    async def _send_all(self, group: asyncio.TaskGroup) -> None:
        await self._await_clients(group, map(self._run_client, self._scenario.apis))

    async def _run_client(self, api: Api) -> None:
        for interval in api.intervals:
            begin, gap = self.elapsed, interval.api_call_period / 1000
            pace = _Pace(begin + gap, gap, begin + interval.cycle_length / 1000)
            url = self._urls[api.name]
            await self._send_paced(api.name, url, self._transport, self._timeout, pace)
            await asyncio.sleep(max(0.0, pace.end - self.elapsed))
