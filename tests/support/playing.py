"""Player of recorded exchanges, in order, against an API server on a socket.

Controllers, kubelets and watches take time after a write. A read is therefore repeated until it
agrees or its deadline has passed, and the player waits before every write and every new watch until
the cluster is quiet, as the recorder did by hand.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
import attrs
from yarl import URL

from support.comparison import compare, differing, status_view
from support.correspondence import Correspondence, pair
from support.transcripts import Exchange, objects_of, recorded_objects
from support.watches import compare_watches

Object = dict[str, Any]

#: seconds that an effect may take to show
_DEADLINE = 5.0
_POLL = 0.02
#: seconds without a write after which controllers and kubelets count as done
_QUIET = 0.1
#: seconds that a watch which was silent in the recording is listened to
_SILENCE = 0.2


@attrs.frozen
class Write:
    """Write that is missing in the recording, though later responses show its effect."""

    method: str
    path: str
    content_type: str
    body: Any


@attrs.define
class _Stream:
    """Events of a watch received so far."""

    status: int = 0
    events: list[Object] = attrs.field(factory=list)
    closed: bool = False


@attrs.define
class Player:
    session: aiohttp.ClientSession
    #: of the server without credentials
    url: str
    #: how many writes the server has seen; it is quiet while this stands still
    revision: Callable[[], int]
    exchanges: Sequence[Exchange]
    #: exchange → what was written just before it
    unlogged: Mapping[int, Sequence[Write]]
    #: exchange → where it is sent instead, and with which headers
    elsewhere: Mapping[int, tuple[str, Mapping[str, str]]]
    #: watch → the exchange before which it was opened
    opened_before: Mapping[int, int] = attrs.field(factory=dict)
    known: Correspondence = attrs.field(factory=Correspondence)
    #: scene → how it differed from the recording
    differences: dict[str, list[str]] = attrs.field(factory=dict)
    _streams: dict[int, _Stream] = attrs.field(factory=dict)
    _recorded: list[Object] = attrs.field(init=False)
    #: whether something was written since the cluster was last seen quiet
    _stirred: bool = True

    def __attrs_post_init__(self) -> None:
        self._recorded = list(recorded_objects(list(self.exchanges)))

    async def play(self) -> dict[str, list[str]]:
        """Play all exchanges; return the differences by scene."""
        watches = {before: index for index, before in self.opened_before.items()}
        by_index = {exchange.index: exchange for exchange in self.exchanges}
        async with asyncio.TaskGroup() as group:
            readers = []
            for exchange in self.exchanges:
                found = self.differences.setdefault(exchange.scene, [])
                if exchange.index in watches:
                    readers.append(await self._open(by_index[watches[exchange.index]], group))
                for write in self.unlogged.get(exchange.index, ()):
                    await self._send_unlogged(write)
                if exchange.events is not None and exchange.index not in self._streams:
                    readers.append(await self._open(exchange, group))
                found += [f"{exchange}: {what}" for what in await self._one(exchange)]
            for reader in readers:
                reader.cancel()
        return self.differences

    async def _one(self, exchange: Exchange) -> list[str]:
        if exchange.events is not None:
            return await self._finish_watch(exchange)
        if exchange.method == "GET":
            return await self._read(exchange)
        await self.settled()
        unknown = await self._recognise(exchange)
        return unknown or await self._attempt(exchange, commit=True)

    async def _read(self, exchange: Exchange) -> list[str]:
        unknown = await self._recognise(exchange)
        if unknown:
            return unknown
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _DEADLINE
        while True:
            late = loop.time() > deadline
            differences = await self._attempt(exchange, commit=late)
            if late or not differences:
                return differences
            await asyncio.sleep(_POLL)

    async def _attempt(self, exchange: Exchange, *, commit: bool) -> list[str]:
        """Send a request once; return the differences.

        Identifiers are learnt from a response without differences, or from the last attempt
        (`commit`).
        """
        url, headers = self.elsewhere.get(exchange.index, (self.url, {}))
        status, answer = await self._send(
            exchange.method,
            self.known.path(exchange.path),
            exchange.content_type,
            self.known.translate(exchange.body),
            url=url,
            headers=self.known.translate(dict(headers)),
        )
        self._stirred |= exchange.method != "GET" and status < 300
        if status != exchange.status:
            return [f"status: recorded {exchange.status}, got {status}: {answer}"]
        known = self.known.copy()
        differences = compare(exchange.response, answer, exchange.body, known)
        if commit or not differences:
            self.known = known
        return differences

    async def _send(
        self,
        method: str,
        path: str,
        content_type: str | None,
        body: Any,
        *,
        url: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        content = {"Content-Type": content_type} if content_type else {}
        async with self.session.request(
            method,
            URL(f"{url or self.url}{path}", encoded=True),
            data=None if body is None else json.dumps(body),
            headers={**content, **(headers or {})},
        ) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json else text

    async def _send_unlogged(self, write: Write) -> None:
        path = self.known.path(write.path)
        status, answer = await self._send(write.method, path, write.content_type, write.body)
        self._stirred = True
        if status >= 300:
            raise AssertionError(f"{write.method} {path}: {status} {answer}")

    async def settled(self) -> None:
        """Wait until the cluster is quiet after a write, or until the deadline."""
        if not self._stirred:
            return
        self._stirred = False
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _DEADLINE
        seen, since = self.revision(), loop.time()
        while loop.time() < min(since + _QUIET, deadline):
            await asyncio.sleep(_POLL)
            if self.revision() != seen:
                seen, since = self.revision(), loop.time()

    # -- objects that a request mentions and no answer has shown yet

    async def _recognise(self, exchange: Exchange) -> list[str]:
        """Find the objects of this run that correspond to those in the request."""
        mentioned = f"{exchange.path} {json.dumps(exchange.body)}"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _DEADLINE
        for recorded in self._strangers(mentioned):
            while not await self._find(recorded):
                if loop.time() > deadline:
                    return [f"nothing stands for {recorded['metadata']['name']} in this run"]
                await asyncio.sleep(_POLL)
        return []

    def _strangers(self, mentioned: str) -> list[Object]:
        """Return the recorded objects that the request mentions, and that are not mapped yet."""
        strangers: dict[str, Object] = {}
        for obj in self._recorded:
            metadata = obj["metadata"]
            name = metadata["name"]
            by_name = "generateName" in metadata and re.search(rf"\b{re.escape(name)}\b", mentioned)
            if metadata["uid"] in mentioned and not self.known.knows(obj):
                strangers[name] = obj
            elif by_name and name not in self.known.words:
                # made anew under the same name later on, it is another object
                strangers.setdefault(name, obj)
        return list(strangers.values())

    async def _find(self, recorded: Object) -> bool:
        """Find the counterpart of a recorded pod; other objects have no generated names or uids."""
        namespace = recorded["metadata"]["namespace"]
        _, pods = await self._send("GET", f"/api/v1/namespaces/{namespace}/pods", None, None)
        taken = set(self.known.words.values())
        free = [pod for pod in objects_of(pods) if pod["metadata"]["uid"] not in taken]
        for obj, partner in pair([recorded], free, self.known):
            self.known.learn(obj, partner)
            return True
        return False

    # -- watches

    async def _open(self, exchange: Exchange, group: asyncio.TaskGroup) -> asyncio.Task[None]:
        """Open a watch, and read it while other exchanges are played."""
        await self.settled()
        path = self.known.path(exchange.path)
        version = re.search(r"resourceVersion=(\d+)&|resourceVersion=(\d+)$", exchange.path)
        if exchange.index in self.opened_before and version:
            number = version[1] or version[2]
            if number not in self.known.versions:
                # the list that it went on from was not logged: begin now
                path = path.replace(
                    f"resourceVersion={number}", f"resourceVersion={self.revision()}"
                )
        stream = self._streams[exchange.index] = _Stream()
        opened = asyncio.Event()
        task = group.create_task(self._follow(path, stream, opened))
        await opened.wait()
        return task

    async def _follow(self, path: str, stream: _Stream, opened: asyncio.Event) -> None:
        async with self.session.get(URL(f"{self.url}{path}", encoded=True)) as response:
            stream.status = response.status
            opened.set()
            async for line in response.content:
                stream.events.append(json.loads(line))
        stream.closed = True

    async def _finish_watch(self, exchange: Exchange) -> list[str]:
        """Read a watch until the events agree or the deadline; return the differences."""
        stream = self._streams[exchange.index]
        if stream.status != exchange.status:
            return [f"status: recorded {exchange.status}, got {stream.status}"]
        if not exchange.events:
            await asyncio.sleep(_SILENCE)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _DEADLINE
        closes = "timeoutSeconds" in exchange.path
        while self._watch_differs(exchange, stream, self.known.copy()) or (
            closes and not stream.closed
        ):
            if loop.time() > deadline:
                break
            await asyncio.sleep(_POLL)
        self._stirred = True
        await self.settled()
        differences = self._watch_differs(exchange, stream, self.known)
        if closes and not stream.closed:
            differences.append("the stream is still open after its timeoutSeconds")
        return differences

    def _watch_differs(
        self, exchange: Exchange, stream: _Stream, known: Correspondence
    ) -> list[str]:
        recorded = exchange.events or []
        if exchange.status == 200:
            return compare_watches(recorded, stream.events, known)
        if len(stream.events) != 1:
            return [f"recorded one Status, got {stream.events}"]
        return differing("Status", status_view(recorded[0]), status_view(stream.events[0]))
