"""The command that is a service."""

import asyncio
import os

import click
from aiohttp import web
from prometheus_client import disable_created_metrics

from loadgen.parameters import Cores, Duration, Milliseconds, Size, Url
from loadgen.server import Server
from loadgen.stopping import stopped_by_signals
from loadgen.transport import HttpTransport
from loadgen.work import Work

#: seconds that requests under way are given at the end
GRACE = 60.0


@click.command()
@click.option("--host", default="0.0.0.0", show_default=True)  # noqa: S104 - a pod's own address
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes any."
)
@click.option("--name", default="loadgen", show_default=True, help="What it answers with.")
@click.option(
    "--service-time",
    type=Duration(),
    default="0s",
    show_default=True,
    help="A request takes a slot for that long, or for as long as its work takes.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Slots: requests that are worked on at once; others wait, first come first served.",
)
@click.option("--cpu", type=Milliseconds(), default="0s", help="CPU time of a request.")
@click.option(
    "--cpu-limit",
    type=Cores(),
    default="0",
    help="Cores that all requests share, as under a CFS quota, such as 500m.  [no limit]",
)
@click.option(
    "--pi-decimals", type=click.IntRange(0, 1_000_000), default=0, help="Worked out for a request."
)
@click.option("--memory", type=Size("MB"), default="0", help="Held all the time; MB without unit.")
@click.option("--net", type=Size(), default="0", help="Of each answer; bytes without unit.")
@click.option("--disk", type=Size(), default="0", help="Written for a request; bytes without unit.")
@click.option(
    "--call",
    "calls",
    multiple=True,
    type=Url(),
    help="Another service that is called for each request, all of them at once. May be repeated.",
)
@click.option(
    "--drain",
    type=Duration(),
    default="500ms",
    show_default=True,
    help="After SIGTERM new requests are taken for that long, by those who have not heard of it.",
)
def serve(
    *,
    host: str,
    port: int,
    name: str,
    service_time: float,
    concurrency: int,
    cpu: float,
    cpu_limit: float,
    pi_decimals: int,
    memory: int,
    net: int,
    disk: int,
    calls: tuple[str, ...],
    drain: float,
) -> None:
    """Serve requests over HTTP that cost what the options say.

    /metrics is for Prometheus, /healthz and /readyz for a kubelet; every other path does a
    request's work. SIGTERM or Ctrl-C ends it when all that it accepted is answered.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]
    work = Work(service_time, cpu, pi_decimals, memory, net, disk, cpu_limit)

    async def serving() -> None:
        async with (
            HttpTransport(by_proxy=True) as transport,
            Server(name, work, concurrency, calls, transport) as server,
        ):
            runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=GRACE)
            await runner.setup()
            try:
                with stopped_by_signals() as stop:
                    await _listen(runner, host, port)
                    await stop.wait()
                    server.ready = False
                    await asyncio.sleep(drain)
            finally:
                await runner.cleanup()

    asyncio.run(serving())


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        # asyncio's own text repeats the address as a tuple; a name lookup has no errno text
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise click.ClickException(f"cannot listen on {host}:{port}: {why}") from error
    address = runner.addresses[0]
    click.echo(f"http://{address[0]}:{address[1]}")
