"""Read-only HTTP routes of the dashboard: explanations, and effects of hypothetical changes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import attrs
import msgspec
from aiohttp import web

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.server.changes import BadRequestError, parse_what_if
from kubedsm.dashboard.server.drain_budgets import DrainBudgets
from kubedsm.dashboard.server.leader import LeaderPage
from kubedsm.dashboard.server.what_if import explain_what_if
from kubedsm.dashboard.state.status import describe_standby
from kubedsm.explain.explanation import Explanation
from kubedsm.explain.server import explain_query, refuse_request
from kubedsm.kube.calls.reads import list_budgets
from kubedsm.kube.client.port import ClusterError
from kubedsm.observability.reading import Leadership
from kubedsm.planner.hypothesis import Hypothesis
from kubedsm.planner.requests import NoResponseError
from kubedsm.rebalancing.suggester import Migrator
from kubedsm.terminal.echo import escape_strings

#: attempts to solve a what-if request that new pods interrupt, and seconds between attempts
ATTEMPTS, PAUSE = 3, 1.0
#: seconds after which a client should repeat a request that was refused because of load
RETRY_AFTER = 2
_KINDS = ("pod", "node", "workload", "move", "decision")
_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.Response]]
_encoder = msgspec.json.Encoder()


@attrs.define(eq=False)
class Questions:
    """HTTP handlers for explanations and what-if requests; the latter run one at a time."""

    _runtime: Runtime
    _leadership: Callable[[], Leadership | None]
    #: page of another leader, which answers in place of a standby
    _leader: LeaderPage | None = None
    _solving: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _latest: int = attrs.field(default=0, init=False)

    def routes(self) -> list[web.RouteDef]:
        handlers = {"why": self.why, "what-if": self.what_if}
        return [web.get(f"/page/{name}", self._by_leader(each)) for name, each in handlers.items()]

    def _by_leader(self, handle: _Handler) -> _Handler:
        """Return a handler that has the leader's answer, if another process leads and responds."""

        async def respond(request: web.Request) -> web.Response:
            answer = None if self._leader is None else await self._leader.forward(request)
            return await handle(request) if answer is None else answer

        return respond

    async def why(self, request: web.Request) -> web.Response:
        """Handle a request to explain one pod, node, workload, migration or decision."""
        leadership = self._leadership()
        leading = leadership is not None and leadership.leading
        explanations = self._runtime.explanations
        found = await explain_query(request, explanations, _KINDS, leading=leading)
        return explanation_response(msgspec.structs.replace(found, facts=None))

    async def what_if(self, request: web.Request) -> web.Response:
        """Handle a what-if request: `?drain=edge-1&qos=shop/cart:0.8`, see `parse_what_if`.

        Parameters may be repeated. A later request replaces a waiting request. While pods have to
        be placed, the request is repeated; if the scheduler stays busy, the response is 503.
        """
        snapshot, current = self._runtime.mirror.snapshot(), self._runtime.configuration.current
        try:
            hypothesis = parse_what_if(request.query.items(), snapshot, current)
        except BadRequestError as error:
            raise refuse_request(str(error)) from None
        self._latest += 1
        number = self._latest
        async with self._solving:
            for _ in range(ATTEMPTS):
                if number != self._latest:
                    raise web.HTTPConflict(text="replaced by a later request: try again\n")
                suggester = self._find_suggester()
                budgets = await _read_budgets(suggester, hypothesis)
                kept = budgets.list_kept(hypothesis, self._runtime.mirror.snapshot())
                hypothesis = attrs.evolve(hypothesis, kept=kept)
                try:
                    question = suggester.what_if(hypothesis)
                    imagined = await self._runtime.planner.solve(question, idle=True)
                except NoResponseError as error:
                    raise refuse_busy(f"{error}") from None
                if not imagined.cut_short:
                    now = self._runtime.mirror.snapshot()
                    return explanation_response(
                        explain_what_if(imagined, hypothesis, now, current, budgets)
                    )
                await suggester.clock.sleep(PAUSE)
        raise refuse_busy("busy: new pods are being placed")

    def _find_suggester(self) -> Migrator:
        """Return the suggester. Raise HTTPServiceUnavailable if this process cannot plan."""
        leadership, suggester = self._leadership(), self._runtime.migrator
        if leadership is None:
            obstacle = "no scheduler runs here: start kubedsm run --page"
        elif not leadership.leading:
            obstacle = describe_standby(leadership)
        elif not self._runtime.synced.is_set():
            obstacle = "the cluster is not known yet"
        elif suggester is None:
            obstacle = "this policy migrates nothing"
        else:
            return suggester
        raise web.HTTPServiceUnavailable(text=f"{obstacle}\n")


async def _read_budgets(suggester: Migrator, hypothesis: Hypothesis) -> DrainBudgets:
    """Read the PodDisruptionBudgets, if nodes are drained."""
    if not hypothesis.drained:
        return DrainBudgets()
    try:
        return DrainBudgets(await list_budgets(suggester.cluster))
    except ClusterError as error:
        return DrainBudgets(unread=" ".join(str(error).split()).rstrip("."))


def refuse_busy(why: str) -> web.HTTPServiceUnavailable:
    """Return the response for a request that may succeed soon; clients repeat the request."""
    return web.HTTPServiceUnavailable(
        text=f"{why}; retry in {RETRY_AFTER} s\n", headers={"Retry-After": str(RETRY_AFTER)}
    )


def explanation_response(explanation: Explanation[Any]) -> web.Response:
    return web.Response(
        body=escape_strings(_encoder.encode(explanation)),
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
