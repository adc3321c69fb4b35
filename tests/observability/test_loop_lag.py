"""How late the event loop is, measured and told."""

import asyncio

import attrs
import pytest
from prometheus_client import Histogram
from prometheus_client.registry import CollectorRegistry
from structlog.testing import capture_logs

from kubedsm.observability.instruments import SAMPLE, watch_the_loop
from kubedsm.process.clock import VirtualClock

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@attrs.define
class Late:
    """A clock whose sleeps last longer, each by the next of these."""

    lags: list
    clock: VirtualClock = attrs.field(factory=VirtualClock)

    def monotonic(self):
        return self.clock.monotonic()

    async def sleep(self, seconds):
        await asyncio.sleep(seconds + (self.lags.pop(0) if self.lags else 0.0))


async def watched(lags, seconds):
    registry = CollectorRegistry()
    lag = Histogram("lag", "lag", buckets=(0.01, 0.05, 0.5), registry=registry)
    with capture_logs() as logs:
        watching = asyncio.ensure_future(watch_the_loop(Late(lags), lag.observe))
        await asyncio.sleep(seconds)
        watching.cancel()
    counts = [
        registry.get_sample_value("lag_bucket", {"le": le}) for le in ("0.01", "0.05", "+Inf")
    ]
    return counts, [(line["milliseconds"], line["more"]) for line in logs]


async def test_lags_are_counted_and_the_long_ones_said_once_a_minute():
    assert await watched([], 100.5 * SAMPLE) == ([100, 100, 100], [])
    counts, said = await watched([0.04, 0.2, 0.6], 62.0)
    assert counts[1] - counts[0] == 1
    assert counts[2] - counts[1] == 2
    assert said == [(600, 0)]
    _, said = await watched([0.6, 0.55, 0.45] + [0.0] * 1300 + [0.7], 75.0)
    assert said == [(600, 0), (700, 1)]
