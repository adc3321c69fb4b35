"""To be a service: from when it listens until all that it accepted is answered."""

import asyncio
import os

import click
from aiohttp import web
from prometheus_client import disable_created_metrics

from kubedsm.terminal.echo import echo
from loadgen.server import Server
from loadgen.stopping import stopped_by_signals
from loadgen.transport import HttpTransport
from loadgen.work import Work

#: seconds that requests under way are given at the end
GRACE = 60.0


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
    echo(f"http://{address[0]}:{address[1]}")
