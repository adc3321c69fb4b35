"""The page, over HTTP: its files, the stream of what is seen, and answers to questions.

Nothing there changes anything. Who may ask, and in what a browser may be led to believe, is in
`access`.
"""

from importlib.resources import files
from mimetypes import guess_type

from aiohttp import web

from kubedsm.page.stream import Stream

#: what of the page's folder is served, each under its own name
_STATIC = files("kubedsm.page") / "static"
#: seconds in which a viewer that reads nothing is given up
STALLED = 30.0


def served_files() -> dict[str, bytes]:
    """The page's files by their paths below /page/."""
    found = {}
    for entry in _STATIC.iterdir():
        for file in entry.iterdir() if entry.is_dir() else (entry,):
            name = file.name if file is entry else f"{entry.name}/{file.name}"
            found[name] = file.read_bytes()
    return found


def routes(stream: Stream) -> list[web.RouteDef]:
    contents = served_files()

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=contents["index.html"], content_type="text/html", charset="utf-8")

    async def file(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in contents:
            raise web.HTTPNotFound(text=f"no file {name}\n")
        kind = guess_type(name)[0] or "application/octet-stream"
        return web.Response(body=contents[name], content_type=kind, charset="utf-8")

    async def told(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Cache-Control": "no-store"})
        answer.content_type = "text/event-stream"
        await answer.prepare(request)
        async for line in stream.messages(None):
            await answer.write(b"data: " + line + b"\n\n" if line else b":\n\n")
        return answer

    async def film(_: web.Request) -> web.Response:
        lines = b"\n".join(stream.film.lines())
        answer = web.Response(body=lines, content_type="application/x-ndjson")
        answer.enable_compression()
        return answer

    return [
        web.get("/", page),
        web.get("/page/stream", told),
        web.get("/page/film", film),
        web.get("/page/{name:[a-z_./-]+}", file),
    ]
