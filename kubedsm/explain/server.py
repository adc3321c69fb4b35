"""What the running scheduler tells on its loopback port: its last decisions, and why.

Nothing there changes anything, and placing pods must not wait for it. The explanation of one pod is
worked out in a thread of its own, from values; those of all that wait are the planner's.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self

import msgspec
import orjson
import structlog
from aiohttp import web

from kubedsm.explain.decision_record import ENTRIES
from kubedsm.explain.explainer import Decisions
from kubedsm.planner.requests import NoResponseError, Planner
from kubedsm.process.http_limits import DIAGNOSTICS, AddressUnavailableError, listen

log = structlog.get_logger()

LOOPBACK = "127.0.0.1"
PORT = 10270
#: entries in an answer, unless asked for more or fewer
LIMIT = 50
#: seconds that requests in progress are given when it ends
GRACE = 1.0


class Diagnostics:
    """Serves from entering until leaving its context; without the port, it says so and does not.

    Port 0 takes any free one; `url` says which, and is empty if nothing is served. Entering raises
    AddressUnavailableError if there is something beside.
    """

    def __init__(
        self,
        decisions: Decisions,
        planner: Planner,
        port: int = PORT,
        *,
        dry_run: bool = False,
        leader: Callable[[], str | None] = lambda: None,
        beside: web.Application | None = None,
    ) -> None:
        """`beside`: what is served there as well, and must be.

        `leader`: returns None if this process decides, else the host that leads, or "" for unknown.
        """
        self._decisions = decisions
        self._dry_run = dry_run
        self._leader = leader
        #: uid of the cluster's namespace kube-system, once that is read
        self.cluster_uid = ""
        self._planner = planner
        self._port = port
        #: one explanation at a time
        self._thinking = asyncio.Semaphore()
        self._required = beside is not None
        app = beside if beside is not None else web.Application()
        app.router.add_get("/decisions", self._list)
        app.router.add_get("/decisions/explain", self._explain)
        app.router.add_get("/decisions/pending", self._pending)
        app.router.add_get("/decisions/promises", self._promises)
        app.router.add_get("/decisions/scheduler", self._describe)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=GRACE)
        self.url = ""

    async def __aenter__(self) -> Self:
        try:
            self.url = await listen(self._runner, LOOPBACK, self._port, DIAGNOSTICS)
        except AddressUnavailableError as error:
            if self._required:
                raise
            log.warning("no diagnostics", address=f"{LOOPBACK}:{self._port}", error=str(error))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _list(self, request: web.Request) -> web.Response:
        query = query_of(request, "pod", "limit")
        name, limit = query.get("pod"), _limit(query.get("limit"))
        entries = self._decisions.record.newest_first()
        found = [entry for entry in entries if name is None or entry.concerns(name)]
        return _json({"decisions": [entry.as_json() for entry in found[:limit]]})

    async def _explain(self, request: web.Request) -> web.Response:
        name = query_of(request, "pod").get("pod")
        if name is None:
            raise refused("pod: missing")
        found = self._decisions.named(name)
        if len(found) > 1:
            raise refused(f"several pods are called {name}: {', '.join(found.values())}")
        left_alone = [how for how in map(self._decisions.left_alone, found) if how is not None]
        if left_alone:
            async with self._thinking:
                return _json((await asyncio.to_thread(left_alone[0])).as_json())
        recalled = [self._decisions.recall(uid, full_name) for uid, full_name in found.items()]
        if not recalled or recalled[0] is None:
            raise web.HTTPNotFound(text=f"nothing was decided about a pod {name}\n")
        async with self._thinking:
            [said] = await asyncio.to_thread(self._decisions.explain, [recalled[0]])
        return _json(said.as_json())

    async def _pending(self, request: web.Request) -> web.Response:
        query_of(request)
        try:
            said = await self._planner.solve(self._decisions.pending())
        except NoResponseError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        return web.Response(body=said + b"\n", content_type="application/json")

    async def _promises(self, request: web.Request) -> web.Response:
        query_of(request)
        async with self._thinking:
            said = await asyncio.to_thread(self._decisions.promising())
        return _json({"promises": msgspec.to_builtins(said)})

    async def _describe(self, request: web.Request) -> web.Response:
        """Describe this scheduler: its cluster, its role, and where the edge is slower.

        A workload is namespace, kind and name. A dry run takes no requests to migrate.
        """
        query_of(request)
        leader = self._leader()
        slower = [list(w) for w in sorted(self._decisions.mirror.measured.slower)]
        return _json(
            {
                "cluster": self.cluster_uid,
                "standby": leader is not None,
                "leader": leader or "",
                "dryRun": self._dry_run,
                "slower": slower,
            }
        )


def query_of(request: web.Request, *known: str) -> dict[str, str]:
    for key in request.query:
        if key not in known:
            raise refused(f"{key}: unknown, only {', '.join(known) or 'nothing'} can be asked for")
        if len(request.query.getall(key)) > 1:
            raise refused(f"{key}: given twice")
        if not request.query[key]:
            raise refused(f"{key}: empty")
    return dict(request.query)


def _limit(text: str | None) -> int:
    if text is None:
        return LIMIT
    limit = int(text) if text.isascii() and text.isdecimal() and len(text) <= len("512") else 0
    if not 1 <= limit <= ENTRIES:
        raise refused(f"limit: {text[:40]} is not between 1 and {ENTRIES}")
    return limit


def refused(why: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text=f"{' '.join(why.split())}\n")


def _json(value: dict[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(value) + b"\n", content_type="application/json")
