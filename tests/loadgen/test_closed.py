"""Closed loop, in virtual time: who sends when, and what is counted as what."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from loadgen.driver import Clients, ClosedLoop, ScenarioLoop
from loadgen.measures import RequestRecorder
from loadgen.scenario import Api, Interval, Scenario
from loadgen.transport import Answer, TransportError

pytestmark = pytest.mark.looptime(idle_timeout=None)


class Service:
    """Answers client n after `delay(n)` seconds with what `answer(n)` says."""

    def __init__(self, delay=lambda _: 0.1, answer=lambda _: 200):
        self.delay, self.answer = delay, answer
        self.sent, self.open, self.opened = [], 0, 0
        self.began = asyncio.get_running_loop().time()

    @asynccontextmanager
    async def connect(self):
        number, self.opened = self.opened, self.opened + 1
        self.open += 1
        try:
            yield Connection(self, number)
        finally:
            self.open -= 1


class Connection:
    def __init__(self, service, number):
        self.service, self.number = service, number

    async def contact(self, url):
        raise AssertionError("clients contact nobody")

    async def get(self, url):
        now = asyncio.get_running_loop().time() - self.service.began
        self.service.sent.append((round(now, 6), self.number))
        await asyncio.sleep(self.service.delay(self.number))
        answer = self.service.answer(self.number)
        if isinstance(answer, str):
            raise TransportError(answer)
        return Answer(answer)


async def driven(service, clients, *, stop_after=None):
    outcomes, stop = [], asyncio.Event()
    recorder = RequestRecorder(["http://a/"], outcomes.append)
    if stop_after is not None:
        asyncio.get_running_loop().call_later(stop_after, stop.set)
    loop = ClosedLoop("http://a/", service.connect, recorder, clients)
    await loop.drive(stop)
    return loop, outcomes, recorder.results(clients.seconds, interrupted=stop.is_set()).total


async def test_each_client_sends_its_next_request_when_it_has_an_answer():
    service = Service(lambda number: (0.1, 0.25)[number])
    _, outcomes, total = await driven(service, Clients(2, 1.0))
    by_client = [[at for at, number in service.sent if number == n] for n in (0, 1)]
    assert by_client[0] == pytest.approx([n * 0.1 for n in range(10)])
    assert by_client[1] == pytest.approx([0.0, 0.25, 0.5, 0.75])
    assert (total.requests, total.answered) == (14, 14)
    assert sorted({round(outcome.latency, 6) for outcome in outcomes}) == [0.1, 0.25]
    assert (service.opened, service.open) == (2, 0)


async def test_requests_under_way_at_the_end_count_and_those_at_a_stop_are_abandoned():
    loop, _, total = await driven(Service(lambda _: 0.7), Clients(3, 1.0))
    assert (total.requests, total.answered, total.unfinished) == (6, 6, 0)
    assert loop.elapsed == pytest.approx(1.4)
    service = Service(lambda _: 0.4)
    loop, _, total = await driven(service, Clients(2, 10.0), stop_after=1.0)
    assert loop.elapsed == pytest.approx(1.0)
    assert (total.requests, total.answered, total.unfinished) == (6, 4, 2)
    assert service.open == 0


async def test_a_request_is_given_up_after_the_timeout_and_the_next_one_sent():
    service = Service(lambda _: 60.0)
    loop, outcomes, total = await driven(service, Clients(1, 20.0, timeout=15.0))
    assert [at for at, _ in service.sent] == [0.0, 15.0]
    assert total.errors == {"timeout": 2}
    assert [outcome.latency for outcome in outcomes] == [15.0, 15.0]
    assert loop.elapsed == pytest.approx(30.0)


async def test_who_gets_no_answer_or_may_not_sends_no_more_than_that():
    service = Service(lambda _: 0.0, lambda _: "connection refused")
    _, _, total = await driven(service, Clients(1, 1.0))
    assert total.errors == {"connection refused": 10}
    service = Service(lambda _: 0.0)
    await driven(service, Clients(4, 2.0, max_rate=10.0))
    assert [at for at, _ in service.sent] == pytest.approx([n / 10 for n in range(20)])
    slow = Service(lambda _: 1.0 if slow.sent[1:] == [] else 0.0)
    await driven(slow, Clients(1, 2.0, max_rate=10.0))
    assert [at for at, _ in slow.sent] == pytest.approx([0.0, *(1 + n / 10 for n in range(10))])


async def test_a_service_of_a_scenario_has_one_client_that_waits_as_under_drstress():
    """One request a period at most; a late response delays the next interval."""
    service = Service(lambda number: (0.1, 0.8)[number])
    connections = {"http://a/": Connection(service, 0), "http://b/": Connection(service, 1)}

    class Both:
        async def get(self, url):
            return await connections[url].get(url)

    intervals = (Interval(500, 2000), Interval(1000, 2500))
    scenario = Scenario(tuple(Api(name, f"http://{name}/", intervals) for name in "ab"))
    outcomes, urls = [], {api.name: api.endpoint for api in scenario.apis}
    recorder = RequestRecorder(["a", "b"], outcomes.append)
    loop = ScenarioLoop(scenario, urls, Both(), recorder, timeout=5.0)
    await loop.drive(asyncio.Event())
    at = [[moment for moment, number in service.sent if number == n] for n in (0, 1)]
    assert at[0] == pytest.approx([0.5, 1.0, 1.5, 3.0, 4.0])
    # The second response, at 2.1 s, begins the next interval.
    assert at[1] == pytest.approx([0.5, 1.3, 3.1, 4.1])
    assert loop.elapsed == pytest.approx(4.9)
