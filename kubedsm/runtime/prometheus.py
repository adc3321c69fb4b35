"""Prometheus, asked one query after the other in a thread of its own.

The thread is a daemon, so that nothing that hangs keeps the process from ending, and there is one
of them at most: while one hangs, nothing more is asked. What comes back may be anything, of any
size: a vector is made of it, or else a failure with its reason in a line. The library is imported
where somebody is asked.
"""

import asyncio
import io
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import attrs

from kubedsm.configuration.load_aware import LoadAware

if TYPE_CHECKING:
    from prometheus_api_client.prometheus_connect import PrometheusConnect
    from requests import PreparedRequest, Response

T = TypeVar("T")

#: bytes of one answer: 50,000 pods need half of it
LARGEST = 16 * 2**20
_CHUNK = 2**16
#: characters of what a server says is wrong
_TOLD = 300
#: seconds beyond those it is given, that a thread has to come back by itself
GRACE = 1.0
_TOKEN = re.compile("[!-~]+")
_OK, _REDIRECTS, _REFUSES = 200, 300, 400


class Sample(NamedTuple):
    """One series at a moment."""

    labels: Mapping[str, str]
    value: float
    #: seconds since the epoch
    at: float


Vector = tuple[Sample, ...]


@attrs.frozen(slots=True)
class Failure:
    """Why there is no vector, in a line; and whether nobody answers there, whatever is asked."""

    reason: str
    nobody: bool = False


#: by what the queries are called
Answers = Mapping[str, Vector | Failure]


class Asker(Protocol):
    async def ask(
        self,
        whom: LoadAware,
        queries: Mapping[str, str],
        seconds: float,
        then: Callable[[Answers], T],
    ) -> T:
        """Ask all of the queries within that time; what `then` makes of it, in no hurry."""


class InAThread:
    """Asks over HTTP."""

    def __init__(self) -> None:
        self._hangs = threading.Event()

    async def ask(
        self,
        whom: LoadAware,
        queries: Mapping[str, str],
        seconds: float,
        then: Callable[[Answers], T],
    ) -> T:
        """As `Asker.ask`. What `then` raises is raised."""
        if self._hangs.is_set():
            return then(_nobody(queries, "what was asked before has not come to an end yet"))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: Exception | None) -> None:
            if future.done():
                return  # nobody waits for it any more
            if error is None:
                future.set_result(result)  # type: ignore[arg-type]  # None only where T has it
            else:
                future.set_exception(error)

        def work() -> None:
            result, failed = None, None
            try:
                result = then(_asked_all(whom, queries, time.monotonic() + seconds))
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                failed = error
            self._hangs.clear()
            with suppress(RuntimeError):  # the loop is closed: the process ends
                loop.call_soon_threadsafe(settle, result, failed)

        self._hangs.set()
        try:
            threading.Thread(target=work, name="prometheus", daemon=True).start()
        except RuntimeError as error:  # there are too many threads, of whomever
            self._hangs.clear()
            return then(_nobody(queries, _line(error)))
        try:
            async with asyncio.timeout(seconds + GRACE):
                return await future
        except TimeoutError:
            return then(_nobody(queries, f"no answer within {seconds:g} s"))


def _nobody(queries: Mapping[str, str], why: str) -> Answers:
    return dict.fromkeys(queries, Failure(why, nobody=True))


def _asked_all(whom: LoadAware, queries: Mapping[str, str], due: float) -> Answers:
    import requests  # noqa: PLC0415 - see above

    found: dict[str, Vector | Failure] = {}
    nobody: Failure | None = None
    with requests.Session() as session:
        try:
            client = _client(session, whom, due)
        except (OSError, UnicodeError) as error:
            nobody = Failure(f"tokenFile: {_line(error)}", nobody=True)
        for name, query in queries.items():
            answer = nobody or _asked(client, query, due)
            if isinstance(answer, Failure) and answer.nobody:
                nobody = answer  # nor will it answer the others
            found[name] = answer
    return found


def _client(session: Any, whom: LoadAware, due: float) -> "PrometheusConnect":
    """Asks within that time, and no one else. Raises OSError and UnicodeError."""
    from prometheus_api_client.prometheus_connect import (  # noqa: PLC0415 - see above
        PrometheusConnect,
    )

    url = whom.prometheus.rstrip("/")
    headers = {}
    if whom.token_file is not None:
        token = Path(whom.token_file).read_text(encoding="ascii").strip()
        if not _TOKEN.fullmatch(token):
            raise OSError("no token in it")  # else it would be told which
        headers["Authorization"] = f"Bearer {token}"
    # Neither proxies nor passwords of whoever started us.
    session.trust_env = False
    session.verify = whom.ca_file or True
    client = PrometheusConnect(url, headers, session=session)
    session.mount(url, _adapter(due))
    return client


def _adapter(due: float) -> Any:
    """What a session sends requests by: no retries, no redirects, and no more than is bearable."""
    import requests  # noqa: PLC0415 - see above
    from requests.adapters import HTTPAdapter  # noqa: PLC0415

    class Bounded(HTTPAdapter):
        def send(self, request: "PreparedRequest", *_: Any, **options: Any) -> "Response":
            response = super().send(request, **{**options, "stream": True})
            body, status = _read(response, due), response.status_code
            if _REDIRECTS <= status < _REFUSES:
                raise _SaidError(f"{status}, a redirect, which is not followed")
            if status != _OK:
                raise _SaidError(f"{status} {_error_in(body)}".strip())
            read = requests.Response()
            read.status_code, read.raw, read.encoding = status, io.BytesIO(body), "utf-8"
            read.request = request
            return read

    return Bounded()


class _SaidError(Exception):
    """The server answers, and there is no vector in what it says."""


def _read(response: "Response", due: float) -> bytes:
    """The body. Raises _SaidError if it is too long, and TimeoutError."""
    read = bytearray()
    with response:
        for chunk in response.iter_content(_CHUNK):
            read += chunk
            if len(read) > LARGEST:
                raise _SaidError(f"an answer of more than {LARGEST >> 20} MiB")
            if time.monotonic() > due:
                raise TimeoutError
    return bytes(read)


def _error_in(body: bytes) -> str:
    """What a server says is wrong, if it says so as Prometheus does."""
    import json  # noqa: PLC0415 - only here

    try:
        return _line(json.loads(body)["error"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def _asked(client: "PrometheusConnect", query: str, due: float) -> Vector | Failure:
    import requests  # noqa: PLC0415 - see above

    left = due - time.monotonic()
    late = Failure("no answer in time", nobody=True)
    if left <= 0:
        return late
    try:
        result = client.custom_query(query, timeout=left)  # type: ignore[arg-type]
    except _SaidError as error:
        return Failure(str(error))
    except (TimeoutError, requests.Timeout):
        return late
    except requests.exceptions.InvalidJSONError:
        return Failure("no JSON in the answer")
    except requests.ConnectionError as error:
        return Failure(_cause(error), nobody=True)
    except (requests.RequestException, OSError, ValueError) as error:
        return Failure(_line(error), nobody=True)
    except (LookupError, TypeError, RecursionError):
        return Failure("no vector in the answer")
    try:
        return _vector(result)
    except (LookupError, TypeError, ValueError):
        return Failure("no vector in the answer")


def _vector(result: Any) -> Vector:
    """Raises LookupError, TypeError or ValueError if it is none."""
    if not isinstance(result, list):
        raise TypeError
    return tuple(_sample(each["metric"], *each["value"]) for each in result)


def _sample(labels: Any, at: Any, value: Any) -> Sample:
    if not isinstance(labels, dict) or not isinstance(value, str):
        raise TypeError
    return Sample({str(name): str(said) for name, said in labels.items()}, float(value), float(at))


def _cause(error: Exception) -> str:
    """The innermost reason: those around it name the query, and objects by their addresses."""
    reason: Any = error
    for _ in range(8):
        inner = getattr(reason, "reason", None) or next(
            (arg for arg in reason.args if isinstance(arg, Exception)), None
        )
        if not isinstance(inner, Exception):
            break
        reason = inner
    said = _line(reason)
    return said.rpartition(": ")[2] if "object at 0x" in said else said


def _line(said: object) -> str:
    return " ".join(str(said).split())[:_TOLD]
