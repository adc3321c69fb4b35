"""Prometheus client: instant queries in a daemon thread, within limits on time and bytes.

At most a single thread runs. While a thread hangs, for example in a name lookup, no further query
is sent. All response bodies of a round share a byte budget: parsing holds the GIL, and blocks the
event loop. A query returns a vector, or a failure with a one-line reason. The thread imports the
client library at the first query.
"""

import asyncio
import io
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import attrs
import msgspec

from kubedsm.config.load_aware import LoadAware

if TYPE_CHECKING:
    from prometheus_api_client.prometheus_connect import PrometheusConnect
    from requests import PreparedRequest, Response

T = TypeVar("T")

#: directory of a mounted Secret: `token`, the `server` that may see the token, `ca.crt`
CREDENTIALS = Path("/var/run/secrets/kubedsm.io/prometheus")
_CHUNK = 2**16
#: maximum characters of a server's error message
_TOLD = 300
#: seconds after the deadline for a thread to return
GRACE = 1.0
_TOKEN = re.compile("[!-~]+")
_OK, _REDIRECTS, _REFUSES = 200, 300, 400


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One sample of a Prometheus series, exempt from Python's cyclic garbage collection."""

    labels: Mapping[str, str]
    value: float
    #: seconds since the epoch
    at: float


Vector = tuple[Sample, ...]


@attrs.frozen(slots=True)
class Failure:
    """Failed Prometheus query, with a one-line reason.

    `unreachable`: the server responds to no query at all.
    """

    reason: str
    unreachable: bool = False


#: results by query name
Answers = Mapping[str, Vector | Failure]


class Asker(Protocol):
    async def ask(
        self,
        whom: LoadAware,
        queries: Mapping[str, str],
        seconds: float,
        most: int,
        then: Callable[[Answers], T],
    ) -> T:
        """Run all Prometheus queries within `seconds` and `most` bytes; return the value that the
        function `then` makes of the results.
        """


#: sends a request; streaming reads the body later
Send = Callable[["PreparedRequest", float], "Response"]


class InAThread:
    """HTTP client in a daemon thread, with optional credentials from a directory."""

    def __init__(self, credentials: Path = CREDENTIALS) -> None:
        self._credentials = credentials
        self._hangs = threading.Event()

    async def ask(
        self,
        whom: LoadAware,
        queries: Mapping[str, str],
        seconds: float,
        most: int,
        then: Callable[[Answers], T],
    ) -> T:
        """Run all Prometheus queries in the daemon thread, as `Asker.ask`. Exceptions of the
        function `then` propagate.
        """
        if self._hangs.is_set():
            return then(_fail_all(queries, "the previous queries are still in progress"))
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                due = time.monotonic() + seconds
                result = then(ask_all(whom, queries, due, most, self._credentials))
            except Exception as error:  # noqa: BLE001 - raised by the caller's await
                self._hangs.clear()
                future.set_exception(error)
            else:
                self._hangs.clear()
                future.set_result(result)

        self._hangs.set()
        try:
            threading.Thread(target=work, name="prometheus", daemon=True).start()
        except RuntimeError as error:  # there are too many threads, of whomever
            self._hangs.clear()
            return then(_fail_all(queries, _one_line(error)))
        try:
            async with asyncio.timeout(seconds + GRACE):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            return then(_fail_all(queries, f"no answer within {seconds:g} s"))


def _fail_all(queries: Mapping[str, str], why: str) -> Answers:
    return dict.fromkeys(queries, Failure(why, unreachable=True))


def ask_all(
    whom: LoadAware,
    queries: Mapping[str, str],
    due: float,
    most: int,
    credentials: Path = CREDENTIALS,
    send: Send | None = None,
) -> Answers:
    """Run the Prometheus queries sequentially, until `due` in monotonic seconds.

    Parsed bodies have at most `most` bytes together. An oversized response fails individually.
    """
    import requests  # noqa: PLC0415 - see above

    found: dict[str, Vector | Failure] = {}
    unreachable: Failure | None = None
    left = most
    with requests.Session() as session:
        try:
            client, adapter = _make_client(session, whom, credentials, due, send)
        except (OSError, UnicodeError) as error:
            unreachable = Failure(
                f"credentials in {credentials}: {_one_line(error)}", unreachable=True
            )
        for name, query in queries.items():
            if unreachable is None:
                adapter.left, adapter.most = left, most
                answer = _run_query(client, query, due)
                left = adapter.left
                if isinstance(answer, Failure) and answer.unreachable:
                    unreachable = answer  # the remaining queries would fail as well
                found[name] = answer
            else:
                found[name] = unreachable
    return found


def _make_client(
    session: Any, whom: LoadAware, credentials: Path, due: float, send: Send | None
) -> "tuple[PrometheusConnect, Any]":
    """Return an HTTP client with limits on time and bytes. Raises OSError and UnicodeError."""
    from prometheus_api_client.prometheus_connect import (  # noqa: PLC0415 - see above
        PrometheusConnect,
    )

    url = whom.prometheus.rstrip("/")
    # A compressed response would circumvent the byte budget.
    headers = {"Accept-Encoding": "identity", **_authorization_header(url, credentials)}
    # Neither proxies nor passwords from the environment.
    session.trust_env = False
    authority = _file_in(credentials, "ca.crt")
    session.verify = True if authority is None else str(authority)
    client = PrometheusConnect(url, headers, session=session)
    adapter = _make_adapter(due, send)
    # Mounted per scheme: requests selects adapters by URL prefix.
    session.adapters.clear()
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    return client, adapter


def _authorization_header(url: str, credentials: Path) -> dict[str, str]:
    """Return the Authorization header with the bearer token; empty without a token.

    Writers of the ConfigMap must not obtain the token by changing the address. Therefore the token
    is sent only to the mounted `server` address, over https. Raises OSError and UnicodeError.
    """
    path = _file_in(credentials, "token")
    if path is None:
        return {}
    token = path.read_text(encoding="ascii").strip()
    if not _TOKEN.fullmatch(token):
        raise OSError("no token in the file token")  # the library would repeat the token
    beside = _file_in(credentials, "server")
    if beside is None:
        raise OSError("the file server is missing; it names the address that may receive the token")
    server = beside.read_text(encoding="ascii").strip()
    if not server.startswith("https://"):
        raise OSError("the file server is no https:// address: a token is sent over https only")
    if _origin_of(url) != _origin_of(server):
        raise OSError("loadAware.prometheus is not at the address in the file server")
    return {"Authorization": f"Bearer {token}"}


def _origin_of(url: str) -> tuple[str | None, str | None, int]:
    """Return a URL's scheme, host and port, parsed as the requests library does. Raises OSError."""
    from urllib3.exceptions import LocationParseError  # noqa: PLC0415 - see above
    from urllib3.util import parse_url  # noqa: PLC0415

    try:
        parsed = parse_url(url)
    except LocationParseError:
        raise OSError("the file server has no address") from None
    return parsed.scheme, parsed.host, parsed.port or (443 if parsed.scheme == "https" else 80)


def _file_in(directory: Path, name: str) -> Path | None:
    """Return the file; None if missing. Raises OSError for a link out of the directory."""
    path = directory / name
    if not path.exists():
        return None
    if not path.resolve().is_relative_to(directory.resolve()):
        raise OSError(f"the file {name} is a symbolic link out of the directory")
    return path


def _make_adapter(due: float, send: Send | None) -> Any:
    """Return a transport adapter without retries and redirects, with limits on time and bytes."""
    import requests  # noqa: PLC0415 - see above
    from requests.adapters import HTTPAdapter  # noqa: PLC0415

    class Read(requests.Response):
        """HTTP response whose JSON body was read within the limits."""

        def json(self, **_: Any) -> Any:
            return {"data": {"result": _decode_vector(self.content)}}

    class Bounded(HTTPAdapter):
        #: byte budget of all responses, and the remainder
        most = left = 0

        def send(self, request: "PreparedRequest", *_: Any, **options: Any) -> "Response":
            if send is None:
                response = super().send(request, **{**options, "stream": True})
            else:
                response = send(request, options["timeout"])
            body, status = _read_body(response, due, self.left, self.most), response.status_code
            if _REDIRECTS <= status < _REFUSES:
                raise _SaidError(f"{status}, a redirect, which is not followed")
            if status != _OK:
                raise _SaidError(f"{status} {_error_in(body)}".strip())
            self.left -= len(body)
            read = Read()
            read.status_code, read.raw, read.encoding = status, io.BytesIO(body), "utf-8"
            read.request = request
            return read

    return Bounded()


def _read_body(response: "Response", due: float, left: int, most: int) -> bytes:
    """Read the response body, up to `left` bytes. Raises _SaidError above, and TimeoutError."""
    read = bytearray()
    with response:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise _SaidError("an unrequested compressed response")
        for chunk in response.iter_content(_CHUNK):
            read += chunk
            if len(read) > left:
                raise _SaidError(_TOO_LARGE.format(most / 2**20))
            if time.monotonic() > due:
                raise TimeoutError
    return bytes(read)


_TOO_LARGE = (
    "the responses exceed {:.3g} MiB: aggregate this query in loadAware.queries, restrict it"
    ' to this cluster, or disable it with ""'
)


class _Series(msgspec.Struct, frozen=True, gc=False):
    metric: dict[str, str]
    #: seconds since the epoch, and the sample
    value: tuple[float, str]


class _Data(msgspec.Struct, frozen=True):
    #: decoded individually: each decoder call holds the GIL
    result: list[msgspec.Raw]


class _Answer(msgspec.Struct, frozen=True):
    data: _Data


_ANSWER, _SERIES = msgspec.json.Decoder(_Answer), msgspec.json.Decoder(_Series)


class _SaidError(Exception):
    """Error: Prometheus returned an error response instead of a vector."""


def _error_in(body: bytes) -> str:
    """Return the error message in a response body of Prometheus; empty for other bodies."""
    import json  # noqa: PLC0415 - only here

    try:
        return _one_line(json.loads(body)["error"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def _run_query(client: "PrometheusConnect", query: str, due: float) -> Vector | Failure:
    import requests  # noqa: PLC0415 - see above

    left = due - time.monotonic()
    late = Failure("no response before the deadline", unreachable=True)
    if left <= 0:
        return late
    try:
        result = client.custom_query(query, timeout=left)  # type: ignore[arg-type]
    except _SaidError as error:
        return Failure(str(error))
    except (TimeoutError, requests.Timeout):
        return late
    except requests.ConnectionError as error:
        return Failure(_innermost_cause(error), unreachable=True)
    except (msgspec.ValidationError, RecursionError):
        return Failure("the response has no vector")
    except (msgspec.DecodeError, UnicodeError):
        return Failure("the response is not JSON")
    except (requests.RequestException, OSError, ValueError) as error:
        return Failure(_one_line(error), unreachable=True)
    return cast(Vector, result)  # the result of Read.json


def _decode_vector(body: bytes) -> Vector:
    """Decode the samples of a Prometheus response.

    Raises msgspec.DecodeError, UnicodeError and RecursionError for other content.
    """
    return tuple(map(_decode_sample, map(_SERIES.decode, _ANSWER.decode(body).data.result)))


def _decode_sample(series: _Series) -> Sample:
    at, value = series.value
    try:
        return Sample(series.metric, float(value), at)
    except ValueError:
        raise msgspec.ValidationError("not a number") from None


def _innermost_cause(error: Exception) -> str:
    """Return the root cause of an exception chain, since outer messages only repeat addresses."""
    reason: Any = error
    for _ in range(8):
        inner = getattr(reason, "reason", None) or next(
            (arg for arg in reason.args if isinstance(arg, Exception)), None
        )
        if not isinstance(inner, Exception):
            break
        reason = inner
    said = _one_line(reason)
    return said.rpartition(": ")[2] if "object at 0x" in said else said


def _one_line(said: object) -> str:
    return " ".join(str(said).split())[:_TOLD]
