"""Viewers of the page: each receives the stream as fast as it reads.

The listener drops a viewer that leaves a message unread. Small messages disappear in the kernel's
buffers, so a stream also ends after a while, and a viewer that reads asks again
(`kubedsm.dashboard.server.stream.LASTS`). If the page is full, a new viewer replaces the one that
asked longest ago.
"""

import socket
from contextlib import aclosing

from aiohttp import web

from kubedsm.dashboard.server.access import Access
from kubedsm.dashboard.server.stream import Stream

#: bytes that are handed over for a viewer at once, and that the kernel keeps for it
PIECE, BUFFER = 65_536, 262_144
#: viewers at a time
MOST = 200


class Viewers:
    """Those that are told the stream, each by a task of its own."""

    def __init__(self, stream: Stream, access: Access) -> None:
        self._stream = stream
        self._access = access
        self._telling: list[web.Request] = []

    async def told(self, request: web.Request) -> web.StreamResponse:
        """Tell one that asks for it what it does not know, until it goes."""
        if len(self._telling) >= MOST:
            self._drop(self._telling[0])
        # What stands in front is to hold nothing back: nginx goes by this.
        unheld = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        answer = web.StreamResponse(headers=unheld)
        answer.content_type = "text/event-stream"
        self._telling.append(request)
        try:
            await answer.prepare(request)
            await self._tell(request, answer)
        except ConnectionError:
            # It has gone, as viewers do.
            pass
        finally:
            if request in self._telling:
                self._telling.remove(request)
        return answer

    def _drop(self, request: web.Request) -> None:
        self._telling.remove(request)
        if request.transport is not None:
            request.transport.abort()  # closing would wait until the client has read all
        request.task.cancel()

    async def _tell(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Raises ConnectionError if the viewer is gone, or was dropped."""
        if request.transport is not None:
            connection = request.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        known = self._stream.known(request.query)
        async with aclosing(self._stream.messages(known)) as lines:
            async for line in lines:
                # The token may be another one by now.
                if not self._access.admits(request):
                    return
                event = memoryview(b"data: " + line + b"\n\n" if line else b":\n\n")
                for begin in range(0, len(event), PIECE):
                    await answer.write(event[begin : begin + PIECE])

    async def end(self, _: web.Application) -> None:
        """Tell nobody any more: they would go on, and who ends would wait for them."""
        for request in self._telling:
            request.task.cancel()
