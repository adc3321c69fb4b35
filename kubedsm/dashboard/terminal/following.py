"""What a scheduler shows, followed over HTTP: asked for again, where it ended, when it ends."""

from collections.abc import AsyncGenerator, AsyncIterator
from http import HTTPStatus

import aiohttp
import attrs
import msgspec

from kubedsm.dashboard.messages import Message, Snapshot, decoded
from kubedsm.dashboard.recording import after
from kubedsm.process.clock import Clock
from kubedsm.terminal.problems import Problem

#: seconds from one attempt to the next, at first and at most
FIRST, LONGEST = 0.5, 8.0
#: seconds: a scheduler says a word in 10
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=25.0)
_SAID = b"data: "
#: characters of what a server says, that are repeated
_REPEATED = 200


class NotShownError(Problem):
    """There is nothing to follow, and asking again would not change that."""


@attrs.frozen
class Away:
    """It does not answer, for now."""

    why: str


async def follow(server: str, token: str | None, clock: Clock) -> AsyncGenerator[Snapshot | Away]:
    """All there is to be seen, whenever something is different; for ever.

    Raises NotShownError; also if nobody answers at first.
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
                    await _check(answer, server, token)
                    if seen is not None:
                        yield seen
                    async for message in _messages(answer):
                        pause, seen = FIRST, _after(seen, message)
                        yield seen
                if seen is not None:
                    # A stream that ends in good order is to be asked for again.
                    await clock.sleep(FIRST)
                    continue
                why = f"{server} has ended the connection"
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                why = f"nothing answers at {server}"
                if seen is None:
                    raise NotShownError(
                        f"{why}: start a scheduler with `kubedsm run --page`, say where it is with"
                        " --server, or have the cluster itself followed with --kubeconfig"
                    ) from error
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise NotShownError(
                    f"what answers at {server} is not understood: it may be of another version"
                ) from error
            yield Away(why)
            await clock.sleep(pause)
            pause = min(LONGEST, 2 * pause)


async def _check(answer: aiohttp.ClientResponse, server: str, token: str | None) -> None:
    """Raises NotShownError, or ClientError if it may be another answer later."""
    if answer.status == HTTPStatus.OK and answer.content_type == "text/event-stream":
        return
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        answer.raise_for_status()
    if answer.status == HTTPStatus.UNAUTHORIZED:
        why = "takes another token" if token else "asks for a token: give it with --token-file"
        raise NotShownError(f"{server} {why}")
    if answer.status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
        raise NotShownError(
            f"what answers at {server} shows no page: a scheduler does with `kubedsm run --page`"
        )
    said = " ".join((await answer.text(errors="replace"))[:_REPEATED].split())
    raise NotShownError(f"{server} answers {answer.status}: {said}")


async def _messages(answer: aiohttp.ClientResponse) -> AsyncIterator[Message]:
    text = b""
    async for piece in answer.content.iter_any():
        *parts, text = (text + piece).split(b"\n\n")
        for part in parts:
            if part.startswith(_SAID):
                yield decoded(part.removeprefix(_SAID))


def _after(seen: Snapshot | None, message: Message) -> Snapshot:
    if isinstance(message, Snapshot):
        return message
    if seen is None:
        raise msgspec.DecodeError("changes without what they change")
    return after(seen, [message])
