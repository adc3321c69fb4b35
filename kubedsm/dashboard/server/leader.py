"""Page of the leader, as read by a standby: the leader's messages, and its answers.

The Lease names the leader's pod, and the pod has the address; all replicas have the same port and
token. Without an answer of the leader, the standby shows what it observes by itself.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from http import HTTPStatus

import aiohttp
import attrs
import msgspec
from aiohttp import web

from kubedsm.dashboard.rows import Message, decode_message, split_messages
from kubedsm.dashboard.server.access import TokenFile
from kubedsm.kube.calls.reads import pod_address
from kubedsm.kube.client.port import Cluster, ClusterError
from kubedsm.observability.reading import Leadership

#: seconds for a request to the API server
_API_TIMEOUT = 5.0
#: seconds; a page sends a sign of life every 10
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=2.0, sock_read=25.0)
#: marks requests of a standby, which no other standby forwards
_FORWARDED = "X-KubeDSM-Forwarded"


@attrs.define(eq=False)
class LeaderPage:
    """Client of the leader's page; without a leader elsewhere, it yields and answers nothing."""

    _cluster: Cluster
    _leadership: Callable[[], Leadership | None]
    #: host name of this process
    _here: str
    _port: int
    _token: TokenFile
    #: leading pod, and its page's URL
    _found: tuple[str, str] = attrs.field(default=("", ""), init=False)

    @property
    def _leader(self) -> str:
        """Pod that leads in place of this process; empty if none is known."""
        leadership = self._leadership()
        leader = "" if leadership is None else leadership.leader
        return "" if leader == self._here else leader

    async def _find_url(self) -> str:
        """Return the URL of the leader's page; empty if it is unknown."""
        leader, leadership = self._leader, self._leadership()
        if not leader or leadership is None:
            return ""
        if self._found[0] != leader:
            try:
                address = await pod_address(
                    self._cluster, leadership.namespace, leader, timeout=_API_TIMEOUT
                )
            except ClusterError:
                return ""  # such as a leader outside of the cluster
            host = f"[{address}]" if ":" in address else address
            self._found = (leader, f"http://{host}:{self._port}") if address else ("", "")
        return self._found[1]

    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._token.read()}", _FORWARDED: "standby"}

    async def messages(self, known: Callable[[], Mapping[str, str]]) -> AsyncGenerator[Message]:
        """Yield the leader's messages that are not `known`, as a query; end if the leader changes
        or does not respond.
        """
        leader, url = self._leader, await self._find_url()
        async with aiohttp.ClientSession(timeout=_TIMEOUT, read_bufsize=2**20) as session:
            while url and leader == self._leader:
                for path in ("recording", "stream"):
                    try:
                        async with session.get(
                            f"{url}/page/{path}", params=known(), headers=self._headers()
                        ) as answer:
                            answer.raise_for_status()
                            async for line in split_messages(answer.content.iter_any()):
                                if leader != self._leader:
                                    return
                                if line:
                                    yield decode_message(line)
                    except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError):
                        # The pod of this name may have another address next time.
                        self._found = ("", "")
                        return

    async def forward(self, request: web.Request) -> web.Response | None:
        """Return the leader's answer to a request; None if this process has to answer."""
        if _FORWARDED in request.headers or not (url := await self._find_url()):
            return None
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                session.get(f"{url}{request.path_qs}", headers=self._headers()) as answer,
            ):
                kept = {"Content-Type", "Retry-After", "Cache-Control"}
                headers = {key: value for key, value in answer.headers.items() if key in kept}
                if answer.status == HTTPStatus.UNAUTHORIZED:
                    return None
                return web.Response(body=await answer.read(), status=answer.status, headers=headers)
        except (aiohttp.ClientError, TimeoutError, OSError):
            self._found = ("", "")
            return None
