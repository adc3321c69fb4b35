"""Fake Prometheus that sends false measurements: a scheduler that believes these migrates a pod
needlessly.

Every response claims a shortage of CPU on an edge node and of memory on another, so load balancing
would migrate a pod. Responses pass the scheduler's HTTP client in virtual time, without sockets and
threads.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import attrs
import orjson

from kubedsm.app.prometheus import Answers, Failure, ask_all
from kubedsm.config.load_aware import LoadAware
from kubedsm.process.clock import Clock
from kubedsm_lab.chaos.hands import Hands

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

T = TypeVar("T")

#: seconds between queries, and duration of each lie: a load migration takes two samples
PERIOD, LASTS = 1.0, 3.0
#: age of an obsolete sample in seconds
_DAY = 86_400.0
_OK, _REDIRECT, _ERROR = 200, 302, 503
#: series in one part of a body; a huge body has twice as many parts
_MANY = 224
#: consumption of a pod, of the node without free CPU, and of the other node: millicores, bytes
_CPU, _MEMORY = ("500", "1500", "100"), ("5e7", "4e8", "5e9")
#: no directory: no credentials
_NOWHERE = Path("/nonexistent")


@attrs.frozen
class Claim:
    """False measurement of a node or pod in a Prometheus response; `age` is in seconds."""

    name: str
    value: str
    age: float = 0.0
    #: prefix of the identifying labels
    prefix: str = ""

    def encode(self, now: float) -> bytes:
        labels = {"instance": self.name, "namespace": "default", "pod": self.name}
        metric = {f"{self.prefix}{label}": said for label, said in labels.items()}
        return orjson.dumps({"metric": metric, "value": [now - self.age, self.value]})


#: response of a server: status, and parts of the body
Sent = tuple[int, Iterator[bytes]]
Lie = Callable[[list[Claim], float], Sent]


def _encode_vector(series: Iterator[bytes]) -> Iterator[bytes]:
    yield b'{"status":"success","data":{"resultType":"vector","result":['
    yield next(series)
    for each in series:
        yield b"," + each
    yield b"]}}"


def _send_claims(claims: list[Claim], now: float) -> Sent:
    """Send the false measurements in a well-formed response, which proves that schedulers act on
    such data.
    """
    return _OK, _encode_vector(each.encode(now) for each in claims)


def _change_claims(change: Callable[[Claim], Claim]) -> Lie:
    return lambda claims, now: _send_claims(list(map(change, claims)), now)


def _send_too_many(claims: list[Claim], now: float) -> Sent:
    """Send the false measurements in a response with a hundred thousand additional series."""
    more = b",".join(Claim(f"n{number}", "1").encode(now) for number in range(_MANY))
    return _OK, _encode_vector(iter([*(each.encode(now) for each in claims), *[more] * _MANY * 2]))


def _send_endless(claims: list[Claim], now: float) -> Sent:
    return _OK, itertools.repeat(b"".join(_send_claims(claims * _MANY, now)[1]))


LIES: Mapping[str, Lie] = {
    "huge": _send_too_many,
    "endless": _send_endless,
    "not a number": _change_claims(lambda claim: attrs.evolve(claim, value="NaN")),
    "infinite": _change_claims(lambda claim: attrs.evolve(claim, value="+Inf")),
    "negative": _change_claims(lambda claim: attrs.evolve(claim, value=f"-{claim.value}")),
    "too large": _change_claims(lambda claim: attrs.evolve(claim, value="1e300")),
    "old": _change_claims(lambda claim: attrs.evolve(claim, age=_DAY)),
    "future": _change_claims(lambda claim: attrs.evolve(claim, age=-_DAY)),
    "doubled": lambda claims, now: _send_claims([*claims, *claims], now),
    "strangers": _change_claims(lambda claim: attrs.evolve(claim, name=f"strange-{claim.name}")),
    "wrong labels": _change_claims(lambda claim: attrs.evolve(claim, prefix="exported_")),
    "error": lambda claims, now: (_ERROR, _send_claims(claims, now)[1]),
    "redirect": lambda claims, now: (_REDIRECT, _send_claims(claims, now)[1]),
    "truncated": lambda claims, now: (_OK, iter([b"".join(_send_claims(claims, now)[1])[:-4]])),
}
#: seconds until all lies and the slow response were sent
TOLD_AFTER = LASTS * len(LIES) + 40.0


class LyingPrometheus:
    """Fake Prometheus client (`Asker`): each kind of false response in turn, then slow responses,
    then none.
    """

    def __init__(self, hands: Hands, clock: Clock) -> None:
        self._hands, self._clock, self._lies = hands, clock, list(LIES.values())
        self._began: float | None = None

    async def ask(
        self,
        whom: LoadAware,
        queries: Mapping[str, str],
        seconds: float,
        most: int,
        then: Callable[[Answers], T],
    ) -> T:
        """Pass false query results, or an error, to the scheduler's decoder (`Asker.ask`)."""
        now = self._clock.monotonic()
        self._began = now if self._began is None else self._began
        turn = int((now - self._began) / LASTS)
        if turn >= len(self._lies):
            await self._clock.sleep(seconds if turn == len(self._lies) else 0.0)
            return then(
                dict.fromkeys(queries, Failure("no response before the deadline", unreachable=True))
            )
        lie = self._lies[turn]
        await self._clock.sleep(0.01)

        def send(request: "PreparedRequest", _timeout: float) -> "Response":
            return _build_response(
                request, *lie(self._make_claims(str(request.url)), self._clock.wall())
            )

        return then(ask_all(whom, queries, math.inf, most, _NOWHERE, send))

    def _make_claims(self, query: str) -> list[Claim]:
        """Return false measurements: too little CPU on an edge node with pods, and too little
        memory on another edge node.
        """
        pods = self._hands.list_pods()
        there = {str(pod["spec"].get("nodeName", "")) for pod in pods}
        short = "e1" if "e1" in there else "e2"
        of_pod, of_short, of_others = _CPU if "cpu" in query else _MEMORY
        names = [pod["metadata"]["name"] for pod in pods]
        nodes = [Claim(name, of_short if name == short else of_others) for name in ("e1", "e2")]
        return [*nodes, *(Claim(name, of_pod) for name in names)]


class _Body:
    """HTTP response body of the fake Prometheus, read in chunks as from a socket."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def read(self, _size: int) -> bytes:
        part = bytearray()
        for more in self._parts:
            part += more
            if len(part) >= _size:
                break
        return bytes(part)

    def close(self) -> None:
        """Do nothing: no socket is open."""


def _build_response(request: "PreparedRequest", status: int, parts: Iterator[bytes]) -> "Response":
    import requests  # noqa: PLC0415 - only for this workload

    response = requests.Response()
    response.status_code, response.request = status, request
    response.raw = _Body(parts)
    return response
