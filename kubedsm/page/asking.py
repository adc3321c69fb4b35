"""Questions asked on the page, and their answers as JSON; nothing there changes the cluster.

What is known is taken at one go on the event loop; the answer is worked out in a thread, one at a
time, and placing pods does not wait for it.
"""

import asyncio
from collections.abc import Callable

import msgspec
from aiohttp import web

from kubedsm.monitoring.reading import Leadership
from kubedsm.page.answer import Answer
from kubedsm.page.why_pod import about_pod
from kubedsm.runtime.assembly import Runtime
from kubedsm.why.server import query_of, refused

_encoder = msgspec.json.Encoder()


def questions(runtime: Runtime, leadership: Callable[[], Leadership]) -> list[web.RouteDef]:
    """The routes below `/page` that answer."""
    return [web.get("/page/why", Why(runtime, leadership).answered)]


class Why:
    """Of one thing at a time: a pod, a node, a workload, a move or a decision."""

    def __init__(self, runtime: Runtime, leadership: Callable[[], Leadership]) -> None:
        self._runtime = runtime
        self._leadership = leadership
        self._thinking = asyncio.Semaphore()
        self._kinds: dict[str, Callable[[str], Callable[[], Answer] | None]] = {
            "pod": lambda name: about_pod(runtime.decisions, name),
        }

    async def answered(self, request: web.Request) -> web.Response:
        query = query_of(request, *self._kinds)
        if len(query) != 1:
            raise refused(f"one of {', '.join(self._kinds)} has to be asked about")
        [(kind, key)] = query.items()
        async with self._thinking:
            told = self._kinds[kind](key)
            if told is None:
                raise web.HTTPNotFound(text=f"nothing is known of a {kind} {_short(key)}\n")
            return as_json(await asyncio.to_thread(told))


def as_json(answer: msgspec.Struct) -> web.Response:
    return web.Response(
        body=_encoder.encode(answer),
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def _short(key: str) -> str:
    return " ".join(key[:80].split())
