"""Open loop, in virtual time: who is sent when, and what is counted as what."""

import asyncio

import pytest

from loadgen.arrivals import schedule
from loadgen.driver import Driver, Limits
from loadgen.measures import RequestRecorder
from loadgen.scenario import Api, Interval, Scenario
from loadgen.transport import Answer, TransportError

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime(idle_timeout=None)]


class FakeTransport:
    """Answers after `delay(now)` seconds with what `answer(now)` says: a status or an error."""

    def __init__(self, delay=lambda _: 0.05, answer=lambda _: 200):
        self.delay = delay
        self.answer = answer
        self.sent = []
        self.under_way = 0
        self.most_under_way = 0

    async def contact(self, url):
        raise AssertionError("the driver contacts nobody")

    async def get(self, url):
        loop = asyncio.get_running_loop()
        now = loop.time() - self.started
        self.sent.append((now, url))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(self.delay(now))
        finally:
            self.under_way -= 1
        answer = self.answer(now)
        if isinstance(answer, str):
            raise TransportError(answer)
        return Answer(answer, f"pod-{self.under_way}")


def steady(rate, seconds, name="a"):
    return Api(name, f"http://{name}/", (Interval.of(rate, seconds),))


async def driven(transport, *apis, stop_after=None, outcomes=None, **limits):
    scenario = Scenario(apis)
    recorder = RequestRecorder(
        scenario.services, (lambda _: None) if outcomes is None else outcomes.append
    )
    urls = {api.name: api.endpoint for api in apis}
    driver = Driver(urls, transport, recorder, Limits(**limits))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    transport.started = loop.time()
    if stop_after is not None:
        loop.call_later(stop_after, stop.set)
    await driver.drive(schedule(scenario), stop)
    seconds = driver.elapsed if stop.is_set() else scenario.duration
    return recorder.results(seconds, interrupted=stop.is_set())


async def test_every_request_goes_to_its_endpoint_when_it_is_due():
    transport = FakeTransport()
    results = await driven(transport, steady(4, 1), steady(2, 1, "b"))
    assert [(round(at, 3), url) for at, url in transport.sent] == [
        (0.25, "http://a/"),
        (0.5, "http://a/"),
        (0.5, "http://b/"),
        (0.75, "http://a/"),
        (1.0, "http://a/"),
        (1.0, "http://b/"),
    ]
    a, b = results.services["a"], results.services["b"]
    assert (a.requests, a.answered, a.errors, a.unfinished) == (4, 4, {}, 0)
    assert (a.offered, b.offered, results.total.offered) == (4, 2, 6)
    assert (a.achieved, b.achieved, results.total.achieved) == pytest.approx((4, 2, 6))
    assert a.latency.mean == a.latency.p50 == a.latency.max == pytest.approx(50, abs=0.01)
    assert results.pacing.max == pytest.approx(0, abs=0.01)


async def test_a_slow_server_does_not_slow_the_load_and_a_stall_shows_for_everybody():
    transport = FakeTransport(delay=lambda _: 10.0)
    results = await driven(transport, steady(80, 3))
    assert [at for at, _ in transport.sent] == pytest.approx([n / 80 for n in range(1, 241)])
    assert transport.most_under_way == 240
    assert results.total.achieved == pytest.approx(80)
    stalled = FakeTransport(delay=lambda now: 0.05 + (max(0.0, 15 - now) if now >= 10 else 0.0))
    results = await driven(stalled, steady(200, 30))
    # 1000 of 6000 requests wait for 5 s to 0 s: the last hundredth for 4.7 s and more.
    assert results.total.latency.p99 == pytest.approx(4750, abs=20)
    assert results.total.latency.max == pytest.approx(5050, abs=20)
    assert results.total.latency.p50 == pytest.approx(50, abs=1)
    assert results.total.achieved == pytest.approx(200, rel=0.01)


async def test_a_request_that_waits_for_a_connection_counts_from_when_it_was_due():
    # Ten a second, each takes 0.2 s, one at a time: the n-th begins at 0.1 + 0.2 (n - 1).
    transport = FakeTransport(delay=lambda _: 0.2)
    outcomes = []
    results = await driven(transport, steady(10, 1), outcomes=outcomes, max_connections=1)
    assert transport.most_under_way == 1
    assert [round(outcome.latency, 6) for outcome in outcomes] == [
        round(0.2 + 0.1 * waiting, 6) for waiting in range(10)
    ]
    assert results.total.latency.max == pytest.approx(1100)
    assert results.total.offered == 10
    assert results.total.achieved == pytest.approx(10 / 1.9)


async def test_a_timeout_counts_from_when_it_was_due_whether_sent_or_not():
    transport = FakeTransport(delay=lambda _: 60.0)
    outcomes = []
    results = await driven(
        transport, steady(10, 1), outcomes=outcomes, max_connections=2, timeout=0.45
    )
    assert results.total.errors == {"timeout": 10}
    assert results.total.answered == 0
    assert [outcome.ended for outcome in outcomes] == pytest.approx(
        [0.1 * number + 0.45 for number in range(1, 11)]
    )
    assert results.total.latency.p50 == results.total.latency.max == pytest.approx(450)
    # Both are due at 1 s, one connection; the first one keeps it until both are over.
    transport = FakeTransport(delay=lambda _: 60.0)
    apis = (steady(1, 1), steady(1, 1, "b"))
    results = await driven(transport, *apis, max_connections=1, timeout=0.25)
    assert [url for _, url in transport.sent] == ["http://a/"]
    assert results.services["b"].errors == {"timeout": 1}
    assert results.services["b"].latency.max == pytest.approx(250)
    assert results.services["b"].achieved == 0


async def test_errors_are_counted_by_kind_and_quick_ones_do_not_flatter_the_latency():
    answers = iter([200, 503, "connection refused", 404, 301, "connection refused", 200, 200])
    transport = FakeTransport(
        delay=lambda now: 0.001 if 0.2 <= now < 0.45 else 0.05, answer=lambda _: next(answers)
    )
    results = await driven(transport, steady(8, 1))
    total = results.total
    assert total.errors == {"HTTP 404": 1, "HTTP 503": 1, "connection refused": 2}
    assert (total.requests, total.answered) == (8, 4)
    assert total.latency.mean == total.latency.p50 == pytest.approx(50, abs=0.01)


async def test_a_stop_gives_the_results_so_far():
    transport = FakeTransport(delay=lambda now: 0.05 if now < 2 else 3600.0)
    results = await driven(transport, steady(10, 3600), stop_after=3.05, max_connections=5)
    assert transport.under_way == 0
    assert results.interrupted
    assert results.seconds == pytest.approx(3.05)
    assert results.total.requests == 30
    assert results.total.answered == 19
    assert results.total.unfinished == 11
    assert results.oldest_unfinished == pytest.approx(1.05)
    assert results.total.offered == pytest.approx(30 / 3.05)
    assert results.total.latency.max == pytest.approx(50, abs=0.01)
    transport = FakeTransport(delay=lambda _: 20.0)
    results = await driven(transport, steady(10, 1), stop_after=5)
    assert (results.total.requests, results.total.unfinished) == (10, 10)


async def test_what_the_outcomes_cannot_be_written_to_ends_the_run():
    class Full(list):
        def append(self, outcome):
            raise OSError("no space")

    transport = FakeTransport()
    with pytest.raises(ExceptionGroup) as failed:
        await driven(transport, steady(10, 3600), outcomes=Full())
    assert failed.group_contains(OSError, match="no space")
    assert transport.under_way == 0
