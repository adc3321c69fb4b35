"""A request to a pod and its answer, over a network that is made up, and what clients see of it.

It takes the network time of its pod's tier, half of it there and half of it back, which stands in
for what `tc netem` does between machines.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry, Histogram
from yarl import URL

from kubedsm.model.model import Tier
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.processes.accounts import Accounts, Counters
from kubedsm_lab.emulator.processes.pod_processes import PodProcess
from loadgen.server import BUCKETS
from loadgen.transport import SERVED_BY

#: seconds that a pod has to answer
_PATIENCE = 60.0
#: seconds that what clients waited for a pod is told after it has ended
_KEPT = 300.0
#: of one connection, not of what is said over it (RFC 9110, section 7.6.1), or said anew
_OWN_HEADERS = frozenset(
    {
        *("connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade", "content-length"),
    }
)


class Forwarding:
    """Within its context."""

    def __init__(
        self,
        clock: Clock,
        accounts: Accounts,
        network: Mapping[Tier, float],
        tier_of: Callable[[str], Tier | None],
        registry: CollectorRegistry,
    ) -> None:
        """`network`: seconds there and back; `tier_of` a node, by name."""
        self._clock = clock
        self._accounts = accounts
        self._network = network
        self._tier_of = tier_of
        self._http: aiohttp.ClientSession | None = None
        #: by the labels of what is told: of which pod, and when it was told last
        self._told: dict[tuple[str, ...], tuple[str, float]] = {}
        self._duration = Histogram(
            "kubedsm_lab_request_duration_seconds",
            "What clients wait for an answer, network included.",
            ("namespace", "pod", "tier", "service"),
            buckets=BUCKETS,
            registry=registry,
        )

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=_PATIENCE),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def forward(
        self,
        request: web.Request,
        service: tuple[str, str],
        drawn: Callable[[], PodProcess | None],
        caller: PodProcess | None = None,
    ) -> web.Response:
        """To a pod of the Service that is drawn now, and back."""
        began = self._clock.monotonic()
        body = await request.read()
        pod = drawn()
        if pod is None:
            return refused(503, f"no Ready endpoint of Service {'/'.join(service)}")
        tier = self._tier_of(pod.node)
        half = self._network.get(tier, 0.0) / 2 if tier else 0.0
        await self._clock.sleep(half)
        answer = await self._asked(pod, request, body)
        await self._clock.sleep(half)
        namespace, name = pod.name
        labels, now = (namespace, name, tier or "", service[1]), self._clock.monotonic()
        self._duration.labels(*labels).observe(now - began)
        self._told[labels] = pod.uid, now
        asked = len(body) + _length(request.raw_headers)
        answered = answer.content_length or 0
        answered += _length((n.encode(), v.encode()) for n, v in answer.headers.items())
        self._accounts.add(pod.uid, pod.node, Counters(received=asked, sent=answered))
        if caller is not None:
            self._accounts.add(caller.uid, caller.node, Counters(received=answered, sent=asked))
        return answer

    def forget_others(self, running: Container[str]) -> None:
        """Tell no more of pods that ended a while ago: there are more and more of them."""
        over = self._clock.monotonic() - _KEPT
        for labels, (uid, at) in list(self._told.items()):
            if uid not in running and at < over:
                del self._told[labels]
                self._duration.remove(*labels)

    async def _asked(self, pod: PodProcess, request: web.Request, body: bytes) -> web.Response:
        if self._http is None or pod.process is None:
            return refused(502, f"pod {'/'.join(pod.name)} has just ended")
        url = pod.process.url + URL(request.raw_path, encoded=True).raw_path_qs
        headers = _forwarded(request.headers)
        try:
            async with self._http.request(
                request.method, URL(url, encoded=True), headers=headers, data=body or None,
                allow_redirects=False,
            ) as answer:  # fmt: skip
                content = await answer.read()
                response = web.Response(
                    status=answer.status, headers=_forwarded(answer.headers), body=content
                )
                # It has no host of its own to name itself by.
                response.headers[SERVED_BY] = pod.name[1]
                return response
        except TimeoutError:
            return refused(504, f"pod {'/'.join(pod.name)}: no answer within {_PATIENCE:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return refused(502, f"pod {'/'.join(pod.name)}: {error}")


def refused(status: int, why: str) -> web.Response:
    return web.Response(status=status, text=f"{why}\n")


def _forwarded(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    own = _OWN_HEADERS
    return [(name, value) for name, value in headers.items() if name.lower() not in own]


def _length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Bytes, with a colon, a space and the end of the line each."""
    return sum(len(name) + len(value) + 4 for name, value in headers)
