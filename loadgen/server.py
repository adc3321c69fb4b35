"""HTTP service under load: each request costs its `Work`, and Prometheus metrics count requests.

A request holds a slot during its work, at least for the service time; other requests wait, first
come first served, as in the workload model of a replay. Downstream services are called afterwards,
concurrently and without a slot.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import click
from aiohttp import web
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from kubedsm.terminal.echo import echo
from kubedsm.terminal.problems import explain_refusal
from loadgen.stopping import stop_by_signals
from loadgen.transport import SERVED_BY, HttpTransport, Transport, TransportError
from loadgen.work import Quota, Work

#: upper bounds of the histogram buckets in seconds
BUCKETS = (
    *(0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4),
    *(0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0),
)
#: timeout of a downstream service in seconds
PATIENCE = 30.0
#: seconds for unfinished requests at the end
GRACE = 60.0
#: lowest HTTP status code of an error
_ERROR = 400


class Server:
    """HTTP service whose requests each perform the CPU and disk work of `work`; on exit, accepted
    requests are completed.

    `calls` are URLs of downstream services, requested by `transport`.
    """

    def __init__(
        self, name: str, work: Work, concurrency: int, calls: Sequence[str], transport: Transport
    ) -> None:
        self._name = name
        self._work = work
        self._slots = asyncio.Semaphore(concurrency)
        self._calls = calls
        self._transport = transport
        self._threads = ThreadPoolExecutor(concurrency)
        self._pause = Quota(work.cpu_limit).wait if work.cpu_limit else lambda: None
        # incompressible content: the kernel stores no zero pages
        self._held = b"\x01" * work.memory
        self._body = b"x" * work.net or f"{name}\n".encode()
        #: value of the readiness probe
        self.ready = True
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter("http_requests", "Received requests.", registry=self.registry)
        self._in_flight = Gauge(
            "http_requests_in_flight", "Requests in progress.", registry=self.registry
        )
        self._duration = Histogram(
            "http_request_duration_seconds",
            "Time from a request's arrival to its response, including the wait for a slot.",
            buckets=BUCKETS,
            registry=self.registry,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._threads.shutdown()

    def app(self) -> web.Application:
        """Return the web application: probes, metrics, and work on every other path."""
        app = web.Application()
        app.router.add_get("/metrics", self._answer_metrics)
        app.router.add_get("/healthz", self._answer_healthz)
        app.router.add_get("/readyz", self._answer_readyz)
        app.router.add_route("*", "/{path:.*}", self._answer_request)
        return app

    async def _answer_request(self, _: web.Request) -> web.Response:
        problem = await self.request()
        answer = web.Response(body=self._body) if not problem else _text_response(problem, 502)
        # hostname, which is the pod's name inside a Kubernetes container
        answer.headers[SERVED_BY] = socket.gethostname()
        return answer

    async def request(self) -> str:
        """Do the work of one request; return an error description, or ""."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._requests.inc()
        with self._in_flight.track_inprogress():
            try:
                return await self._serve_request()
            finally:
                self._duration.observe(loop.time() - began)

    async def _serve_request(self) -> str:
        loop = asyncio.get_running_loop()
        async with self._slots:
            ends = loop.time() + self._work.service_time
            if self._work.takes_a_thread:
                try:
                    await loop.run_in_executor(self._threads, self._work.do, self._pause)
                except OSError as error:
                    return f"{self._name}: {error.strerror or error}"
            await asyncio.sleep(max(0.0, ends - loop.time()))
        problems = await asyncio.gather(*(self._call_service(url) for url in self._calls))
        return "; ".join(filter(None, problems))

    async def _call_service(self, url: str) -> str:
        try:
            async with asyncio.timeout(PATIENCE):
                status, _ = await self._transport.get(url)
        except TimeoutError:
            return f"{url}: no answer within {PATIENCE:g} s"
        except TransportError as error:
            return f"{url}: {error}"
        return f"{url}: HTTP {status}" if status >= _ERROR else ""

    async def _answer_metrics(self, _: web.Request) -> web.Response:
        return exposition(self.registry)

    async def _answer_healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _answer_readyz(self, _: web.Request) -> web.Response:
        return _text_response("ok") if self.ready else _text_response("stopping", 503)


def _text_response(text: str, status: int = 200) -> web.Response:
    return web.Response(text=f"{text}\n", status=status)


def exposition(registry: CollectorRegistry) -> web.Response:
    """Return the registry's Prometheus metrics as an HTTP response in the text format."""
    headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
    return web.Response(body=generate_latest(registry), headers=headers)


def serve(
    *,
    host: str,
    port: int,
    name: str,
    concurrency: int,
    calls: tuple[str, ...],
    drain: float,
    **given: Any,
) -> None:
    """Run the HTTP service until SIGTERM or Ctrl-C; `given` are the fields of `Work`, the cost of
    each request.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]
    work = Work(**given)

    async def serving() -> None:
        async with (
            HttpTransport(by_proxy=True) as transport,
            Server(name, work, concurrency, calls, transport) as server,
        ):
            runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=GRACE)
            await runner.setup()
            try:
                with stop_by_signals() as stop:
                    await _start_listening(runner, host, port)
                    await stop.wait()
                    server.ready = False
                    await asyncio.sleep(drain)
            finally:
                await runner.cleanup()

    asyncio.run(serving())


async def _start_listening(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}:{port}: {explain_refusal(error)}"
        ) from error
    address = runner.addresses[0]
    echo(f"http://{address[0]}:{address[1]}")
