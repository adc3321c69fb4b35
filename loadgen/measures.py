"""Measurements of HTTP requests: a recorder, and the immutable values that the recorder returns.

Latencies are kept exactly, as a histogram would round percentiles. They take 16 bytes per request:
1.3 MB for the 80,000 of one of the paper's scenarios, 280 MB for a day at 200 a second.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import msgspec
import numpy as np
from numpy.typing import NDArray

from loadgen.arrivals import Arrival

TIMEOUT = "timeout"
#: distinct servers per service: a server that numbers its responses must not fill the memory
MOST_SERVERS = 1000


@attrs.frozen
class Outcome:
    """Result of one HTTP request: status or error, and times in seconds since the scenario's
    beginning.
    """

    arrival: Arrival
    ended: float
    #: HTTP status code; None together with an error classification
    status: int | None = None
    error: str | None = None
    #: identifier of the responding server, or empty
    served_by: str = ""

    @property
    def latency(self) -> float:
        """Return the seconds from the request's due time to its end, connection wait included."""
        return self.ended - self.arrival.due

    @property
    def failure(self) -> str | None:
        """Return the class of the error, such as timeout; None for a success."""
        if self.status is None:
            return self.error
        return f"HTTP {self.status}" if self.status >= 400 else None  # noqa: PLR2004 - RFC 9110

    @property
    def timed(self) -> bool:
        """Return whether the request's latency is included in the latency statistics.

        A timeout counts with its waiting duration: timeouts must not conceal a stall. Other errors
        are quick, and would lower the latencies.
        """
        return self.failure is None or self.error == TIMEOUT


class Latency(msgspec.Struct, frozen=True):
    """Latency statistics of requests in milliseconds: mean and nearest-rank percentiles."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, seconds: "array[float]") -> "Latency | None":
        """Summarise request latencies, given in seconds, as statistics in ms; None for no
        latencies.
        """
        if not seconds:
            return None
        ordered = np.sort(np.frombuffer(seconds))

        return cls(
            mean=_to_milliseconds(ordered.mean()),
            p50=_to_milliseconds(nearest_rank(ordered, 50)),
            p95=_to_milliseconds(nearest_rank(ordered, 95)),
            p99=_to_milliseconds(nearest_rank(ordered, 99)),
            max=_to_milliseconds(ordered[-1]),
        )


def nearest_rank(ordered: Sequence[float] | NDArray[np.float64], percent: int) -> float:
    """Return a percentile (1 to 100) of ascending values by nearest rank."""
    # -(-a // b) rounds up; in floats 99 % of 100 could be the 100th
    return float(ordered[-(-percent * len(ordered) // 100) - 1])


def _to_milliseconds(seconds: float) -> float:
    return round(1000 * float(seconds), 3)


class Served(msgspec.Struct, frozen=True):
    """Number and mean latency of the successful responses of one server."""

    answered: int
    #: milliseconds
    mean: float


@attrs.frozen
class Measures:
    """Request counts, errors, rates and latencies of one service, or of all services combined."""

    requests: int
    #: responses without error
    answered: int
    errors: Mapping[str, int]
    #: abandoned when the run was stopped
    unfinished: int
    #: requests per second: scheduled, and transmitted
    offered: float
    achieved: float
    latency: Latency | None
    #: by identifier in the responses
    servers: Mapping[str, Served]

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "answered": self.answered,
            "errors": dict(self.errors),
            "unfinished": self.unfinished,
            "offeredRate": round(self.offered, 3),
            "achievedRate": round(self.achieved, 3),
            "latencyMs": msgspec.to_builtins(self.latency),
            "servedBy": msgspec.to_builtins(self.servers),
        }


@attrs.frozen
class Results:
    #: completed seconds of the scenario
    seconds: float
    #: interrupted before completion
    interrupted: bool
    #: longest wait of an abandoned request
    oldest_unfinished: float
    services: Mapping[str, Measures]
    total: Measures
    #: delay of the generator itself: from due to queued; None in a closed loop, without schedule
    pacing: Latency | None

    def as_json(self) -> dict[str, Any]:
        pacing = self.pacing
        return {
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
            "oldestUnfinishedMs": _to_milliseconds(self.oldest_unfinished),
            "services": {name: measures.as_json() for name, measures in self.services.items()},
            "total": self.total.as_json(),
            "pacingMs": None if pacing is None else {"p99": pacing.p99, "max": pacing.max},
        }


@attrs.define
class _Tally:
    offered: int = 0
    begun: int = 0
    last_begun: float = 0.0
    answered: int = 0
    errors: Counter[str] = attrs.field(factory=Counter)
    unfinished: int = 0
    latencies: "array[float]" = attrs.field(factory=lambda: array("d"))
    #: number of responses and sum of latencies by server
    servers: dict[str, tuple[int, float]] = attrs.field(factory=dict)

    def serve(self, outcome: Outcome) -> None:
        """Count a response for the server that sent the response; at most MOST_SERVERS servers are
        distinguished.
        """
        name = outcome.served_by
        if name in self.servers or (name and len(self.servers) < MOST_SERVERS):
            answered, seconds = self.servers.get(name, (0, 0.0))
            self.servers[name] = answered + 1, seconds + outcome.latency


class RequestRecorder:
    """Counters of sent requests and responses; times are seconds since the scenario's beginning."""

    def __init__(
        self, services: Sequence[str], write: Callable[[Outcome], None] = lambda _: None
    ) -> None:
        """Create a recorder for the given services; `write` is called with the Outcome of each
        completed request.
        """
        self._tallies = {service: _Tally() for service in services}
        self._write = write
        self._lateness = array("d")
        self._oldest = 0.0
        self.offered = 0
        self.failed = 0

    def offer(self, arrival: Arrival, now: float | None = None) -> None:
        """Count a request. If it was scheduled, and queued at `now`, record the delay since its due
        time.
        """
        self.offered += 1
        self._tallies[arrival.service].offered += 1
        if now is not None:
            self._lateness.append(now - arrival.due)

    def begin(self, arrival: Arrival, now: float) -> None:
        """Count a request as sent at `now` (seconds since the scenario's beginning)."""
        tally = self._tallies[arrival.service]
        tally.begun += 1
        tally.last_begun = max(tally.last_begun, now)

    def end(self, outcome: Outcome) -> None:
        tally = self._tallies[outcome.arrival.service]
        if outcome.failure is None:
            tally.answered += 1
            tally.serve(outcome)
        else:
            tally.errors[outcome.failure] += 1
            self.failed += 1
        if outcome.timed:
            tally.latencies.append(outcome.latency)
        self._write(outcome)

    def abandon(self, arrival: Arrival, now: float) -> None:
        """Count a request that has no response yet when the load run is interrupted."""
        self._tallies[arrival.service].unfinished += 1
        self._oldest = max(self._oldest, now - arrival.due)

    def results(self, seconds: float, *, interrupted: bool) -> Results:
        """Return the measurements of all services, with rates per second over a run
        of `seconds`.
        """
        tallies = self._tallies.values()
        total = _Tally(
            offered=self.offered,
            begun=sum(tally.begun for tally in tallies),
            last_begun=max((tally.last_begun for tally in tallies), default=0.0),
            answered=sum(tally.answered for tally in tallies),
            errors=sum((tally.errors for tally in tallies), Counter()),
            unfinished=sum(tally.unfinished for tally in tallies),
        )
        for tally in tallies:
            total.latencies.extend(tally.latencies)
            for name, (answered, latency) in tally.servers.items():
                before = total.servers.get(name, (0, 0.0))
                total.servers[name] = before[0] + answered, before[1] + latency
        return Results(
            seconds=seconds,
            interrupted=interrupted,
            oldest_unfinished=self._oldest,
            services={
                name: _make_measures(tally, seconds) for name, tally in self._tallies.items()
            },
            total=_make_measures(total, seconds),
            pacing=Latency.of(self._lateness),
        )


def _make_measures(tally: _Tally, seconds: float) -> Measures:
    taken = max(seconds, tally.last_begun)
    return Measures(
        requests=tally.offered,
        answered=tally.answered,
        errors=dict(sorted(tally.errors.items())),
        unfinished=tally.unfinished,
        offered=tally.offered / seconds if seconds else 0.0,
        achieved=tally.begun / taken if taken else 0.0,
        latency=Latency.of(tally.latencies),
        servers={
            name: Served(answered, _to_milliseconds(seconds / answered))
            for name, (answered, seconds) in sorted(tally.servers.items())
        },
    )
