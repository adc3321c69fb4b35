"""Open and closed loop, in virtual time: who is sent when, and what is counted as what."""

import asyncio
from array import array
from contextlib import asynccontextmanager
from itertools import chain

import pytest

from loadgen import measures
from loadgen.arrivals import Arrival, schedule
from loadgen.driver import Clients, ClosedLoop, Driver, Limits, ScenarioLoop
from loadgen.measures import Latency, Outcome, RequestRecorder
from loadgen.playing import outcomes_file
from loadgen.scenario import Api, Interval, Scenario
from loadgen.sending import report
from loadgen.transport import Answer, TransportError
from support.printed import printed

pytestmark = pytest.mark.looptime(idle_timeout=None)


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
    driver = Driver(schedule(scenario), urls, transport, recorder, Limits(**limits))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    transport.started = loop.time()
    if stop_after is not None:
        loop.call_later(stop_after, stop.set)
    await driver.drive(stop)
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


def milliseconds(*values):
    return array("d", (value / 1000 for value in values))


def test_percentiles_are_by_nearest_rank():
    latency = Latency.of(milliseconds(*range(100, 0, -1)))
    assert (latency.mean, latency.max) == (50.5, 100)
    assert (latency.p50, latency.p95, latency.p99) == (50, 95, 99)


@pytest.mark.parametrize(("count", "p99"), [(1, 1), (99, 99), (100, 99), (101, 100), (200, 198)])
def test_ranks_round_up(count, p99):
    assert Latency.of(milliseconds(*range(1, count + 1))).p99 == p99


def test_the_total_is_over_all_requests_not_over_services():
    recorder = RequestRecorder(["a", "b"])
    for service, count, latency in (("a", 3, 0.01), ("b", 1, 0.05)):
        for _ in range(count):
            arrival = Arrival(1.0, service)
            recorder.offer(arrival, 1.0)
            recorder.begin(arrival, 1.0)
            recorder.end(Outcome(arrival, 1.0 + latency, status=200))
    results = recorder.results(2.0, interrupted=False)
    assert results.total.latency == Latency(mean=20, p50=10, p95=50, p99=50, max=50)
    assert results.total.offered == 2
    assert results.services["b"].latency.mean == 50


def test_a_server_whose_name_is_no_text_is_written_escaped(tmp_path):
    path = tmp_path / "rows.csv"
    with outcomes_file(path) as write:
        write(
            Outcome(
                Arrival(1.0, "a"), 1.5, 200, served_by=b"p\xff".decode(errors="surrogateescape")
            )
        )
    assert path.read_text().splitlines()[1] == r"a,1.000000,500.000,200,,p\udcff"


def test_servers_that_say_who_they_are_are_told_apart(monkeypatch):
    monkeypatch.setattr(measures, "MOST_SERVERS", 2)
    recorder = RequestRecorder(["a", "b"])
    recorder.end(Outcome(Arrival(1.0, "b"), 1.5, 200, served_by="x"))
    ends = [("x", 0.1, 200), ("y", 0.3, 200), ("x", 0.3, 200), ("x", 9.0, 503), ("", 0.1, 200)]
    for name, latency, status in [*ends, ("z", 0.1, 200), ("y", 0.1, 200)]:
        recorder.end(Outcome(Arrival(1.0, "a"), 1.0 + latency, status, served_by=name))
    found = recorder.results(2.0, interrupted=False).as_json()
    served = {"x": {"answered": 2, "mean": 200.0}, "y": {"answered": 2, "mean": 200.0}}
    assert found["services"]["a"]["servedBy"] == served
    assert found["total"]["servedBy"] == served | {"x": {"answered": 3, "mean": 300.0}}


def lines(results):
    return [str(part) for part in report(results, "x").renderables[1:]]


def test_the_report_says_what_went_wrong_and_else_is_short():
    recorder = RequestRecorder(["a"])
    for late, error in ((0.0, None), (0.5, "timeout"), (0.0, "timeout")):
        arrival = Arrival(1.0, "a")
        recorder.offer(arrival, 1.0 + late)
        recorder.end(Outcome(arrival, 2.0, None if error else 200, error))
    recorder.abandon(Arrival(1.0, "a"), 3.5)
    wrong, stopped, unanswered, pacing, advice = lines(recorder.results(4.0, interrupted=True))
    assert wrong == "a: 2 timeout"
    assert stopped == "Stopped after 4.0 s."
    assert unanswered == (
        "Requests without an answer when the run was stopped: 1, the oldest for 2.5 s; no latency"
        " above contains them."
    )
    assert pacing.endswith("within 500.0 ms of when they were due, all within 500.0 ms.")
    assert advice == "So the generator itself was late; latencies include its delay."
    recorder = RequestRecorder(["a"])
    arrival = Arrival(1.0, "a")
    recorder.offer(arrival, 1.0)
    recorder.end(Outcome(arrival, 1.05, 200))
    (pacing,) = lines(recorder.results(1.0, interrupted=False))
    assert pacing.startswith("Pacing: ")


def test_the_table_has_a_line_for_each_service_and_one_for_all():
    recorder = RequestRecorder(["a", "b"])
    arrival = Arrival(1.0, "a")
    recorder.offer(arrival, 1.0)
    recorder.begin(arrival, 1.0)
    recorder.end(Outcome(arrival, 1.0625, 200))
    said = printed(report(recorder.results(2.0, interrupted=False), "x.json"), 80)
    rows = [line.split() for line in said.splitlines()]
    assert rows[0][0] == "x.json"
    headings = "service requests errors offered achieved mean p50 p95 p99 max"
    assert [row for row in rows if len(row) == len(headings.split())] == [
        headings.split(),
        ["a", "1", "0", "0.50", "0.50", *["62.5"] * 5],
        ["b", "0", "0", "0.00", "0.00", *["-"] * 5],
        ["all", "1", "0", "0.50", "0.50", *["62.5"] * 5],
    ]


class Service:
    """Has a connection for each client; client n gets its answers after `delay(n)` seconds."""

    def __init__(self, delay, answer=lambda _: 200):
        self.delay, self.answer, self.clients = delay, answer, []

    @asynccontextmanager
    async def connect(self):
        number = len(self.clients)
        client = FakeTransport(lambda _: self.delay(number), self.answer)
        client.started = asyncio.get_running_loop().time()
        self.clients.append(client)
        yield client

    @property
    def sent(self):
        """Return when each client sent its requests."""
        return [[at for at, _ in client.sent] for client in self.clients]


async def closed(service, clients, *, stop_after=None):
    outcomes, stop = [], asyncio.Event()
    recorder = RequestRecorder(["http://a/"], outcomes.append)
    if stop_after is not None:
        asyncio.get_running_loop().call_later(stop_after, stop.set)
    loop = ClosedLoop("http://a/", service.connect, recorder, clients)
    await loop.drive(stop)
    assert not any(client.under_way for client in service.clients)
    return loop, outcomes, recorder.results(clients.seconds, interrupted=stop.is_set()).total


async def test_each_client_sends_its_next_request_when_it_has_an_answer():
    service = Service(lambda number: (0.1, 0.25)[number])
    _, outcomes, total = await closed(service, Clients(2, 1.0))
    first, second = service.sent
    assert first == pytest.approx([n * 0.1 for n in range(10)])
    assert second == pytest.approx([0.0, 0.25, 0.5, 0.75])
    assert (total.requests, total.answered) == (14, 14)
    assert sorted({round(outcome.latency, 6) for outcome in outcomes}) == [0.1, 0.25]


async def test_requests_under_way_at_the_end_count_and_those_at_a_stop_are_abandoned():
    loop, _, total = await closed(Service(lambda _: 0.7), Clients(3, 1.0))
    assert (total.requests, total.answered, total.unfinished) == (6, 6, 0)
    assert loop.elapsed == pytest.approx(1.4)
    service = Service(lambda _: 0.4)
    loop, _, total = await closed(service, Clients(2, 10.0), stop_after=1.0)
    assert loop.elapsed == pytest.approx(1.0)
    assert (total.requests, total.answered, total.unfinished) == (6, 4, 2)


async def test_a_request_is_given_up_after_the_timeout_and_the_next_one_sent():
    service = Service(lambda _: 60.0)
    loop, outcomes, total = await closed(service, Clients(1, 20.0, timeout=15.0))
    assert service.sent == [[0.0, 15.0]]
    assert total.errors == {"timeout": 2}
    assert [outcome.latency for outcome in outcomes] == [15.0, 15.0]
    assert loop.elapsed == pytest.approx(30.0)


async def test_who_gets_no_answer_or_may_not_sends_no_more_than_that():
    service = Service(lambda _: 0.0, lambda _: "connection refused")
    _, _, total = await closed(service, Clients(1, 1.0))
    assert total.errors == {"connection refused": 10}
    service = Service(lambda _: 0.0)
    await closed(service, Clients(4, 2.0, max_rate=10.0))
    assert sorted(chain(*service.sent)) == pytest.approx([n / 10 for n in range(20)])
    slow = Service(lambda _: 1.0 if slow.sent == [[0.0]] else 0.0)
    await closed(slow, Clients(1, 2.0, max_rate=10.0))
    assert slow.sent == [pytest.approx([0.0, *(1 + n / 10 for n in range(10))])]


async def test_a_service_of_a_scenario_has_one_client_that_waits_as_under_drstress():
    """One request a period at most; a late response delays the next interval."""
    transport = FakeTransport(lambda _: 0.1 if transport.sent[-1][1] == "http://a/" else 0.8)
    transport.started = asyncio.get_running_loop().time()
    intervals = (Interval(500, 2000), Interval(1000, 2500))
    scenario = Scenario(tuple(Api(name, f"http://{name}/", intervals) for name in "ab"))
    urls = {api.name: api.endpoint for api in scenario.apis}
    loop = ScenarioLoop(scenario, urls, transport, RequestRecorder(["a", "b"]), timeout=5.0)
    await loop.drive(asyncio.Event())
    at = {api: [moment for moment, url in transport.sent if url == urls[api]] for api in urls}
    assert at["a"] == pytest.approx([0.5, 1.0, 1.5, 3.0, 4.0])
    # The second response, at 2.1 s, begins the next interval.
    assert at["b"] == pytest.approx([0.5, 1.3, 3.1, 4.1])
    assert loop.elapsed == pytest.approx(4.9)
