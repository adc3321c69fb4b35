"""Client of the dashboard's update stream over HTTP, which reconnects without losing changes."""

from collections.abc import AsyncGenerator, AsyncIterator
from http import HTTPStatus

import aiohttp
import attrs
import msgspec

from kubedsm.dashboard.recording import apply_changes
from kubedsm.dashboard.rows import Message, Snapshot, decode_message
from kubedsm.process.clock import Clock
from kubedsm.terminal.problems import Problem

#: seconds between attempts, at first and at most
FIRST, LONGEST = 0.5, 8.0
#: seconds; a scheduler sends a sign of life every 10
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=25.0)
_SAID = b"data: "
#: quoted characters of a server's response
_REPEATED = 200


class NotShownError(Problem):
    """Error: the scheduler will never serve the dashboard page, hence retries are pointless."""


@attrs.frozen
class Away:
    """Update for `kubedsm watch`: the scheduler does not respond at the moment, with the cause."""

    why: str


async def follow(server: str, token: str | None, clock: Clock) -> AsyncGenerator[Snapshot | Away]:
    """Follow a scheduler's dashboard over HTTP: yield all rows after each change; reconnect on
    failures.

    Raise NotShownError; also if nothing responds at first.
    """
    seen: Snapshot | None = None
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{server.rstrip('/')}/page/stream"
    async with aiohttp.ClientSession(timeout=_TIMEOUT, headers=headers) as session:
        pause = FIRST
        while True:
            known = {} if seen is None else {"after": str(seen.version), "run": seen.run}
            try:
                async with session.get(url, params=known) as answer:
                    await _check_response(answer, server, token)
                    if seen is not None:
                        yield seen
                    async for message in _read_messages(answer):
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


async def _read_messages(answer: aiohttp.ClientResponse) -> AsyncIterator[Message]:
    text = b""
    async for piece in answer.content.iter_any():
        *parts, text = (text + piece).split(b"\n\n")
        for part in parts:
            if part.startswith(_SAID):
                yield decode_message(part.removeprefix(_SAID))


def _apply_message(seen: Snapshot | None, message: Message) -> Snapshot:
    if isinstance(message, Snapshot):
        return message
    if seen is None:
        raise msgspec.DecodeError("changes without what they change")
    return apply_changes(seen, [message])
