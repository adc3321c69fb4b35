"""The modules of the page in a browser, without a scheduler: tests say what films there are."""

from contextlib import asynccontextmanager

from aiohttp import web

from kubedsm.listening import listen
from kubedsm.page.served.access import HEADERS
from kubedsm.page.served.app import served_files

_KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_PAGE = """<!doctype html><html lang="en"><title>Modules</title>
<link rel="icon" href="page/icon.svg">
<link rel="stylesheet" href="page/page.css"><link rel="stylesheet" href="page/timeline.css">"""


@asynccontextmanager
async def modules_served():
    """Enter a URL, whose page is empty and may import all modules from /page/."""
    contents = served_files()

    async def page(_):
        return web.Response(text=_PAGE, content_type="text/html", headers=HEADERS)

    async def file(request):
        name = request.match_info["name"]
        kind = _KINDS[name.rpartition(".")[2]]
        return web.Response(body=contents[name], content_type=kind, charset="utf-8")

    app = web.Application()
    app.add_routes([web.get("/", page), web.get("/page/{name:.+}", file)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    try:
        yield await listen(runner, "127.0.0.1", 0)
    finally:
        await runner.cleanup()
