"""HTTP server on loopback with a test's handler, and a client connected to it."""

import asyncio
import contextlib
import json

from aiohttp import web

from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import Request

POST = Request("POST", "/api/v1/pods", body={"a": 1})


class _Counting(web.Server):
    def __init__(self, counts, handler, **settings):
        super().__init__(handler, handler_cancellation=True, **settings)
        self.counts = counts

    def connection_made(self, handler, transport):
        self.counts.opened += 1
        super().connection_made(handler, transport)


class Server:
    """HTTP server that calls `handler` for every request, and counts connections.

    Connections idle for `keepalive_timeout` seconds are closed.
    """

    def __init__(self, handler, tls=None, keepalive_timeout=60.0):
        self.handler = handler
        self.tls = tls
        self.keepalive_timeout = keepalive_timeout
        #: those that were opened, and those that a request came by
        self.opened = 0
        self.connections = set()
        self.hung_up = asyncio.Event()
        self.url = ""

    async def __aenter__(self):
        server = _Counting(self, self._handle, keepalive_timeout=self.keepalive_timeout)
        self.runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        scheme = "https" if self.tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        await self.runner.cleanup()

    def drop_all(self):
        """Close all connections, as a terminating server does."""
        for connection in self.runner.server.connections:
            connection.transport.close()

    async def _handle(self, request):
        self.connections.add(request.transport.get_extra_info("peername"))
        try:
            return await self.handler(request)
        except asyncio.CancelledError:
            self.hung_up.set()
            raise


def config(tmp_path, server, *, cluster=None, user=None, name="config"):
    path = tmp_path / name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {"token": "secret"}}],
    }
    path.write_text(json.dumps(document))
    return path


@contextlib.asynccontextmanager
async def talking(
    tmp_path, handler, *, path="", by_proxy=False, keepalive_timeout=60.0, **settings
):
    async with Server(handler, keepalive_timeout=keepalive_timeout) as server:
        if by_proxy:  # which the server is then
            at = config(tmp_path, "http://api.invalid", cluster={"proxy-url": server.url})
        else:
            at = config(tmp_path, server.url + path, **settings)
        async with await KubernetesCluster.connect(at, environ={}) as cluster:
            yield cluster, server


def says(status, text, content_type="application/json"):
    async def handler(_request):
        return web.Response(status=status, text=text, content_type=content_type)

    return handler
