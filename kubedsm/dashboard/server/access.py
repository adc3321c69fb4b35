"""Access control of the dashboard page: known host names, bearer token, and browser headers.

Pages of other sites must not obtain information, even if their host name resolves to this machine
(DNS rebinding). Requests must therefore use an address, `localhost` or a configured name. With a
token, information about the cluster requires the token.
"""

import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import attrs
import structlog
from aiohttp import web

from kubedsm.app.live_configuration import file_state
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
#: headers of every response
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{what} {whose}" for what, whose in _POLICY.items()),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
#: Sec-Fetch-Site of requests without involvement of other sites
_OWN = ("same-origin", "none")
_BEARER = "Bearer "
_NAME = "[a-z0-9.-]+"
_HOST = re.compile(rf"(?P<name>\[[0-9a-f:.]+\]|{_NAME})(:[0-9]+)?")


def is_name(host: str) -> bool:
    """Return True for a syntactically valid host name, as browsers write host names."""
    return re.fullmatch(_NAME, host) is not None


class TokenFileError(Problem):
    """Error: the token file cannot be read, or contains no token."""


class TokenFile:
    """Bearer token in a file, read again when the file changes, as a mounted Secret does."""

    def __init__(self, path: Path) -> None:
        """Read the bearer token for the first time. Raise TokenFileError."""
        self._path = path
        self._seen = file_state(path)
        self._token = _read_token(path)

    def holds(self, token: str) -> bool:
        """Return True if the given token equals the file's; False for a missing or empty file."""
        self._refresh()
        return bool(self._token) and hmac.compare_digest(
            self._token, token.encode(errors="surrogateescape")
        )

    def read(self) -> str:
        """Return the present token; empty for a missing or empty file."""
        self._refresh()
        return self._token.decode(errors="replace")

    def _refresh(self) -> None:
        seen = file_state(self._path)
        if seen != self._seen:
            self._seen = seen
            try:
                self._token = _read_token(self._path)
            except TokenFileError as error:
                self._token = b""
                log.warning("page access denied to all", error=str(error))
            else:
                log.info("page token changed", file=str(self._path))


def _read_token(path: Path) -> bytes:
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise TokenFileError(f"{path}: {error.strerror}") from None
    if not token:
        raise TokenFileError(f"{path}: empty, it contains no token")
    return token


@attrs.frozen
class Access:
    """Access control of an HTTP server: permitted host names, and an optional bearer token.

    `names`: host names of this server besides addresses and `localhost`. Without a token, every
    client has unrestricted access, hence the server must listen on loopback.
    """

    names: Collection[str] = ()
    token: TokenFile | None = None

    def host_is_known(self, host: str) -> bool:
        """Return True if a Host header contains an IP address or a permitted name of the server."""
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
        """Return True if the HTTP request has the current bearer token, or no token is required."""
        header = request.headers.get("Authorization", "")
        if self.token is None:
            return True
        return header.startswith(_BEARER) and self.token.holds(header.removeprefix(_BEARER).strip())

    def guard(self, app: web.Application, is_public: Callable[[web.Request], bool]) -> None:
        """Refuse requests with an unknown host or without the token; public files need no token."""

        @web.middleware
        async def check_access(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            if not self.host_is_known(request.headers.get("Host", "")):
                raise web.HTTPMisdirectedRequest(
                    text="unknown host name: use the server's address, or localhost\n"
                )
            if not is_public(request):
                if request.headers.get("Sec-Fetch-Site", "none") not in _OWN:
                    raise web.HTTPForbidden(text="not for pages of other sites\n")
                if not self.admits(request):
                    raise web.HTTPUnauthorized(
                        text="a token is required\n", headers={"WWW-Authenticate": "Bearer"}
                    )
            return await handler(request)

        async def protect(_: web.Request, response: web.StreamResponse) -> None:
            response.headers.update(HEADERS)

        app.middlewares.append(check_access)
        app.on_response_prepare.append(protect)
