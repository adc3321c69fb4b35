"""HTTP listeners that bound connections, request size and silence.

aiohttp limits none of these by itself. `LIMITS` has one row per kind of listener. At a limit, a new
connection replaces the one that has been waiting longest. So a client that sends its request at
once, such as a kubelet's probe, gets a response during an attack.
"""

import asyncio
import logging
import math
import os
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
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.terminal.problems import Problem

log = structlog.get_logger()

#: file descriptors that listeners leave to the API server's connections, processes and files
RESERVED_FILES = 256
#: connections in the kernel's accept queue
_BACKLOG = 128
#: asyncio's messages
_ACCEPT_FAILED = "socket.accept() out of system resource"
_ACCEPT_RETRY = "Exception in callback BaseSelectorEventLoop._start_serving"


@attrs.frozen(slots=True)
class Limits:
    """Limits of one listener. Times are in seconds."""

    listener: str
    #: open connections in all, and from one client address
    connections: int
    per_address: int
    #: bytes of one request, headers and body together
    request_bytes: int = 16 * 1024
    #: from the first byte of a request, or the accept, to the end of its headers
    header_timeout: float = 10.0
    #: from the last response to the next request
    idle_timeout: float = 75.0
    #: without progress of a response that the client does not read
    write_timeout: float = 30.0


METRICS = Limits("metrics", connections=128, per_address=32)
#: 200 viewers may come through one Ingress
PAGE = Limits("page", connections=300, per_address=250)
#: loopback only; serves the page too unless the page has an address of its own
DIAGNOSTICS = Limits("diagnostics", connections=300, per_address=250)
#: the emulated API server and its pods' proxies: trusted clients, thousands of watches
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
#: the listeners that one `kubedsm run` opens
_OF_ONE_RUN = (METRICS, PAGE, DIAGNOSTICS)


class AddressUnavailableError(Problem):
    """The port is taken, or the host is not an address of this machine."""


def raise_file_limit() -> None:
    """Raise the soft limit on open files to the hard limit, as Go programs do at start."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.warning("limit on open files not raised", error=str(error))


def connections_allowed(limits: Limits, open_files: int) -> int:
    """Return the listener's share of the open files that the process may have."""
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
    """Serve the runner at the address within the limits; return the URL with the actual port.

    An empty host means all addresses. Raises AddressUnavailableError and leaves nothing open.
    """
    await runner.setup()
    try:
        await _Listener(runner, host, port, limits, tls).start()
    except OSError as error:
        await runner.cleanup()
        # asyncio's own text repeats the address as a tuple; a name lookup has no errno text
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise AddressUnavailableError(f"cannot listen on {host}:{port}: {why}") from error
    at, number = runner.addresses[0][:2]
    scheme = "http" if tls is None else "https"
    return f"{scheme}://[{at}]:{number}" if ":" in at else f"{scheme}://{at}:{number}"


class _Listener(web.BaseSite):
    """A TCP site that counts its connections."""

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
        """Count a new connection; at a limit, drop the one that has been waiting longest."""
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
        """Close a connection at once; what was to be sent is discarded."""
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
            if connection is None:  # dropped since its request was parsed
                raise ConnectionResetError
            connection.begin_request()
            try:
                return await handle(request)
            finally:
                connection.end_request()

        return handle_request


class _Connection(asyncio.Protocol):
    """aiohttp's protocol behind the listener's limits."""

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener
        self._limits = listener.limits
        self._loop = asyncio.get_running_loop()
        self.handler = listener.server()
        self.handler.logger = listener.log
        #: a handler works on a request
        self.busy = False
        #: time of the accept or of the last response
        self.since = self._loop.time()
        #: bytes since the last request began
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
    """aiohttp's server log as structured events: one line per cause and minute."""

    def __init__(self, listener: str) -> None:
        super().__init__(f"kubedsm.process.http_limits.{listener}", logging.ERROR)
        self._listener = listener
        self._said = SaidByCause(SystemClock())

    def log_dropped(self, client: str, reason: str) -> None:
        self._log_once("connection dropped", reason, log.warning, client=client, reason=reason)

    def handle(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            # The error's own message quotes the client, and is not fit for a terminal.
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
        more = self._said.count_suppressed(event, cause)
        if more is not None:
            say(event, listener=self._listener, **about, **({"more": more} if more else {}))


class _AcceptErrors:
    """Loop exception handler: one line a minute for failed accepts, other errors passed on."""

    def __init__(
        self,
        other: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None,
    ) -> None:
        self._other = other
        self._said = SaidByCause(SystemClock())

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context["message"].startswith(_ACCEPT_RETRY):
            return  # asyncio tries again although the listener is closed by now
        if context["message"] == _ACCEPT_FAILED:
            self._said.log(log.error, "cannot accept connections", context["exception"])
        elif self._other is not None:
            self._other(loop, context)
        else:
            loop.default_exception_handler(context)
