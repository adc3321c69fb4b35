"""Diagnostics server of the running scheduler on a loopback port: recorded decisions and
explanations.

All routes are read-only.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self, cast, get_args

import msgspec
import structlog
from aiohttp import web

from kubedsm.explain.decision_record import ENTRIES
from kubedsm.explain.explanation import Explanation
from kubedsm.explain.facts import Answering
from kubedsm.explain.subjects import Explanations, Kind, Subject, SubjectError
from kubedsm.explain.workload import qos_targets
from kubedsm.planner.requests import NoResponseError
from kubedsm.process.http_limits import DIAGNOSTICS, AddressUnavailableError, listen

log = structlog.get_logger()

LOOPBACK = "127.0.0.1"
PORT = 10270
#: decisions in a response by default
LIMIT = 50
#: grace period of unfinished requests at shutdown, in seconds
GRACE = 1.0


class Diagnostics:
    """Context manager of the diagnostics server; an unavailable port is logged as a warning.

    Port 0 takes any free port. `url` is the address, empty if nothing is served. Entering raises
    AddressUnavailableError if other routes have to be served, too.
    """

    def __init__(
        self,
        explanations: Explanations,
        port: int = PORT,
        *,
        dry_run: bool = False,
        leader: Callable[[], str | None] = lambda: None,
        mandatory: web.Application | None = None,
        add_routes: Callable[[web.Application], None] = lambda _: None,
    ) -> None:
        """Prepare the HTTP routes of the diagnostics server.

        `mandatory`: application with additional routes. `add_routes`: adds further routes.
        `leader`: returns None for a leading process, otherwise the leading host, or "" for unknown.
        """
        self._explanations = explanations
        self._decisions = explanations.decisions
        self._dry_run = dry_run
        self._leader = leader
        #: uid of the cluster's namespace kube-system, once known
        self.cluster_uid = ""
        self._port = port
        self._required = mandatory is not None
        app = mandatory if mandatory is not None else web.Application()
        app.router.add_get("/decisions", self._list_decisions)
        app.router.add_get("/decisions/explain", self._explain_subject)
        app.router.add_get("/decisions/pending", self._list_pending)
        app.router.add_get("/decisions/targets", self._qos_targets)
        app.router.add_get("/decisions/scheduler", self._describe_scheduler)
        add_routes(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=GRACE)
        self.url = ""

    async def __aenter__(self) -> Self:
        try:
            self.url = await listen(self._runner, LOOPBACK, self._port, DIAGNOSTICS)
        except AddressUnavailableError as error:
            if self._required:
                raise
            log.warning(
                "diagnostics port unavailable", address=f"{LOOPBACK}:{self._port}", error=str(error)
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _list_decisions(self, request: web.Request) -> web.Response:
        query = query_of(request, "pod", "limit")
        name, limit = query.get("pod"), _parse_limit(query.get("limit"))
        entries = self._decisions.record.newest_first()
        found = [entry for entry in entries if name is None or entry.concerns(name)]
        return _json_response({"decisions": [entry.facts() for entry in found[:limit]]})

    async def _explain_subject(self, request: web.Request) -> web.Response:
        leading = self._leader() is None
        return _json_response(
            await explain_query(
                request, self._explanations, get_args(Kind), leading=leading, only_recorded=True
            )
        )

    async def _list_pending(self, request: web.Request) -> web.Response:
        query_of(request)
        try:
            body = await self._explanations.planner.solve(self._decisions.pending())
        except NoResponseError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        return web.Response(body=body + b"\n", content_type="application/json")

    async def _qos_targets(self, request: web.Request) -> web.Response:
        query_of(request)
        snapshot, policy = self._decisions.mirror.snapshot(), self._decisions.policy
        return _json_response({"targets": await asyncio.to_thread(qos_targets, snapshot, policy)})

    async def _describe_scheduler(self, request: web.Request) -> web.Response:
        query_of(request)
        leader, slower = self._leader(), self._decisions.mirror.measured.slower
        standby = leader is not None
        return _json_response(
            Answering(slower, self._dry_run, self.cluster_uid, standby, leader or "")
        )


async def explain_query(
    request: web.Request,
    explanations: Explanations,
    kinds: Sequence[str],
    *,
    leading: bool,
    only_recorded: bool = False,
) -> Explanation[Any]:
    """Explain the subject in the query of a URL, such as `?pod=shop/cart-1`; see
    `Explanations.explain`. Raise HTTPBadRequest, or HTTPNotFound.
    """
    query = query_of(request, *kinds)
    if len(query) != 1:
        raise refuse_request(f"name one of {', '.join(kinds)}")
    [(kind, key)] = query.items()
    # A link to a migration has the kind `move`.
    subject = Subject(cast(Kind, "migration" if kind == "move" else kind), key)
    try:
        found = await explanations.explain(subject, leading=leading, only_recorded=only_recorded)
    except SubjectError as error:
        raise refuse_request(str(error)) from None
    if found is None:
        unknown = "no decision is recorded" if only_recorded else "nothing is known"
        name = " ".join(key[:80].split())
        raise web.HTTPNotFound(text=f"{unknown} about {subject.kind} {name}\n")
    return found


def query_of(request: web.Request, *known: str) -> dict[str, str]:
    for key in request.query:
        if key not in known:
            raise refuse_request(
                f"{key}: unknown, only {', '.join(known) or 'nothing'} is accepted"
            )
        if len(request.query.getall(key)) > 1:
            raise refuse_request(f"{key}: given twice")
        if not request.query[key]:
            raise refuse_request(f"{key}: empty")
    return dict(request.query)


def _parse_limit(text: str | None) -> int:
    if text is None:
        return LIMIT
    limit = int(text) if text.isascii() and text.isdecimal() and len(text) <= len("512") else 0
    if not 1 <= limit <= ENTRIES:
        raise refuse_request(f"limit: {text[:40]} is not between 1 and {ENTRIES}")
    return limit


def refuse_request(why: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text=f"{' '.join(why.split())}\n")


def _json_response(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value) + b"\n", content_type="application/json")
