"""HTTP servers with limits on connections, request size and inactivity.

aiohttp has no such limits. `LIMITS` has one row per kind of listener. At a limit, a new connection
replaces the longest waiting connection. Hence clients with immediate requests, such as kubelet
probes, receive responses even during an attack.
"""

import asyncio
import logging
import math
import resource
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

import attrs
import structlog
from aiohttp import web
from aiohttp.http import HttpProcessingError

from kubedsm.process.clock import SystemClock
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.terminal.problems import Problem, explain_refusal

log = structlog.get_logger()

#: file descriptors reserved for API server connections, processes and files
RESERVED_FILES = 256
#: length of the kernel's accept queue
_BACKLOG = 128
#: error messages of asyncio
_ACCEPT_FAILED = "socket.accept() out of system resource"
_ACCEPT_RETRY = "Exception in callback BaseSelectorEventLoop._start_serving"


@attrs.frozen(slots=True)
class Limits:
    """Limits of one HTTP listener: connections, request size and timeouts in seconds."""

    listener: str
    #: open connections: total, and per client address
    connections: int
    per_address: int
    #: bytes per request, including headers
    request_bytes: int = 16 * 1024
    #: from the first byte or connection establishment to complete headers
    header_timeout: float = 10.0
    #: from a response to the following request
    idle_timeout: float = 75.0
    #: without progress of an unread response
    write_timeout: float = 30.0


METRICS = Limits("metrics", connections=128, per_address=32)
#: an Ingress may forward 200 dashboard connections
PAGE = Limits("page", connections=300, per_address=250)
#: loopback only; includes the dashboard unless configured with a separate address
DIAGNOSTICS = Limits("diagnostics", connections=300, per_address=250)
#: emulated API server and pod proxies: trusted clients, thousands of watch connections
EMULATED = Limits(
    "emulated",
    connections=65_536,
    per_address=65_536,
    request_bytes=65 * 2**20,
    header_timeout=60.0,
    idle_timeout=3_600.0,
    write_timeout=math.inf,
)
LIMITS = (METRICS, PAGE, DIAGNOSTICS, EMULATED)
#: listeners of a scheduler process
_OF_ONE_RUN = (METRICS, PAGE, DIAGNOSTICS)


class AddressUnavailableError(Problem):
    """Error: the port is already in use, or the address is unavailable on this machine."""


def connections_allowed(limits: Limits, open_files: int) -> int:
    """Return the maximum number of HTTP connections, given the process's limit of open files."""
    if open_files == resource.RLIM_INFINITY:
        return limits.connections
    available = open_files - min(RESERVED_FILES, open_files // 2)
    wanted = sum(each.connections for each in _OF_ONE_RUN)
    return max(1, min(limits.connections, limits.connections * available // wanted))


async def listen(
    runner: web.BaseRunner,
    host: str,
    port: int,
    limits: Limits,
    tls: ssl.SSLContext | None = None,
) -> str:
    """Start an HTTP server at the address within the limits; return the URL with the actual port.

    An empty host means all addresses. Raises AddressUnavailableError and leaves nothing open.
    """
    await runner.setup()
    try:
        await _Listener(runner, host, port, limits, tls).start()
    except OSError as error:
        await runner.cleanup()
        raise AddressUnavailableError(
            f"cannot listen on {host}:{port}: {explain_refusal(error)}"
        ) from error
    at, number = runner.addresses[0][:2]
    scheme = "http" if tls is None else "https"
    return f"{scheme}://[{at}]:{number}" if ":" in at else f"{scheme}://{at}:{number}"


class _Listener(web.BaseSite):
    """Listening TCP socket of an HTTP server, with limits on its connections."""

    def __init__(
        self,
        runner: web.BaseRunner,
        host: str,
        port: int,
        limits: Limits,
        tls: ssl.SSLContext | None,
    ) -> None:
        super().__init__(runner, ssl_context=tls, backlog=_BACKLOG)
        self.limits = limits
        self.log = _ServerLog(limits.listener)
        self._host, self._port = host, port
        open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = connections_allowed(limits, open_files)
        self._connections: dict[web.RequestHandler, _Connection] = {}
        self._by_address: Counter[str] = Counter()
        self.server = cast(web.Server, runner.server)
        self.server.request_handler = self._track_requests(self.server.request_handler)

    @property
    def name(self) -> str:
        return f"{self._host}:{self._port}"

    async def start(self) -> None:
        await super().start()
        loop = asyncio.get_running_loop()
        if not isinstance(loop.get_exception_handler(), _AcceptErrors):
            loop.set_exception_handler(_AcceptErrors(loop.get_exception_handler()))
        self._server = await loop.create_server(
            lambda: _Connection(self),
            self._host or None,
            self._port,
            ssl=self._ssl_context,
            backlog=self._backlog,
        )

    def admit(self, connection: "_Connection") -> None:
        """Register a TCP connection; at a limit, drop the oldest idle connection, or else the
        oldest.
        """
        address = connection.address
        if self._by_address[address] >= self.limits.per_address:
            same = (each for each in self._connections.values() if each.address == address)
            self._drop_one(same, "too many connections from one address")
        elif len(self._connections) >= self._most:
            self._drop_one(self._connections.values(), "too many connections")
        self._connections[connection.handler] = connection
        self._by_address[address] += 1

    def _drop_one(self, connections: Iterable["_Connection"], reason: str) -> None:
        self.drop(min(connections, key=lambda each: (each.busy, each.since)), reason)

    def drop(self, connection: "_Connection", reason: str) -> None:
        """Close a TCP connection immediately, discarding unsent bytes."""
        self.forget(connection)
        connection.transport.abort()
        self.log.log_dropped(connection.address, reason)

    def forget(self, connection: "_Connection") -> None:
        if self._connections.pop(connection.handler, None) is not None:
            self._by_address -= Counter((connection.address,))

    def _track_requests(
        self, handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        async def handle_request(request: web.BaseRequest) -> web.StreamResponse:
            connection = self._connections.get(request.protocol)
            if connection is None:  # dropped after parsing the request
                raise ConnectionResetError
            connection.begin_request()
            try:
                return await handle(request)
            finally:
                connection.end_request()

        return handle_request


class _Connection(asyncio.Protocol):
    """Wrapper of aiohttp's protocol handler for one connection; enforces the listener's limits."""

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener
        self._limits = listener.limits
        self._loop = asyncio.get_running_loop()
        self.handler = listener.server()
        self.handler.logger = listener.log
        #: a request handler is running
        self.busy = False
        #: time of establishment or of the last response
        self.since = self._loop.time()
        #: bytes received since the beginning of the request
        self._received = 0
        self._expires = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self._listener.admit(self)
        self._expire_after(self._limits.header_timeout)
        self.handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._listener.forget(self)
        self.handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.busy and not self._received:
            self._expire_after(self._limits.header_timeout)
        self._received += len(data)
        if self._received > self._limits.request_bytes:
            self._listener.drop(self, "request too large")
        else:
            self.handler.data_received(data)

    def eof_received(self) -> None:
        self.handler.eof_received()

    def pause_writing(self) -> None:
        self._expire_after(self._limits.write_timeout)
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        self._expire_after(math.inf if self.busy else self._limits.idle_timeout)
        self.handler.resume_writing()

    def begin_request(self) -> None:
        self.busy, self._received, self._expires = True, 0, math.inf

    def end_request(self) -> None:
        self.busy, self.since = False, self._loop.time()
        limits = self._limits
        self._expire_after(limits.header_timeout if self._received else limits.idle_timeout)

    def _expire_after(self, seconds: float) -> None:
        self._expires = self._loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._expires:
            self._timer.cancel()
            self._timer = None
        if self._timer is None and self._expires < math.inf:
            self._timer = self._loop.call_at(self._expires, self._check_expiry)

    def _check_expiry(self) -> None:
        self._timer = None
        if self._expires <= self._loop.time():
            self._listener.drop(self, "timeout")
        elif self._expires < math.inf:
            self._timer = self._loop.call_at(self._expires, self._check_expiry)


class _ServerLog(logging.Logger):
    """Logger converting aiohttp's messages to throttled structured events."""

    def __init__(self, listener: str) -> None:
        super().__init__(f"kubedsm.process.http_limits.{listener}", logging.ERROR)
        self._listener = listener
        self._throttle = LogThrottle(SystemClock())

    def log_dropped(self, client: str, reason: str) -> None:
        self._log_once("connection dropped", reason, log.warning, client=client, reason=reason)

    def handle(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            # The original message quotes untrusted bytes, unsuitable for a terminal.
            client = str(record.args[0]) if isinstance(record.args, tuple) else ""
            self._log_once(
                "malformed request",
                type(error).__name__,
                log.warning,
                client=client,
                error=f"{error.code} {type(error).__name__}",
            )
        else:
            message = record.getMessage()
            cause = f"{message} {error!r}"
            self._log_once("request failed", cause, log.error, error=message, exc_info=error)

    def _log_once(self, event: str, cause: str, say: Callable[..., object], **about: Any) -> None:
        more = self._throttle.count_suppressed(event, cause)
        if more is not None:
            say(event, listener=self._listener, **about, **({"more": more} if more else {}))


class _AcceptErrors:
    """Event-loop exception handler that throttles log lines about failing socket accepts."""

    def __init__(
        self,
        other: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None,
    ) -> None:
        self._other = other
        self._throttle = LogThrottle(SystemClock())

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context["message"].startswith(_ACCEPT_RETRY):
            return  # asyncio retries although the listener is already closed
        if context["message"] == _ACCEPT_FAILED:
            self._throttle.log(log.error, "cannot accept connections", context["exception"])
        elif self._other is not None:
            self._other(loop, context)
        else:
            loop.default_exception_handler(context)
