"""Queues that can be worked out by hand, and every other one beside a plain simulation."""

import heapq
import math
import random

import numpy as np
import pytest

from kubedsm_lab.replay.workload_model import BlockingClient, Endpoint, Server, due_times, respond
from loadgen.scenario import Api, Interval
from support.drawing import drawn_cases

ALWAYS = ((0.0, math.inf),)
EDGE, CLOUD = 0.02, 0.08


def times(due, endpoints, server, end=100.0, seed=0):
    found = respond(np.array(due, dtype=float), endpoints, server, end, random.Random(seed))
    return found.times.round(9).tolist()


def simulated(due, chosen, entered, endpoints, server):
    """One request after the other, each pod a heap of the moments when its servers are free."""
    free = [[0.0] * server.concurrency for _ in endpoints]
    answers = []
    for moment, index, entry in zip(due, chosen, entered, strict=True):
        half = endpoints[index].network / 2
        start = max(entry + half, heapq.heappop(free[index]))
        heapq.heappush(free[index], start + server.service_time)
        answers.append(start + server.service_time + half - moment)
    return answers


@pytest.mark.parametrize("seed", drawn_cases(range(30)))
def test_random_instances_beside_a_simulation(seed):
    rng = random.Random(seed)
    server = Server(rng.randint(1, 4), rng.uniform(0.02, 0.5))
    endpoints = [
        Endpoint(rng.choice((EDGE, CLOUD)), ((start := rng.uniform(0, 20), start + 15),))
        for _ in range(rng.randint(1, 5))
    ]
    due = sorted(rng.uniform(0, 40) for _ in range(300))
    draws = random.Random(seed + 1000)
    chosen, entered, kept = [], [], []
    for moment in due:
        draw = draws.random()
        entry = min(
            (max(moment, a) for e in endpoints for a, b in e.served if max(moment, a) < b),
            default=None,
        )
        if entry is None:
            continue
        ready = [i for i, e in enumerate(endpoints) if any(a <= entry < b for a, b in e.served)]
        kept.append(moment)
        entered.append(entry)
        chosen.append(ready[int(draw * len(ready))])
    found = respond(np.array(due), endpoints, server, 40.0, random.Random(seed + 1000))
    assert found.unanswered == len(due) - len(kept)
    expected = simulated(kept, chosen, entered, endpoints, server)
    assert found.times[: len(kept)].tolist() == pytest.approx(expected)
    unanswered = [40.0 - moment for moment in due[len(kept) :]]
    assert found.times[len(kept) :].tolist() == pytest.approx(unanswered)


def test_requests_are_due_one_period_after_the_other():
    api = Api("a", "/", (Interval(500, 2000), Interval(3000, 2000), Interval(1000, 2000)))
    assert due_times(api).tolist() == [0.5, 1.0, 1.5, 2.0, 5.0, 6.0]


def client(intervals, server, seed=0):
    api = Api("a", "http://a/", tuple(Interval(period, length) for period, length in intervals))
    return BlockingClient(api, server, random.Random(seed))


def test_a_client_waits_for_each_response():
    """One request a period, or one a response if that takes longer; none after the interval."""
    quick = client([(500, 2000)], Server(1, 0.1)).answers(9.0, [Endpoint(0.2, ALWAYS)])
    assert quick.times.tolist() == pytest.approx([0.3] * 3)  # at 0.5, 1, 1.5
    slow = client([(500, 3100)], Server(1, 0.6)).answers(9.0, [Endpoint(0.2, ALWAYS)])
    assert slow.times.tolist() == pytest.approx([0.8] * 4)  # at 0.5, 1.3, 2.1, 2.9
    # The last response, at 3.7 s, begins the next interval.
    asked = client([(500, 3100), (1000, 1500)], Server(1, 0.6))
    assert len(asked.answers(9.0, [Endpoint(0.2, ALWAYS)]).times) == 5
    assert asked.measure_rate(4.9, []) == pytest.approx(5 / 15)


def test_a_client_without_an_endpoint_waits_for_the_first():
    late = [Endpoint(0.0, ((0.0, 0.2), (1.4, math.inf)))]
    found = client([(500, 2000)], Server(1, 0.1)).answers(9.0, late)
    assert found.times.tolist() == pytest.approx([1.0, 0.1])  # at 0.5 and 1.5
    never = client([(500, 2000)], Server(1, 0.1)).answers(9.0, [])
    assert (never.times.tolist(), never.unanswered) == ([8.5], 1)


@pytest.mark.parametrize("seed", drawn_cases(range(12)))
def test_a_client_is_a_plain_loop_however_often_its_rate_is_measured(seed):
    rng = random.Random(seed)
    spans = [(rng.uniform(0, 20), rng.uniform(1, 20)) for _ in range(4)]
    endpoints = [
        Endpoint(rng.choice((EDGE, CLOUD, 0.4)), ((a, a + b), (a + b + 1, math.inf)))
        for a, b in spans
    ]
    # an odd length, so that no request is due in the moment of an end, but for rounding
    intervals = [(rng.choice((20, 70, 300, 9000)), 5003) for _ in range(6)]
    server = Server(1, rng.choice((0.005, 0.1)))
    whole = client(intervals, server, seed).answers(100.0, endpoints)
    measured = client(intervals, server, seed)
    for moment in sorted(rng.uniform(0, 40) for _ in range(9)):
        measured.measure_rate(moment, endpoints)
    expected = pytest.approx(whole.times.tolist())
    assert measured.answers(100.0, endpoints).times.tolist() == expected
    assert plain_loop(intervals, endpoints, server, seed) == expected


def plain_loop(intervals, endpoints, server, seed):
    """The times of DrStress' requests, one after the other."""
    rng, now, times = random.Random(seed), 0.0, []
    for period, length in intervals:
        timer, end = now + period / 1000, now + length / 1000
        while timer < end:
            entered = timer
            while not (ready := [e for e in endpoints if is_ready(e, entered)]):
                entered = min(a for e in endpoints for a, _ in e.served if a > entered)
            network = ready[int(rng.random() * len(ready))].network
            times.append(entered - timer + network + server.service_time)
            now = timer + times[-1]
            timer = max(timer + period / 1000, now)
        now = max(now, end)
    return times


def is_ready(endpoint, moment):
    return any(a <= moment < b for a, b in endpoint.served)
