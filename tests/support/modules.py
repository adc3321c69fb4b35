"""JavaScript modules of the page, served to a browser without a scheduler."""

from contextlib import asynccontextmanager

from aiohttp import web

from kubedsm.dashboard.server.access import HEADERS
from kubedsm.dashboard.server.app import read_static_files
from support.serving_pages import served

_KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_PAGE = """<!doctype html><html lang="en"><title>Modules</title>
<link rel="icon" href="page/icon.svg">
<link rel="stylesheet" href="page/page.css"><link rel="stylesheet" href="page/timeline.css">"""


@asynccontextmanager
async def modules_served():
    """Serve an empty page that can import all modules from /page/; yield the URL."""
    contents = read_static_files()

    async def page(_):
        return web.Response(text=_PAGE, content_type="text/html", headers=HEADERS)

    async def file(request):
        name = request.match_info["name"]
        kind = _KINDS[name.rpartition(".")[2]]
        return web.Response(body=contents[name], content_type=kind, charset="utf-8")

    app = web.Application()
    app.add_routes([web.get("/", page), web.get("/page/{name:.+}", file)])
    async with served(app) as url:
        yield url
