"""The page, over HTTP: its files, the stream of what is seen, and answers to questions.

Nothing there changes anything. Who may ask, and in what a browser may be led to believe, is in
`access`.
"""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from aiohttp import web

from kubedsm.page.access import Access
from kubedsm.page.stream import Stream

#: what of the page's folder is served, each under its own name
_STATIC = files("kubedsm.page") / "static"
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
#: seconds in which a viewer that reads nothing is given up
STALLED = 30.0
#: bytes that are handed over for a viewer at once: so much is kept for one that does not read
PIECE = 65_536


def served_files() -> dict[str, bytes]:
    """The page's files by their paths below /page/."""
    found = {}
    for entry in _STATIC.iterdir():
        for file in entry.iterdir() if entry.is_dir() else (entry,):
            name = file.name if file is entry else f"{entry.name}/{file.name}"
            found[name] = file.read_bytes()
    return found


def page_app(
    stream: Stream, access: Access, questions: Iterable[web.RouteDef] = ()
) -> web.Application:
    """What serves the page; routes that are added to it are guarded in the same way."""
    contents = served_files()
    #: what tells viewers; None: not within a task
    telling = set[asyncio.Task[Any] | None]()

    def is_public(request: web.Request) -> bool:
        return request.path == "/" or request.path.removeprefix("/page/") in contents

    async def file(request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        if name not in contents:
            raise web.HTTPNotFound(text=f"no file {name}\n")
        answer = web.Response(body=contents[name], headers={"Cache-Control": "no-cache"})
        answer.content_type = _KINDS.get(PurePath(name).suffix, "text/plain")
        answer.charset = "utf-8"
        return answer

    async def told(request: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        telling.add(task)
        try:
            return await _told(request, stream, access)
        finally:
            telling.discard(task)

    async def film(_: web.Request) -> web.Response:
        lines = b"\n".join(stream.film.lines())
        answer = web.Response(body=lines, headers={"Cache-Control": "no-store"})
        answer.content_type = "application/x-ndjson"
        answer.enable_compression()
        return answer

    async def end(_: web.Application) -> None:
        # They would go on, and the end would wait for them.
        for task in telling:
            if task is not None:
                task.cancel()

    app = web.Application()
    access.guard(app, is_public)
    app.on_shutdown.append(end)
    app.add_routes(
        [
            web.get("/", file),
            web.get("/page/stream", told),
            web.get("/page/film", film),
            *questions,
            web.get("/page/{name:[a-z_./-]+}", file),
        ]
    )
    return app


async def _told(request: web.Request, stream: Stream, access: Access) -> web.StreamResponse:
    after, run = request.query.get("after", ""), request.query.get("run", "")
    known = run == stream.run_id and after.isascii() and after.isdecimal()
    answer = web.StreamResponse(headers={"Cache-Control": "no-store"})
    answer.content_type = "text/event-stream"
    await answer.prepare(request)
    try:
        async with aclosing(stream.messages(int(after) if known else None)) as messages:
            async for line in messages:
                # The token may be another one by now.
                if not access.admits(request):
                    break
                await _write(answer, line)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        # It has gone, as viewers do.
        pass
    return answer


async def _write(answer: web.StreamResponse, line: bytes) -> None:
    """Raises TimeoutError if the viewer takes nothing for so long."""
    event = memoryview(b"data: " + line + b"\n\n" if line else b":\n\n")
    for begin in range(0, len(event), PIECE):
        async with asyncio.timeout(STALLED):
            await answer.write(event[begin : begin + PIECE])
