"""A server on loopback that does what a test wants, and an adapter that talks to it."""

import asyncio
import contextlib
import json

from aiohttp import web

from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.cluster.client.port import Request

POST = Request("POST", "/api/v1/pods", body={"a": 1})


class Server:
    """Answers every request with `handler`, and counts connections."""

    def __init__(self, handler, tls=None):
        self.handler = handler
        self.tls = tls
        self.connections = set()
        self.hung_up = asyncio.Event()
        self.url = ""

    async def __aenter__(self):
        server = web.Server(self._handle, handler_cancellation=True)
        self.runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        scheme = "https" if self.tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        await self.runner.cleanup()

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
async def talking(tmp_path, handler, **settings):
    async with Server(handler) as server:
        path = config(tmp_path, server.url, **settings)
        async with await KubernetesCluster.from_kubeconfig(path, environ={}) as cluster:
            yield cluster, server


def says(status, text, content_type="application/json"):
    async def handler(_request):
        return web.Response(status=status, text=text, content_type=content_type)

    return handler
