"""The page of the cluster: where a command shows it, and to whom."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import click
from aiohttp import web

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.server.access import Access, TokenFile, TokenFileError, is_name
from kubedsm.dashboard.server.app import app_of, page_of
from kubedsm.dashboard.state.scene import Scene
from kubedsm.kube.client.proxies import is_loopback
from kubedsm.observability.reading import Leadership
from kubedsm.process.clock import Clock


@attrs.frozen
class Viewing:
    """What the options say."""

    access: Access
    #: None: wherever it is usual
    address: tuple[str, int] | None = None


def viewing_of(
    *,
    page: bool,
    page_address: tuple[str, int] | None,
    page_token_file: Path | None,
    page_hosts: tuple[str, ...],
) -> Viewing | None:
    """What the options ask for: None for no page. Raises UsageError."""
    if page_address is None and page_token_file is not None:
        raise click.UsageError("--page-token-file is about --page-address: loopback needs no token")
    if page_hosts and page_address is None and not page:
        raise click.UsageError("--page-host is about --page or --page-address")
    for host in page_hosts:
        if not is_name(host):
            raise click.UsageError(f"--page-host: {host!r} is not a host's name, without a port")
    if page_address is None:
        return Viewing(Access(page_hosts)) if page else None
    if page_token_file is None and not is_loopback(page_address[0]):
        raise click.UsageError("--page-address beyond loopback needs --page-token-file")
    return Viewing(Access(page_hosts, _token(page_token_file)), page_address)


def _token(path: Path | None) -> TokenFile | None:
    try:
        return None if path is None else TokenFile(path)
    except TokenFileError as error:
        raise click.UsageError(f"--page-token-file: {error}") from None


@asynccontextmanager
async def shown(
    viewing: Viewing | None,
    runtime: Runtime,
    scene: Scene,
    clock: Clock,
    leadership: Callable[[], Leadership],
) -> AsyncIterator[tuple[str, web.Application | None]]:
    """The URL where it is shown, or else what can serve it wherever it is usual.

    Raises AddressUnavailableError.
    """
    if viewing is None:
        yield "", None
    elif viewing.address is None:
        async with app_of(runtime, scene, clock, viewing.access, leadership) as app:
            yield "", app
    else:
        page = page_of(runtime, scene, clock, viewing.address, viewing.access, leadership)
        async with page as url:
            yield url, None
