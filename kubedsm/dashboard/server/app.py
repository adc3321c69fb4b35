"""The page, over HTTP: its files, the stream of what is seen, and answers to questions.

Nothing there changes anything. Who may ask, and in what a browser may be led to believe, is in
`access`.
"""

import gzip
from collections.abc import Iterable
from importlib.resources import files
from pathlib import PurePath

from aiohttp import web

from kubedsm.dashboard.server.access import Access
from kubedsm.dashboard.server.film_file import FilmFile
from kubedsm.dashboard.server.stream import Stream
from kubedsm.dashboard.server.viewers import Viewers

#: what of the page's folder is served, each under its own name
_STATIC = files("kubedsm.dashboard") / "static"
_KINDS = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml",
}  # fmt: skip


def served_files() -> dict[str, bytes]:
    """The page's files by their paths below /page/."""
    found = {}
    for entry in _STATIC.iterdir():
        for file in entry.iterdir() if entry.is_dir() else (entry,):
            name = file.name if file is entry else f"{entry.name}/{file.name}"
            found[name] = file.read_bytes()
    return found


def page_app(
    stream: Stream, film: FilmFile, access: Access, questions: Iterable[web.RouteDef] = ()
) -> web.Application:
    """What serves the page; routes that are added to it are guarded in the same way."""
    contents = served_files()
    packed = {name: gzip.compress(content, mtime=0) for name, content in contents.items()}

    def is_public(request: web.Request) -> bool:
        return request.path == "/" or request.path.removeprefix("/page/") in contents

    async def file(request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        if name not in contents:
            raise web.HTTPNotFound(text=f"no file {name}\n")
        answer = web.Response(headers={"Cache-Control": "no-cache", "Vary": "Accept-Encoding"})
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            answer.headers["Content-Encoding"] = "gzip"
            answer.body = packed[name]
        else:
            answer.body = contents[name]
        answer.content_type = _KINDS.get(PurePath(name).suffix, "text/plain")
        answer.charset = "utf-8"
        return answer

    viewers = Viewers(stream, access)
    app = web.Application()
    access.guard(app, is_public)
    app.on_shutdown.append(viewers.end)
    app.add_routes(
        [
            web.get("/", file),
            web.get("/page/stream", viewers.told, allow_head=False),
            web.get("/page/film", film.answered),
            *questions,
            web.get("/page/{name:[a-z_./-]+}", file),
        ]
    )
    return app
