"""Client of the dashboard over HTTP: updates without lost changes, edge shares, explanations."""

from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from typing import Any, TypeAlias

import aiohttp
import attrs
import msgspec

from kubedsm.dashboard.recording import apply_changes
from kubedsm.dashboard.rows import Message, Snapshot, WorkloadRow, decode_message, split_messages
from kubedsm.explain.explanation import Explanation, Link
from kubedsm.process.clock import Clock
from kubedsm.terminal.echo import escape_strings
from kubedsm.terminal.problems import Problem

#: seconds between attempts, at first and at most
FIRST, LONGEST = 0.5, 8.0
#: seconds; a scheduler sends a sign of life every 10
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=25.0)
_PATIENCE = aiohttp.ClientTimeout(total=15.0)
#: quoted characters of a server's response
_REPEATED = 200


class NotShownError(Problem):
    """Error: the scheduler will never serve the dashboard page, hence retries are pointless."""


class NotExplainedError(Problem):
    """Error: the scheduler gives no explanation, with the reason."""


@attrs.frozen
class Away:
    """Update for `kubedsm watch`: the scheduler does not respond at the moment, with the cause."""

    why: str


@attrs.frozen
class Page:
    """Address of a scheduler's dashboard page, with the bearer token if required."""

    server: str
    token: str | None = attrs.field(default=None, repr=False)

    def open_session(self) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return aiohttp.ClientSession(timeout=_TIMEOUT, headers=headers)

    def url(self, name: str) -> str:
        return f"{self.server.rstrip('/')}/page/{name}"


#: time in seconds since the epoch; workload, edge pods and all pods of each
EdgePods: TypeAlias = tuple[float, list[tuple[str, int, int]]]


async def fetch_edge_pods(page: Page) -> list[EdgePods]:
    """Return the recorded changes of edge pods, oldest first; empty if the page has none."""
    try:
        async with page.open_session() as session, session.get(page.url("recording")) as answer:
            answer.raise_for_status()
            lines = (await answer.read()).splitlines()
        found = map(decode_message, lines)
        return [(each.at, list_edge_pods(each.rows.get("workloads", {}))) for each in found]
    except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError):
        return []


def list_edge_pods(rows: Mapping[str, WorkloadRow | None]) -> list[tuple[str, int, int]]:
    """Return name, edge pods and all pods of workloads; a deleted workload has no pods."""
    return [(name, row.edge, row.total) if row else (name, 0, 0) for name, row in rows.items()]


async def fetch_explanation(page: Page, subject: Link) -> Explanation[Any]:
    """Request an explanation of the pod, node, workload, migration or decision.

    Raise NotExplainedError.
    """
    query: dict[str, str] = {subject.kind: subject.key}
    try:
        async with (
            page.open_session() as session,
            session.get(page.url("why"), params=query, timeout=_PATIENCE) as answer,
        ):
            body = await answer.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise NotExplainedError(f"no response from {page.server}") from error
    if answer.status != HTTPStatus.OK:
        raise NotExplainedError(" ".join(body.decode(errors="replace").split())[:_REPEATED])
    try:
        return msgspec.json.decode(escape_strings(body), type=Explanation[Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotExplainedError(f"the response of {page.server} is not understood") from error


async def follow(page: Page, clock: Clock) -> AsyncGenerator[Snapshot | Away]:
    """Follow a scheduler's dashboard over HTTP: yield all rows after each change; reconnect on
    failures.

    Raise NotShownError; also if nothing responds at first.
    """
    seen: Snapshot | None = None
    server, url = page.server, page.url("stream")
    async with page.open_session() as session:
        pause = FIRST
        while True:
            known = {} if seen is None else {"after": str(seen.version), "run": seen.run}
            try:
                async with session.get(url, params=known) as answer:
                    await _check_response(answer, server, page.token)
                    if seen is not None:
                        yield seen
                    async for line in split_messages(answer.content.iter_any()):
                        if line:
                            message = decode_message(escape_strings(line))
                            pause, seen = FIRST, _apply_message(seen, message)
                            yield seen
                if seen is not None:
                    # Regularly finished streams are reopened.
                    await clock.sleep(FIRST)
                    continue
                why = f"{server} closed the connection"
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                why = f"no response from {server}"
                if seen is None:
                    raise NotShownError(
                        f"{why}: start a scheduler with `kubedsm run --page`, or name it with"
                        " --server"
                    ) from error
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise NotShownError(
                    f"the response of {server} is not understood: it may be another version"
                ) from error
            yield Away(why)
            await clock.sleep(pause)
            pause = min(LONGEST, 2 * pause)


async def _check_response(answer: aiohttp.ClientResponse, server: str, token: str | None) -> None:
    """Check the page's response. Raise NotShownError, or ClientError if a retry may succeed."""
    if answer.status == HTTPStatus.OK and answer.content_type == "text/event-stream":
        return
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        answer.raise_for_status()
    if answer.status == HTTPStatus.UNAUTHORIZED:
        why = "does not accept this token" if token else "requires a token: pass --token-file"
        raise NotShownError(f"{server} {why}")
    if answer.status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
        raise NotShownError(
            f"{server} serves no page: start the scheduler with `kubedsm run --page`"
        )
    said = " ".join((await answer.text(errors="replace"))[:_REPEATED].split())
    raise NotShownError(f"{server} responds with {answer.status}: {said}")


def _apply_message(seen: Snapshot | None, message: Message) -> Snapshot:
    if isinstance(message, Snapshot):
        return message
    if seen is None:
        raise msgspec.DecodeError("changes without what they change")
    return apply_changes(seen, [message])
