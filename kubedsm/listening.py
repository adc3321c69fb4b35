"""Listening where one is told to: an address of this machine, for those who may ask there."""

import os
import ssl

from aiohttp import web

from loadgen.problems import Problem


class AddressUnavailableError(Problem):
    """One cannot listen there: the port is taken, or the host is not one of this machine's."""


async def listen(
    runner: web.BaseRunner, host: str, port: int, tls: ssl.SSLContext | None = None
) -> str:
    """Have the runner serve there; its URL, which names the port if `port` was 0 for any.

    Without a host it is on all addresses. Raises AddressUnavailableError, with nothing left open.
    """
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port, ssl_context=tls).start()
    except OSError as error:
        await runner.cleanup()
        # asyncio's own text repeats the address as a tuple; a name lookup has no errno text
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise AddressUnavailableError(f"cannot listen on {host}:{port}: {why}") from error
    at, number = runner.addresses[0][:2]
    scheme = "http" if tls is None else "https"
    return f"{scheme}://[{at}]:{number}" if ":" in at else f"{scheme}://{at}:{number}"
