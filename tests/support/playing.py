"""Player of recorded exchanges, in order, against an API server on a socket.

Controllers, kubelets and watches take time after a write. A read is therefore repeated until it
agrees or its deadline has passed, and the player waits before every write and every new watch until
the cluster is quiet, as the recorder did by hand.
"""

import asyncio
import json
import re

import attrs
from yarl import URL

from support.comparison import compare, compare_watches, differing, status_view
from support.transcripts import Correspondence, objects_of, pair

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
    body: object


@attrs.define
class _Stream:
    """Events of a watch received so far."""

    status: int = 0
    events: list = attrs.field(factory=list)
    closed: bool = False


@attrs.define
class Player:
    session: object
    #: of the server without credentials
    url: str
    #: how many writes the server has seen; it is quiet while this stands still
    revision: object
    exchanges: list
    #: exchange → what was written just before it
    unlogged: dict
    #: exchange → where it is sent instead, and with which headers
    elsewhere: dict
    #: watch → the exchange before which it was opened
    opened_before: dict = attrs.field(factory=dict)
    known: Correspondence = attrs.field(factory=Correspondence)
    _streams: dict = attrs.field(factory=dict)
    #: whether something was written since the cluster was last seen quiet
    _stirred: bool = True

    async def play(self):
        """Play all exchanges; return the differences by scene."""
        watches = {before: index for index, before in self.opened_before.items()}
        by_index = {exchange.index: exchange for exchange in self.exchanges}
        differences, readers = {}, []
        async with asyncio.TaskGroup() as group:
            for exchange in self.exchanges:
                found = differences.setdefault(exchange.scene, [])
                if exchange.index in watches:
                    readers.append(await self._open(by_index[watches[exchange.index]], group))
                for write in self.unlogged.get(exchange.index, ()):
                    await self._send_unlogged(write)
                if exchange.events is not None and exchange.index not in self._streams:
                    readers.append(await self._open(exchange, group))
                found += [f"{exchange}: {what}" for what in await self._one(exchange)]
            for reader in readers:
                reader.cancel()
        return differences

    async def _one(self, exchange):
        if exchange.events is not None:
            return await self._finish_watch(exchange)
        if exchange.method != "GET":
            await self.settled()
        if unknown := await self._recognise(exchange):
            return unknown

        async def agrees():
            return not await self._attempt(exchange)

        if exchange.method == "GET" and await _until(agrees):
            return []
        return await self._attempt(exchange, commit=True)

    async def _attempt(self, exchange, *, commit=False):
        """Send a request once; return the differences.

        Identifiers are learnt from a response without differences, or from the last attempt
        (`commit`).
        """
        url, headers = self.elsewhere.get(exchange.index, (self.url, {}))
        headers = self.known.translate(dict(headers))
        status, answer = await self._send(exchange, url, headers)
        self._stirred |= exchange.method != "GET" and status < 300
        if status != exchange.status:
            return [f"status: recorded {exchange.status}, got {status}: {answer}"]
        known = self.known.copy()
        differences = compare(exchange.response, answer, exchange.body, known)
        if commit or not differences:
            self.known = known
        return differences

    async def _send(self, asked, url, headers):
        content = {"Content-Type": asked.content_type} if asked.content_type else {}
        body = self.known.translate(asked.body)
        async with self.session.request(
            asked.method,
            URL(f"{url}{self.known.path(asked.path)}", encoded=True),
            data=None if body is None else json.dumps(body),
            headers=content | headers,
        ) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json else text

    async def _send_unlogged(self, write):
        status, answer = await self._send(write, self.url, {})
        self._stirred = True
        assert status < 300, f"{write.method} {write.path}: {status} {answer}"

    async def settled(self):
        """Wait until the cluster is quiet after a write, or until the deadline."""
        if not self._stirred:
            return
        self._stirred = False
        loop = asyncio.get_running_loop()
        seen, since = self.revision(), loop.time()

        async def quiet():
            nonlocal seen, since
            if self.revision() != seen:
                seen, since = self.revision(), loop.time()
            return loop.time() >= since + _QUIET

        await _until(quiet)

    # -- objects that a request mentions and no answer has shown yet

    async def _recognise(self, exchange):
        """Find the objects of this run that correspond to those in the request."""
        mentioned = f"{exchange.path} {json.dumps(exchange.body)}"
        for recorded in self._strangers(mentioned):
            if not await _until(lambda stranger=recorded: self._find(stranger)):
                return [f"nothing stands for {recorded['metadata']['name']} in this run"]
        return []

    def _strangers(self, mentioned):
        """Return the recorded objects that the request mentions, and that are not mapped yet."""
        strangers = {}
        for exchange in self.exchanges:
            events = (objects_of(event.get("object")) for event in exchange.events or ())
            for obj in (*objects_of(exchange.response), *(obj for of in events for obj in of)):
                name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
                named = "generateName" in obj["metadata"] and re.search(
                    rf"\b{re.escape(name)}\b", mentioned
                )
                if uid in mentioned and uid not in self.known.words:
                    strangers[name] = obj
                elif named and name not in self.known.words:
                    # made anew under the same name later on, it is another object
                    strangers.setdefault(name, obj)
        return strangers.values()

    async def _find(self, recorded):
        """Find the counterpart of a recorded pod; other objects have no generated names or uids."""
        path = f"/api/v1/namespaces/{recorded['metadata']['namespace']}/pods"
        _, pods = await self._send(Write("GET", path, "", None), self.url, {})
        taken = set(self.known.words.values())
        free = [pod for pod in objects_of(pods) if pod["metadata"]["uid"] not in taken]
        for obj, partner in pair([recorded], free, self.known):
            self.known.learn(obj, partner)
            return True
        return False

    # -- watches

    async def _open(self, exchange, group):
        """Open a watch, and read it while other exchanges are played."""
        await self.settled()
        path = self.known.path(exchange.path)
        version = re.search(r"resourceVersion=(\d+)(?:&|$)", exchange.path)
        unknown = version and version[1] not in self.known.versions
        if exchange.index in self.opened_before and unknown:
            # the list that it went on from was not logged: begin now
            path = path.replace(version[0].rstrip("&"), f"resourceVersion={self.revision()}")
        stream = self._streams[exchange.index] = _Stream()
        opened = asyncio.Event()
        task = group.create_task(self._follow(path, stream, opened))
        await opened.wait()
        return task

    async def _follow(self, path, stream, opened):
        async with self.session.get(URL(f"{self.url}{path}", encoded=True)) as response:
            stream.status = response.status
            opened.set()
            async for line in response.content:
                stream.events.append(json.loads(line))
        stream.closed = True

    async def _finish_watch(self, exchange):
        """Read a watch until the events agree or the deadline; return the differences."""
        stream = self._streams[exchange.index]
        if stream.status != exchange.status:
            return [f"status: recorded {exchange.status}, got {stream.status}"]
        if not exchange.events:
            await asyncio.sleep(_SILENCE)

        async def agrees():
            return not self._watch_differs(exchange, stream, self.known.copy())

        await _until(agrees)
        self._stirred = True
        await self.settled()
        return self._watch_differs(exchange, stream, self.known)

    def _watch_differs(self, exchange, stream, known):
        if "timeoutSeconds" in exchange.path and not stream.closed:
            return ["the stream is still open after its timeoutSeconds"]
        if exchange.status == 200:
            return compare_watches(exchange.events or [], stream.events, known)
        if len(stream.events) != 1:
            return [f"recorded one Status, got {stream.events}"]
        return differing("Status", *map(status_view, (exchange.events[0], stream.events[0])))


async def _until(condition):
    """Return whether the condition holds before the deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _DEADLINE
    while not await condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(_POLL)
    return True
