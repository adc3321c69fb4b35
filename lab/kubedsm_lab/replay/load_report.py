"""What loadgen measured (docs/loadgen.md), as the answers that a recorded run is judged by."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import attrs
import msgspec

from kubedsm.config.documents import DocumentError, content, json_as, reading
from kubedsm.model.model import Tier
from kubedsm_lab.replay.measures import Answers, ResponseTimes


class _Latency(msgspec.Struct, frozen=True):
    mean: float
    p95: float


class _Served(msgspec.Struct, frozen=True):
    answered: int
    mean: float


class _Service(msgspec.Struct, frozen=True, rename="camel"):
    requests: int
    answered: int
    latency_ms: _Latency | None
    served_by: dict[str, _Served]


class _Document(msgspec.Struct, frozen=True):
    began: datetime
    seconds: float
    services: dict[str, _Service]
    total: _Service


@attrs.frozen
class LoadReport:
    #: seconds since the epoch, by the clock of where the load came from
    began: float
    ended: float
    _document: _Document

    def answers(self, tier_of: Callable[[str], Tier | None]) -> Answers:
        """tier_of: where the one is that an answer says it is from, if that is known."""
        services = self._document.services
        return Answers(
            {name: _times(service) for name, service in services.items() if service.requests},
            _times(self._document.total),
            self._document.total.requests - self._document.total.answered,
            {
                name: means
                for name, service in services.items()
                if (means := _by_tier(service, tier_of))
            },
        )


def read(path: Path) -> LoadReport:
    """What `loadgen run -o json` printed into the file. Raises DocumentError."""
    with reading(path):
        document = json_as(content(path), _Document)
        if document.began.tzinfo is None:
            raise DocumentError("no time zone", ("began",))
    began = document.began.timestamp()
    return LoadReport(began, began + document.seconds, document)


def _times(service: _Service) -> ResponseTimes:
    latency = service.latency_ms
    if latency is None:
        return ResponseTimes()
    return ResponseTimes(latency.mean / 1000, latency.p95 / 1000)


def _by_tier(service: _Service, tier_of: Callable[[str], Tier | None]) -> dict[Tier, float]:
    """Mean seconds of the answers that say who gave them."""
    answered, seconds = dict.fromkeys(Tier, 0), dict.fromkeys(Tier, 0.0)
    for name, served in service.served_by.items():
        tier = tier_of(name)
        if tier is not None:
            answered[tier] += served.answered
            seconds[tier] += served.answered * served.mean / 1000
    return {tier: seconds[tier] / answered[tier] for tier in Tier if answered[tier]}
