"""Arrival schedule of a scenario's requests, fixed before the first request is sent."""

import heapq
import itertools
import math
import random
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from loadgen.scenario import Api, Interval, Scenario

Arrivals: TypeAlias = Literal["uniform", "poisson"]

#: relative floating-point error of a period that fills its interval a whole number of times
ROUNDING = 1e-9


class Arrival(NamedTuple):
    #: seconds since the beginning of the scenario
    due: float
    service: str


def schedule(
    scenario: Scenario, arrivals: Arrivals = "uniform", seed: int = 0
) -> Iterator[Arrival]:
    """Yield the scheduled requests of all services in the scenario, ordered by due time.

    `uniform` is DrStress's: one request per period, the first one period after the interval's
    start. `poisson` has the same mean rate and exponential gaps, as for independent users; the
    draws depend only on the seed and the service's name. The schedule is computed lazily, without
    memory per request.
    """
    return heapq.merge(*(_schedule_service(api, arrivals, seed) for api in scenario.apis))


def _schedule_service(api: Api, arrivals: Arrivals, seed: int) -> Iterator[Arrival]:
    rng = random.Random(f"{seed}/{api.name}")
    starts = itertools.chain([0.0], api.ends)
    for start, interval in zip(starts, api.intervals, strict=False):
        offsets = _list_uniform(interval) if arrivals == "uniform" else _draw_poisson(interval, rng)
        for offset in offsets:
            yield Arrival(start + offset / 1000, api.name)


def _list_uniform(interval: Interval) -> Iterator[float]:
    last = interval.cycle_length * (1 + ROUNDING)
    for number in itertools.count(1):
        offset = number * interval.api_call_period
        if offset > last:
            return
        yield min(offset, interval.cycle_length)


def _draw_poisson(interval: Interval, rng: random.Random) -> Iterator[float]:
    if interval.rate == 0:
        return
    offset = 0.0
    while True:
        offset -= interval.api_call_period * math.log(1 - rng.random())
        if offset > interval.cycle_length:
            return
        yield offset
