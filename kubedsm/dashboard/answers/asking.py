"""Questions asked on the page, and their answers as JSON; nothing there changes the cluster.

What is known is taken at one go on the event loop; the answer is worked out in a thread, one at a
time, and placing pods does not wait for it. What takes long is the planner's.
"""

import asyncio
from collections.abc import Callable

import attrs
import msgspec
from aiohttp import web

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.answers.answer import Answer
from kubedsm.dashboard.answers.what_if import BadQuestionError, changed, told
from kubedsm.dashboard.answers.why_decision import about_decision
from kubedsm.dashboard.answers.why_move import about_move
from kubedsm.dashboard.answers.why_node import about_node
from kubedsm.dashboard.answers.why_pod import about_pod
from kubedsm.dashboard.answers.why_workload import about_workload, workload_named
from kubedsm.dashboard.state.scene import Scene
from kubedsm.explain.server import query_of, refused
from kubedsm.observability.reading import Leadership
from kubedsm.planner.requests import NoResponseError
from kubedsm.planner.what_if import WhatIfRequest, WhatIfResponse
from kubedsm.rebalancing.suggester import Migrator
from kubedsm.terminal.echo import escape_strings

#: in a thread, how to tell; None: nothing is known of it
Telling = Callable[[], Answer] | None

_encoder = msgspec.json.Encoder()


def questions(
    runtime: Runtime, scene: Scene, leadership: Callable[[], Leadership | None]
) -> list[web.RouteDef]:
    """The routes below `/page` that answer."""
    asking = Asking(runtime, scene, leadership)
    return [web.get("/page/why", asking.why), web.get("/page/what-if", asking.what_if)]


@attrs.define(eq=False)
class Asking:
    """One answer at a time of each kind; of those that ask what if, the latest goes next."""

    _runtime: Runtime
    _scene: Scene
    _leadership: Callable[[], Leadership | None]
    _telling: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _imagining: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _latest: int = attrs.field(default=0, init=False)

    async def why(self, request: web.Request) -> web.Response:
        """Of one pod, node, workload, move or decision."""
        query = query_of(request, "pod", "node", "workload", "move", "decision")
        if len(query) != 1:
            raise refused(
                "a pod, a node, a workload, a move or a decision: one has to be asked for"
            )
        [(kind, key)] = query.items()
        # What it takes long to find out comes first: all that is known then is of one moment.
        found = await self._moves_now() if kind == "workload" else None
        async with self._telling:
            tell = self._about(kind, key, found)
            if tell is None:
                shown = " ".join(key[:80].split())
                raise web.HTTPNotFound(text=f"nothing is known of a {kind} {shown}\n")
            return as_json(await asyncio.to_thread(tell))

    def _about(self, kind: str, key: str, found: WhatIfResponse | None) -> Telling:
        runtime = self._runtime
        decisions, configuration = runtime.decisions, runtime.configuration.current
        snapshot, moves = runtime.mirror.snapshot(), self._scene.snapshot().rows["moves"]
        match kind:
            case "pod":
                return about_pod(decisions, key)
            case "node":
                away = runtime.sites.away()
                return about_node(decisions, key, away, configuration.site.label, moves)
            case "workload":
                workload = workload_named(snapshot, key)
                if workload is None:
                    return None
                return about_workload(snapshot, configuration, workload, found)
            case "move":
                row = moves.get(key)
                return about_move(decisions.record, key, row, snapshot, configuration)
        return about_decision(decisions.record, key, moves)

    async def _moves_now(self) -> WhatIfResponse | None:
        """What would be moved as things are, if that can be asked."""
        try:
            migrator = self._migrator()
            async with self._imagining:
                return await self._answered(migrator.what_if((), ()))
        except web.HTTPServiceUnavailable:
            return None

    async def what_if(self, request: web.Request) -> web.Response:
        """`?qos=shop/cart:0.8&replicas=shop/cart:+2`, both as often as wanted."""
        for key in request.query:
            if key not in ("qos", "replicas"):
                raise refused(f"{key[:40]}: unknown, only qos and replicas can be changed")
        workloads = {str(each): each for each in self._runtime.mirror.snapshot().shares()}
        try:
            asked = changed(
                request.query.getall("qos", []), request.query.getall("replicas", []), workloads
            )
        except BadQuestionError as error:
            raise refused(str(error)) from None
        self._latest += 1
        number = self._latest
        async with self._imagining:
            if number != self._latest:
                raise web.HTTPConflict(text="somebody asked something else since: ask again\n")
            question = self._migrator().what_if(*asked)
            imagined = await self._answered(question)
        return as_json(told(imagined, asked, self._runtime.configuration.current))

    async def _answered(self, question: WhatIfRequest) -> WhatIfResponse:
        try:
            return await self._runtime.planner.solve(question, idle=True)
        except NoResponseError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None

    def _migrator(self) -> Migrator:
        if hindrance := self._hindrance():
            raise web.HTTPServiceUnavailable(text=f"{hindrance}\n")
        migrator = self._runtime.migrator
        if migrator is None:
            raise web.HTTPServiceUnavailable(text="this policy moves nothing\n")
        return migrator

    def _hindrance(self) -> str:
        """Why nothing can be thought about here; empty if it can."""
        leadership = self._leadership()
        if leadership is None:
            return "no scheduler is at work here: start kubedsm run --page"
        if not leadership.leading:
            return standby_words(leadership)
        return "" if self._runtime.synced.is_set() else "the cluster is not known yet"


def standby_words(leadership: Leadership) -> str:
    """Say that a standby plans nothing, and where to ask."""
    if not leadership.leader:
        return "this scheduler is a standby and plans nothing; the leader is not known"
    where = f"kubectl -n {leadership.namespace} port-forward pod/{leadership.leader} 10270"
    return (
        f"this scheduler is a standby and plans nothing; {leadership.leader} leads: ask there"
        f" (if that is a pod: {where})"
    )


def as_json(answer: Answer) -> web.Response:
    return web.Response(
        body=escape_strings(_encoder.encode(answer)),
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
