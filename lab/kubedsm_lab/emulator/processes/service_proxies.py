"""HTTP proxies of Services on the loopback interface: a port per Service for clients, and a proxy
for requests from pods.

The pods' http_proxy names the latter: it resolves Services by their DNS names in the cluster, and
identifies the calling pod by the user in the proxy's URL. A request takes the network time of its
pod's tier, half of it in each direction, in place of `tc netem` between machines.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from typing import Self

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry, Histogram
from yarl import URL

from kubedsm.model.model import Tier
from kubedsm.process.clock import Clock
from kubedsm.process.http_limits import EMULATED, listen
from kubedsm_lab.emulator.api.object_state import key_of
from kubedsm_lab.emulator.api.resources import ENDPOINTS, SERVICES
from kubedsm_lab.emulator.api.store import ObjectChange, Store
from kubedsm_lab.emulator.processes.pod_processes import PodProcess, PodProcesses
from kubedsm_lab.emulator.processes.usage import Accounts, Counters
from loadgen.server import BUCKETS
from loadgen.transport import SERVED_BY

#: deadline of a pod's response in seconds
_PATIENCE = 60.0
#: seconds during which durations of a terminated pod are exported
_KEPT = 300.0
#: connection headers (RFC 9110, section 7.6.1), and regenerated headers
_OWN_HEADERS = frozenset(
    {
        *("connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade", "content-length"),
    }
)


class Forwarding:
    """Forwarder of HTTP requests to pods, over a simulated network between tiers."""

    def __init__(
        self,
        clock: Clock,
        accounts: Accounts,
        network: Mapping[Tier, float],
        tier_of: Callable[[str], Tier | None],
        registry: CollectorRegistry,
    ) -> None:
        """Create a forwarder of Service requests, with metrics and simulated network latencies.

        `network` has round-trip latencies by tier in seconds; `tier_of` returns the tier of a node
        by name.
        """
        self._clock = clock
        self._accounts = accounts
        self._network = network
        self._tier_of = tier_of
        self._http: aiohttp.ClientSession | None = None
        #: by labels of the metric: uid of the pod, and time of the last observation
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

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.close()

    async def forward(
        self,
        request: web.Request,
        service: tuple[str, str],
        drawn: Callable[[], PodProcess | None],
        caller: PodProcess | None = None,
    ) -> web.Response:
        """Forward the request to a randomly selected pod of the Service."""
        began = self._clock.monotonic()
        body = await request.read()
        pod = drawn()
        if pod is None:
            return refused(503, f"no Ready endpoint of Service {'/'.join(service)}")
        tier = self._tier_of(pod.node)
        half = self._network.get(tier, 0.0) / 2 if tier else 0.0
        await self._clock.sleep(half)
        answer = await self._relay_request(pod, request, body)
        await self._clock.sleep(half)
        namespace, name = pod.name
        labels, now = (namespace, name, tier or "", service[1]), self._clock.monotonic()
        self._duration.labels(*labels).observe(now - began)
        self._told[labels] = pod.uid, now
        asked = len(body) + _header_bytes(request.raw_headers)
        answered = answer.content_length or 0
        answered += _header_bytes((n.encode(), v.encode()) for n, v in answer.headers.items())
        self._accounts.add(pod.uid, pod.node, Counters(received=asked, sent=answered))
        if caller is not None:
            self._accounts.add(caller.uid, caller.node, Counters(received=answered, sent=asked))
        return answer

    def forget_others(self, running: Container[str]) -> None:
        """Remove the metrics of pods that are not running, which limits the number of
        label sets.
        """
        over = self._clock.monotonic() - _KEPT
        for labels, (uid, at) in list(self._told.items()):
            if uid not in running and at < over:
                del self._told[labels]
                self._duration.remove(*labels)

    async def _relay_request(
        self, pod: PodProcess, request: web.Request, body: bytes
    ) -> web.Response:
        if self._http is None or pod.process is None:
            return refused(502, f"pod {'/'.join(pod.name)} has just ended")
        url = pod.process.url + URL(request.raw_path, encoded=True).raw_path_qs
        headers = _select_headers(request.headers)
        try:
            async with self._http.request(
                request.method, URL(url, encoded=True), headers=headers, data=body or None,
                allow_redirects=False,
            ) as answer:  # fmt: skip
                content = await answer.read()
                response = web.Response(
                    status=answer.status, headers=_select_headers(answer.headers), body=content
                )
                # A process has no hostname of its own.
                response.headers[SERVED_BY] = pod.name[1]
                return response
        except TimeoutError:
            return refused(504, f"pod {'/'.join(pod.name)}: no answer within {_PATIENCE:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return refused(502, f"pod {'/'.join(pod.name)}: {error}")


def refused(status: int, why: str) -> web.Response:
    return web.Response(status=status, text=f"{why}\n")


def _select_headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    own = _OWN_HEADERS
    return [(name, value) for name, value in headers.items() if name.lower() not in own]


def _header_bytes(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the size of HTTP headers in bytes, with separators and line ends."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


#: size limit of a request body
_BODY_LIMIT = 64 * 2**20
#: seconds for running requests when a proxy closes
_GRACE = 1.0
_HOST = "127.0.0.1"
Handler = Callable[[web.Request], Awaitable[web.Response]]
#: namespace and name
ServiceName = tuple[str, str]


class ServiceProxies:
    """Local HTTP proxies of Services, opened and closed by `follow`; `noticed` is called when the
    proxy URLs change.
    """

    def __init__(
        self,
        store: Store,
        pods: PodProcesses,
        forwarding: Forwarding,
        rng: random.Random,
        noticed: Callable[[], None],
    ) -> None:
        self._store = store
        self._pods = pods
        self._forwarding = forwarding
        self._rng = rng
        self._noticed = noticed
        self._changed = asyncio.Event()
        self._runners: dict[ServiceName, web.AppRunner] = {}
        self._for_pods = _build_runner(self._ask_by_name)
        self._for_pods_url = URL()
        self._unsubscribe: Callable[[], None] = lambda: None
        self.urls: dict[ServiceName, str] = {}

    async def __aenter__(self) -> Self:
        self._for_pods_url = URL(await listen(self._for_pods, _HOST, 0, EMULATED))
        self._unsubscribe = self._store.subscribe(self._notice)
        self._changed.set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._unsubscribe()
        for runner in (self._for_pods, *self._runners.values()):
            await runner.cleanup()

    def environment(self, uid: str) -> dict[str, str]:
        """Return the environment variables of a pod's process, such as http_proxy."""
        return {"http_proxy": str(self._for_pods_url.with_user(uid)), "no_proxy": ""}

    def _notice(self, change: ObjectChange) -> None:
        if change.resource is SERVICES:
            self._changed.set()

    async def follow(self) -> None:
        """Open and close proxies as Services come and go, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            there = {key_of(service) for service in self._store.list(SERVICES)}
            for name in there - self._runners.keys():
                self._runners[name] = runner = _build_runner(self._ask(name))
                self.urls[name] = await listen(runner, _HOST, 0, EMULATED)
            for name in self._runners.keys() - there:
                del self.urls[name]
                await self._runners.pop(name).cleanup()
            self._noticed()

    def _ask(self, name: ServiceName) -> Handler:
        async def ask(request: web.Request) -> web.Response:
            return await self._forwarding.forward(request, name, lambda: self._draw_pod(name))

        return ask

    async def _ask_by_name(self, request: web.Request) -> web.Response:
        """Forward a proxy request by the Service name in its URL's host: SERVICE.NAMESPACE."""
        caller = self._pods.get(_proxy_user(request))
        service, _, rest = (URL(request.raw_path).host or "").partition(".")
        namespace = rest.partition(".")[0] or (caller.name[0] if caller else "default")
        name = namespace, service
        if name not in self.urls:
            return refused(502, f"no Service {namespace}/{service}")
        return await self._forwarding.forward(
            request, name, lambda: self._draw_pod(name), caller=caller
        )

    def _draw_pod(self, name: ServiceName) -> PodProcess | None:
        """Return a Ready pod process of the Service, drawn uniformly at random."""
        endpoints = self._store.get(ENDPOINTS, *name) or {}
        found = [
            pod
            for subset in endpoints.get("subsets") or ()
            for address in subset.get("addresses") or ()
            if (pod := self._pods.get((address.get("targetRef") or {}).get("uid", "")))
            and pod.process is not None
        ]
        return self._rng.choice(found) if found else None


def _proxy_user(request: web.Request) -> str:
    """Return the user name in the Proxy-Authorization header, which identifies the calling pod."""
    try:
        auth = aiohttp.BasicAuth.decode(request.headers.get("Proxy-Authorization", ""))
    except ValueError:
        return ""
    return str(auth.login)


def _build_runner(handler: Handler) -> web.AppRunner:
    app = web.Application(client_max_size=_BODY_LIMIT)
    app.router.add_route("*", "/{path:.*}", handler)
    return web.AppRunner(app, access_log=None, shutdown_timeout=_GRACE)
