"""HTTP/1.1 connection with one exchange at a time: a request's bytes, a response's body.

httptools parses responses. This module adds limits of length, responses that end with their
connection, and the refusal of unsolicited responses.
"""

import asyncio
import socket
import struct
from http import HTTPStatus
from typing import cast

import httptools

from kubedsm.kube.client.port import Response

#: byte limits of a response: status line with headers, and body
HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 16 * 1024 * 1024

#: SO_LINGER enabled with zero timeout: closing discards unsent bytes
NO_LINGERING = struct.pack("ii", 1, 0)

#: error message for an incomplete response
CLOSED = "the server closed the connection"

_SAYS_WHERE_IT_ENDS = frozenset({b"content-length", b"transfer-encoding"})


class Connection(asyncio.Protocol):
    """Protocol for `loop.create_connection`; not reusable once `abort` or the server closed it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Response] | None = None
        self._reset_parser()
        #: set by each exchange; reset by the pool
        self.used = False
        #: resolved after the connection is lost
        self.gone: asyncio.Future[None] = self._loop.create_future()

    def _reset_parser(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._length = 0
        self._in_head = True
        self._ends_with_connection = True

    @property
    def usable(self) -> bool:
        """Return True if another exchange is possible."""
        return self._answer is None and not self._transport.is_closing()

    async def exchange(self, sent: bytes) -> Response:
        """Send a request, and return its whole response; HEAD is not supported.

        Raises ConnectionError for an invalid response. Any exception closes the connection and
        discards unsent bytes.
        """
        self._reset_parser()
        self._answer = self._loop.create_future()
        self.used = True
        self._transport.write(sent)
        try:
            return await self._answer
        except BaseException:
            self.abort()
            raise
        finally:
            self._answer = None

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        made: socket.socket = transport.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGERING)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # unsolicited response
            return
        if self._in_head:
            self._length += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail_exchange(f"no HTTP: {error}")
        if self._in_head and self._length > HEAD_LIMIT:
            self._fail_exchange(f"headers of over {HEAD_LIMIT} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and not self._in_head and self._ends_with_connection:
            self._resolve_response()
        self._fail_exchange(str(exc or CLOSED))
        self.gone.set_result(None)

    # callbacks of the parser

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # unsolicited response

    def on_header(self, name: bytes, _value: bytes) -> None:
        if name.lower() in _SAYS_WHERE_IT_ENDS:
            self._ends_with_connection = False

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() >= HTTPStatus.OK:
            self._in_head, self._length = False, 0

    def on_body(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > BODY_LIMIT:
            self._fail_exchange(f"a body of over {BODY_LIMIT} bytes")
        else:
            self._body.append(part)

    def on_message_complete(self) -> None:
        if self._in_head:
            return  # 1xx: the answer itself is still to come
        self._resolve_response()
        if not self._parser.should_keep_alive():
            self.abort()

    def _resolve_response(self) -> None:
        if self._answer is not None and not self._answer.done():
            status = self._parser.get_status_code()
            self._answer.set_result(Response(status, b"".join(self._body)))

    def _fail_exchange(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(why))
        self.abort()
