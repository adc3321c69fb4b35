"""Closed-loop load: so many clients, each of which sends its next request when it has an answer.

A slow server slows its clients down, as it does those who wait for a page before they ask for the
next. What it would have been asked meanwhile is in no figure: `driver` is the open loop, in which
it is. Each client keeps a connection of its own for as long as the load goes on, so whatever shares
connections out among servers, as kube-proxy does, leaves each client with one of them.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import attrs

from loadgen.arrivals import Arrival
from loadgen.driver import outcome_of
from loadgen.measures import TIMEOUT, RequestRecorder
from loadgen.transport import Transport

#: seconds until a client that got no answer tries again: nothing is to be learnt from more haste
_RETRY = 0.1

#: what opens a client's connections
Connect = Callable[[], AbstractAsyncContextManager[Transport]]


@attrs.frozen
class Clients:
    number: int
    #: in which requests are begun
    seconds: float
    #: seconds from a request's beginning to when it is given up
    timeout: float = 15.0
    #: requests a second of all together, at the most; what comes too late is not made up for
    max_rate: float | None = None


class ClosedLoop:
    """The event loop is the clock, as it is in `driver`."""

    def __init__(
        self, service: str, url: str, connect: Connect, recorder: RequestRecorder, clients: Clients
    ) -> None:
        """`service` is what the requests are recorded as."""
        self._service = service
        self._url = url
        self._connect = connect
        self._recorder = recorder
        self._clients = clients
        self._started: float | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the load began; 0 before."""
        started = self._started
        return 0.0 if started is None else asyncio.get_running_loop().time() - started

    async def drive(self, stop: asyncio.Event) -> None:
        """Return when the time is over and each request has ended.

        When `stop` is set, return at once; what has not ended is abandoned.
        """
        self._started = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            loading = group.create_task(self._load())
            stopping = group.create_task(stop.wait())
            await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (loading, stopping):
                task.cancel()

    async def _load(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._clients.number):
                group.create_task(self._client(number))

    async def _client(self, number: int) -> None:
        rate = self._clients.max_rate
        due, gap = (number / rate, self._clients.number / rate) if rate else (0.0, 0.0)
        async with self._connect() as transport:
            while (due := max(due, self.elapsed)) < self._clients.seconds:
                await asyncio.sleep(due - self.elapsed)
                failed = await self._send(transport)
                due = max(due + gap, self.elapsed + _RETRY if failed else 0.0)

    async def _send(self, transport: Transport) -> bool:
        """Whether no answer came, and soon."""
        arrival = Arrival(self.elapsed, self._service)
        self._recorder.offer(arrival, arrival.due)
        self._recorder.begin(arrival, arrival.due)
        try:
            outcome = await outcome_of(
                arrival, transport, self._url, self._clients.timeout, lambda: self.elapsed
            )
        except asyncio.CancelledError:
            self._recorder.abandon(arrival, self.elapsed)
            raise
        self._recorder.end(outcome)
        return outcome.error not in (None, TIMEOUT)
