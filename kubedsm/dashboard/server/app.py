"""Dashboard page over HTTP: static files, stream of updates, recording, and explanations.

The page is read-only. Access rules are in `access`.
"""

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from importlib.resources import files
from pathlib import Path, PurePath

from aiohttp import web

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.history import History
from kubedsm.dashboard.rows import list_decisions
from kubedsm.dashboard.server.access import Access
from kubedsm.dashboard.server.leader import LeaderPage
from kubedsm.dashboard.server.questions import Questions
from kubedsm.dashboard.server.stream import Stream
from kubedsm.dashboard.state.scene import Scene
from kubedsm.observability.reading import Leadership
from kubedsm.process.clock import Clock
from kubedsm.process.http_limits import PAGE, listen

LOOPBACK = "127.0.0.1"
#: grace period of unfinished requests at shutdown, in seconds
GRACE = 1.0
#: bytes written to a viewer at once, and bytes that the kernel buffers for it
PIECE, BUFFER = 65_536, 262_144
#: viewers at a time
MOST = 200
#: validity of a compressed recording in seconds
FRESH = 5.0
_GZIP = 16 + zlib.MAX_WBITS

_STATIC = files("kubedsm.dashboard") / "static"
_TYPES = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml",
}  # fmt: skip


def read_static_files() -> dict[str, bytes]:
    """Return the contents of the dashboard's static files by URL path below /page/."""
    found = {}
    for entry in _STATIC.iterdir():
        for file in entry.iterdir() if entry.is_dir() else (entry,):
            name = file.name if file is entry else f"{entry.name}/{file.name}"
            found[name] = file.read_bytes()
    return found


def page_app(
    stream: Stream, clock: Clock, access: Access, questions: Iterable[web.RouteDef] = ()
) -> web.Application:
    """Return the aiohttp application of the dashboard page; the same access control guards extra
    routes.
    """
    contents = read_static_files()
    packed = {name: gzip.compress(content, mtime=0) for name, content in contents.items()}

    def is_public(request: web.Request) -> bool:
        return request.path == "/" or request.path.removeprefix("/page/") in contents

    async def file(request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        if name not in contents:
            raise web.HTTPNotFound(text=f"no file {name}\n")
        response = web.Response(headers={"Cache-Control": "no-cache", "Vary": "Accept-Encoding"})
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            response.headers["Content-Encoding"] = "gzip"
            response.body = packed[name]
        else:
            response.body = contents[name]
        response.content_type = _TYPES.get(PurePath(name).suffix, "text/plain")
        response.charset = "utf-8"
        return response

    viewers, recording = _Viewers(stream, access), _RecordingFile(stream, clock)
    app = web.Application()
    access.guard(app, is_public)
    app.on_shutdown.append(viewers.end)
    app.add_routes(
        [
            web.get("/", file),
            web.get("/page/stream", viewers.respond, allow_head=False),
            web.get("/page/recording", recording.respond),
            *questions,
            web.get("/page/{name:[a-z_./-]+}", file),
        ]
    )
    return app


class _Viewers:
    """Connected browsers and terminals: each receives the stream of updates as fast as the viewer
    reads.

    The listener disconnects viewers with unread messages. Small messages disappear in the kernel's
    buffers, hence streams also end after `stream.LASTS`, and reading viewers reconnect. Above the
    maximum, a new viewer replaces the viewer with the oldest connection.
    """

    def __init__(self, stream: Stream, access: Access) -> None:
        self._stream = stream
        self._access = access
        self._connected: list[web.Request] = []

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Stream the page's updates to one viewer until disconnection."""
        if len(self._connected) >= MOST:
            self._drop_viewer(self._connected[0])
        # Proxies must not buffer the stream: nginx obeys this header.
        unbuffered = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=unbuffered)
        response.content_type = "text/event-stream"
        self._connected.append(request)
        try:
            await response.prepare(request)
            await self._send_messages(request, response)
        except ConnectionError:
            # Viewers disconnect at any time.
            pass
        finally:
            if request in self._connected:
                self._connected.remove(request)
        return response

    def _drop_viewer(self, request: web.Request) -> None:
        self._connected.remove(request)
        if request.transport is not None:
            request.transport.abort()  # closing would wait until the client has read all
        request.task.cancel()

    async def _send_messages(self, request: web.Request, response: web.StreamResponse) -> None:
        """Send updates to one viewer. Raise ConnectionError if disconnected or dropped."""
        if request.transport is not None:
            connection = request.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        known = self._stream.known(request.query)
        async with aclosing(self._stream.messages(known)) as lines:
            async for line in lines:
                # The token may have changed.
                if not self._access.admits(request):
                    return
                event = memoryview(b"data: " + line + b"\n\n" if line else b":\n\n")
                for begin in range(0, len(event), PIECE):
                    await response.write(event[begin : begin + PIECE])

    async def end(self, _: web.Application) -> None:
        """Disconnect all viewers at shutdown: the server would wait for the streams."""
        for request in self._connected:
            request.task.cancel()


class _RecordingFile:
    """Recording as JSON lines, compressed in a thread, and once for all requests of a moment."""

    def __init__(self, stream: Stream, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._compressing = asyncio.Lock()
        self._made = (-FRESH, b"")

    async def respond(self, request: web.Request) -> web.Response:
        """Send the complete recording of the page, or only the changes that the viewer lacks."""
        response = web.Response(headers={"Cache-Control": "no-store"})
        response.content_type = "application/x-ndjson"
        version = self._stream.known(request.query)
        if version is not None:
            response.body = b"\n".join(self._stream.recording.lines(version))
            response.enable_compression()
        elif "gzip" in request.headers.get("Accept-Encoding", ""):
            response.headers["Content-Encoding"] = "gzip"
            response.body = await self._compress_recording()
        else:
            response.body = b"\n".join(self._stream.recording.lines())
        return response

    async def _compress_recording(self) -> bytes:
        async with self._compressing:
            now = self._clock.monotonic()
            if now - self._made[0] >= FRESH:
                lines = b"\n".join(self._stream.recording.lines())
                # The lines repeat themselves: the lowest level is enough.
                packed = await asyncio.to_thread(zlib.compress, lines, 1, _GZIP)
                self._made = now, packed
            return self._made[1]


@asynccontextmanager
async def page_of(
    runtime: Runtime,
    scene: Scene,
    clock: Clock,
    address: tuple[str, int] = (LOOPBACK, 0),
    access: Access | None = None,
    leadership: Callable[[], Leadership | None] = Leadership,
    folder: Path | None = None,
    leader: LeaderPage | None = None,
) -> AsyncIterator[str]:
    """Serve the dashboard page of a runtime, with rows from `scene`; yield the page's URL.

    leadership: returns None for a runtime without decisions, which only follows the cluster.
    folder, leader: as in `app_of`. Raise AddressUnavailableError.
    """
    access = access or Access()
    async with app_of(runtime, scene, clock, access, leadership, folder, leader) as app:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=GRACE)
        url = await listen(runner, *address, PAGE)
        try:
            yield url
        finally:
            await runner.cleanup()


@asynccontextmanager
async def app_of(
    runtime: Runtime,
    scene: Scene,
    clock: Clock,
    access: Access,
    leadership: Callable[[], Leadership | None] = Leadership,
    folder: Path | None = None,
    leader: LeaderPage | None = None,
) -> AsyncIterator[web.Application]:
    """Yield the dashboard page's aiohttp application, to be mounted in another server.

    folder: of the history on disk; None for a history that ends with the process. leader: page of
    other replicas, which a standby shows.
    """
    history, record = None if folder is None else History(folder, clock), runtime.decisions.record
    stream = Stream(
        lambda: scene.look(runtime, leadership(), clock.wall()),
        scene.snapshot,
        scene.stirred,
        clock,
        runtime.supervisor,
        past=await history.read() if history else (),
        keep=history.append if history else lambda *_: None,
        leader=leader,
        learn=lambda message: record.skip_numbers(list_decisions(message)),
    )
    async with asyncio.TaskGroup() as tasks:
        background = [tasks.create_task(each.run()) for each in (stream, history) if each]
        try:
            yield page_app(stream, clock, access, Questions(runtime, leadership, leader).routes())
        finally:
            for task in background:
                task.cancel()
