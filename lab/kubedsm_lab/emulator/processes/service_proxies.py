"""A proxy for each Service, on a port of its own, and one for what pods ask of Services.

The latter is what the pods' http_proxy names: it knows Services by their names in the cluster's
DNS, and who asks by the user in the proxy's URL.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web
from yarl import URL

from kubedsm.process.http_limits import EMULATED, listen
from kubedsm_lab.emulator.api.resources import ENDPOINTS, SERVICES
from kubedsm_lab.emulator.api.store import ObjectChange, Store
from kubedsm_lab.emulator.processes.forwarding import Forwarding, refused
from kubedsm_lab.emulator.processes.pod_processes import PodProcess, PodProcesses

#: bytes of a request's body, at most
_BODY_LIMIT = 64 * 2**20
#: seconds that requests under way are given when a proxy closes
_GRACE = 1.0
_HOST = "127.0.0.1"
Handler = Callable[[web.Request], Awaitable[web.Response]]
#: namespace and name
ServiceName = tuple[str, str]


class ServiceProxies:
    """Within its context, and while `follow` runs. `noticed` is called when `urls` are others."""

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
        self._for_pods = _runner(self._ask_by_name)
        self._for_pods_url = URL()
        self._unsubscribe: Callable[[], None] = lambda: None
        self.urls: dict[ServiceName, str] = {}

    async def __aenter__(self) -> Self:
        self._for_pods_url = URL(await listen(self._for_pods, _HOST, 0, EMULATED))
        self._unsubscribe = self._store.subscribe(self._notice)
        self._changed.set()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._unsubscribe()
        for runner in (self._for_pods, *self._runners.values()):
            await runner.cleanup()

    def environment(self, uid: str) -> dict[str, str]:
        """Of a pod's process."""
        return {"http_proxy": str(self._for_pods_url.with_user(uid)), "no_proxy": ""}

    def _notice(self, change: ObjectChange) -> None:
        if change.resource is SERVICES:
            self._changed.set()

    async def follow(self) -> None:
        """Have one proxy for each Service that there is, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            there = {_name(service["metadata"]) for service in self._store.list(SERVICES)}
            for name in there - self._runners.keys():
                self._runners[name] = runner = _runner(self._ask(name))
                self.urls[name] = await listen(runner, _HOST, 0, EMULATED)
            for name in self._runners.keys() - there:
                del self.urls[name]
                await self._runners.pop(name).cleanup()
            self._noticed()

    def _ask(self, name: ServiceName) -> Handler:
        async def ask(request: web.Request) -> web.Response:
            return await self._forwarding.forward(request, name, lambda: self._drawn(name))

        return ask

    async def _ask_by_name(self, request: web.Request) -> web.Response:
        """The first word of an absolute URL's host is the Service, the second its namespace."""
        caller = self._pods.get(_user(request))
        service, _, rest = (URL(request.raw_path).host or "").partition(".")
        namespace = rest.partition(".")[0] or (caller.name[0] if caller else "default")
        name = namespace, service
        if name not in self.urls:
            return refused(502, f"no Service {namespace}/{service}")
        return await self._forwarding.forward(
            request, name, lambda: self._drawn(name), caller=caller
        )

    def _drawn(self, name: ServiceName) -> PodProcess | None:
        """One of the Service's Ready pods that are processes, all with equal chances."""
        endpoints = self._store.get(ENDPOINTS, *name) or {}
        found = [
            pod
            for subset in endpoints.get("subsets") or ()
            for address in subset.get("addresses") or ()
            if (pod := self._pods.get((address.get("targetRef") or {}).get("uid", "")))
            and pod.process is not None
        ]
        return self._rng.choice(found) if found else None


def _name(metadata: Mapping[str, str]) -> ServiceName:
    return metadata["namespace"], metadata["name"]


def _user(request: web.Request) -> str:
    """Of the proxy's URL."""
    try:
        auth = aiohttp.BasicAuth.decode(request.headers.get("Proxy-Authorization", ""))
    except ValueError:
        return ""
    return str(auth.login)


def _runner(handler: Handler) -> web.AppRunner:
    app = web.Application(client_max_size=_BODY_LIMIT)
    app.router.add_route("*", "/{path:.*}", handler)
    return web.AppRunner(app, access_log=None, shutdown_timeout=_GRACE)
