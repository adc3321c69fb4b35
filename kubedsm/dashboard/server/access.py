"""Who may ask for the page, and what a browser is told it may do.

A page of another site must learn nothing here, not even if its name is made to lead to this
machine. So who asks must use an address, `localhost`, or a name that is known; whoever is led here
by another name is refused. Nothing that is known of the cluster goes out without the token, if
there is one.
"""

import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import attrs
import structlog
from aiohttp import web

from kubedsm.terminal.problems import Problem

log = structlog.get_logger()

_SELF = "'self'"
_POLICY = {
    "default-src": "'none'",
    "script-src": _SELF,
    "style-src": _SELF,
    "connect-src": _SELF,
    "img-src": f"{_SELF} data:",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
}
#: of every answer
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{what} {whose}" for what, whose in _POLICY.items()),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
#: how a browser says that no other site has it ask
_OWN = ("same-origin", "none")
_BEARER = "Bearer "
_NAME = "[a-z0-9.-]+"
_HOST = re.compile(rf"(?P<name>\[[0-9a-f:.]+\]|{_NAME})(:[0-9]+)?")


def is_name(host: str) -> bool:
    """Whether it can be the name of a host, as browsers write it."""
    return re.fullmatch(_NAME, host) is not None


class TokenFileError(Problem):
    """The file cannot be read, or no token is in it."""


class TokenFile:
    """The token in a file, read again when the file is another one: a Secret may be changed."""

    def __init__(self, path: Path) -> None:
        """Raises TokenFileError."""
        self._path = path
        self._seen = _version(path)
        self._token = _token_in(path)

    def holds(self, token: str) -> bool:
        """False if the file is gone, or empty, by now."""
        seen = _version(self._path)
        if seen != self._seen:
            self._seen = seen
            try:
                self._token = _token_in(self._path)
            except TokenFileError as error:
                self._token = b""
                log.warning("nobody may see the page", error=str(error))
            else:
                log.info("the page has another token", file=str(self._path))
        return bool(self._token) and hmac.compare_digest(
            self._token, token.encode(errors="surrogateescape")
        )


def _version(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _token_in(path: Path) -> bytes:
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise TokenFileError(f"{path}: {error.strerror}") from None
    if not token:
        raise TokenFileError(f"{path}: empty, no token is in it")
    return token


@attrs.frozen
class Access:
    """`names`: hosts that this server goes by, beside addresses and `localhost`.

    Without a token everybody who gets here may see all: it must listen on loopback then.
    """

    names: Collection[str] = ()
    token: TokenFile | None = None

    def host_is_known(self, host: str) -> bool:
        """Whether a Host header says an address, or a name of this server."""
        found = _HOST.fullmatch(host.lower())
        if found is None:
            return False
        name = found["name"].strip("[]")
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in {"localhost", *self.names}
        return True

    def admits(self, request: web.Request) -> bool:
        """Whether it has the token, as it is now."""
        said = request.headers.get("Authorization", "")
        if self.token is None:
            return True
        return said.startswith(_BEARER) and self.token.holds(said.removeprefix(_BEARER).strip())

    def guard(self, app: web.Application, is_public: Callable[[web.Request], bool]) -> None:
        """Refuse all requests but those to be answered; what is public needs no token."""

        @web.middleware
        async def guarded(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            if not self.host_is_known(request.headers.get("Host", "")):
                raise web.HTTPMisdirectedRequest(
                    text="this server does not go by that name: use its address, or localhost\n"
                )
            if not is_public(request):
                if request.headers.get("Sec-Fetch-Site", "none") not in _OWN:
                    raise web.HTTPForbidden(text="not for pages of other sites\n")
                if not self.admits(request):
                    raise web.HTTPUnauthorized(
                        text="a token is needed\n", headers={"WWW-Authenticate": "Bearer"}
                    )
            return await handler(request)

        async def protect(_: web.Request, response: web.StreamResponse) -> None:
            response.headers.update(HEADERS)

        app.middlewares.append(guarded)
        app.on_response_prepare.append(protect)
