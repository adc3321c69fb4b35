"""A film as a file to be fetched: compressed once for all who come within a moment.

It may be megabytes: a thread compresses it, and placing pods does not wait for that. What was told
since then, a viewer is told by the stream.
"""

import asyncio
import zlib

from aiohttp import web

from kubedsm.dashboard.server.stream import Stream
from kubedsm.process.clock import Clock

#: seconds that a file is good for
FRESH = 5.0
_GZIP = 16 + zlib.MAX_WBITS


class FilmFile:
    """JSON lines, one a message; of whoever has a part already, those that come after it."""

    def __init__(self, stream: Stream, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._compressing = asyncio.Lock()
        self._made = (-FRESH, b"")

    async def answered(self, request: web.Request) -> web.Response:
        answer = web.Response(headers={"Cache-Control": "no-store"})
        answer.content_type = "application/x-ndjson"
        version = self._stream.known(request.query)
        if version is not None:
            answer.body = b"\n".join(self._stream.film.lines(version))
            answer.enable_compression()
        elif "gzip" in request.headers.get("Accept-Encoding", ""):
            answer.headers["Content-Encoding"] = "gzip"
            answer.body = await self._compressed()
        else:
            answer.body = b"\n".join(self._stream.film.lines())
        return answer

    async def _compressed(self) -> bytes:
        async with self._compressing:
            now = self._clock.monotonic()
            if now - self._made[0] >= FRESH:
                lines = b"\n".join(self._stream.film.lines())
                # Of what is much the same again and again, more than the least is not worth it.
                packed = await asyncio.to_thread(zlib.compress, lines, 1, _GZIP)
                self._made = now, packed
            return self._made[1]
