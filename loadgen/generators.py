"""Generators of load scenarios, as in the KubeDSM paper: normally distributed demand, or waves of
one service after another.
"""

import math
import random
from collections.abc import Collection, Iterable, Mapping

from kubedsm.terminal.problems import Problem
from loadgen.scenario import Api, Interval, Scenario

#: requests per second and replica
REQUESTS_PER_REPLICA = 5
#: replica boundaries of the HorizontalPodAutoscaler in the paper's configuration
LEAST_REPLICAS, MOST_REPLICAS = 1, 10

_MI = 2**20
#: cores and bytes requested by one replica of each of the paper's services
PAPER_REQUESTS: Mapping[str, Mapping[str, float]] = {
    "a": {"cpu": 1, "memory": 950 * _MI},
    "b": {"cpu": 1, "memory": 1900 * _MI},
    "c": {"cpu": 1, "memory": 950 * _MI},
    "d": {"cpu": 2, "memory": 1900 * _MI},
}
#: capacity of the paper's three edge nodes, each without a reservation of 1 core and 1 GB
PAPER_EDGE_TOTAL: Mapping[str, float] = {"cpu": 13, "memory": 11e9}


#: the paper's edge and cloud, less 1 core and 1 GB per node, less 2 cores and 2 GB that its
#: generator leaves free in a wavy scenario
PAPER_CLUSTER_TOTAL: Mapping[str, float] = {"cpu": 13 + 21 - 2, "memory": 11e9 + 16e9 - 2e9}
#: cycles of the shortest oscillation: base, peak, base
SHORTEST_WAVE = 3


class GeneratorError(Problem, ValueError):
    """Error: a parameter of a scenario generator is invalid."""


def coefficients(
    edge_total: Mapping[str, float], requests: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Return the number of replicas of each service that fills an equal part of the edge nodes'
    capacity.

    The mean over resources of total / number of services / request. `edge_total` and the requests
    are in the same units, by resource; every request is above 0.
    Source: the scenario generator that the KubeDSM paper (arXiv 2501.07130) evaluates with.
    """
    return {
        service: sum(
            edge_total[resource] / len(requests) / amount for resource, amount in needs.items()
        )
        / len(needs)
        for service, needs in requests.items()
    }


PAPER_COEFFICIENTS: Mapping[str, float] = coefficients(PAPER_EDGE_TOTAL, PAPER_REQUESTS)


def normal(
    mean: float,
    sigma: float,
    *,
    seed: int,
    cycles: int = 12,
    cycle_seconds: float = 90.0,
    coefficients: Mapping[str, float] = PAPER_COEFFICIENTS,
    endpoint: str = "http://{service}/",
    final: Mapping[str, int] | None = None,
) -> Scenario:
    """Return the paper's scenario `mean_sigma`: demand with normally distributed variation about a
    multiple of the edge.

    In each cycle, each service has clip(round(N(mean coef, sigma coef)), 1, 10) replicas, and 5
    requests a second for each. `final` sets the last cycle's replicas of some services. The draws
    depend on the seed and on the number and order of the services; they come from
    `random.Random.random`, whose sequence no version of Python changes.

    Raises GeneratorError.
    """
    check_finite("mean", mean)
    check_finite("sigma", sigma)
    if cycles < 1:
        raise GeneratorError(f"cycles: {cycles} is not at least 1")
    check_length(cycle_seconds)
    if not coefficients:
        raise GeneratorError("services: none are given")
    last = dict(final or {})
    _check_final(last, coefficients)
    rng = random.Random(seed)
    drawn = [
        {
            service: _clip_replicas(_draw_normal(rng, mean * coefficient, sigma * coefficient))
            for service, coefficient in coefficients.items()
        }
        for _ in range(cycles)
    ]
    drawn[-1] |= last
    replicas = {service: [cycle[service] for cycle in drawn] for service in coefficients}
    return serve_replicas(replicas, cycle_seconds, endpoint)


def check_finite(name: str, value: float) -> None:
    """Raise GeneratorError unless the named parameter of a generator is a finite
    number from 0 on.
    """
    if not 0 <= value < math.inf:
        raise GeneratorError(f"{name}: {value:g} is not a finite number from 0 on")


def check_length(cycle_seconds: float) -> None:
    """Raise GeneratorError unless the length of a cycle in seconds is positive and finite."""
    if not 0 < cycle_seconds < math.inf:
        raise GeneratorError(f"cycle length: {cycle_seconds:g} seconds are not above 0")


def serve_replicas(
    replicas: Mapping[str, Iterable[int]], cycle_seconds: float, endpoint: str
) -> Scenario:
    """Return a load scenario whose request rates saturate the given replica counts of each service,
    one count per cycle.
    """
    return Scenario(
        tuple(
            Api(
                service,
                endpoint.replace("{service}", service),
                tuple(Interval.of(REQUESTS_PER_REPLICA * n, cycle_seconds) for n in counts),
            )
            for service, counts in replicas.items()
        )
    )


def _check_final(final: Mapping[str, int], services: Collection[str]) -> None:
    for service, replicas in final.items():
        if service not in services:
            raise GeneratorError(f"final: no service {service!r} among {', '.join(services)}")
        if not 0 <= replicas <= MOST_REPLICAS:
            raise GeneratorError(
                f"final: {replicas} replicas of {service} are not between 0 and {MOST_REPLICAS}"
            )


def _draw_normal(rng: random.Random, mean: float, sigma: float) -> float:
    """Draw a normally distributed random number by the Box-Muller transform, discarding its second
    value.
    """
    radius = math.sqrt(-2 * math.log(1 - rng.random()))
    return mean + sigma * radius * math.cos(2 * math.pi * rng.random())


def _clip_replicas(replicas: float) -> int:
    return max(LEAST_REPLICAS, min(MOST_REPLICAS, round(replicas)))


def _check_amounts(name: str, amounts: Mapping[str, float]) -> None:
    for resource, amount in amounts.items():
        if not 0 < amount < math.inf:
            raise GeneratorError(f"{name}: {amount:g} of {resource} is not above 0 and finite")


def wavy(
    base: float,
    services: int,
    *,
    cycles: int = 12,
    cycle_seconds: float = 90.0,
    max_step: int | None = None,
    edge_total: Mapping[str, float] = PAPER_EDGE_TOTAL,
    cluster_total: Mapping[str, float] = PAPER_CLUSTER_TOTAL,
    requests: Mapping[str, Mapping[str, float]] = PAPER_REQUESTS,
    endpoint: str = "http://{service}/",
) -> Scenario:
    """Return a scenario in which the load of one service after another rises to the cluster's
    capacity and falls again.

    At rest, a service has clip(round(base coef), 1, 10) replicas, with `coefficients` of the edge.
    The peak of its wave fills the cluster next to the others at rest, up to 10 replicas, the HPA's
    bound. Ramps are linear in whole replicas of at most `max_step` per cycle; the last cycle of a
    wave is at rest. The first `services` of all services share the cycles evenly. `requests` of
    one replica are in the units of the totals.

    Source: the scenario generator that the KubeDSM paper (arXiv 2501.07130) evaluates with,
    without a bound of 10 and with a `max_step` of 3.

    Raises GeneratorError for invalid values, if the services at rest do not fit, or if a wave would
    have no height.
    """
    check_finite("base", base)
    _check_amounts("edge total", edge_total)
    _check_amounts("cluster total", cluster_total)
    if not 1 <= services <= len(requests):
        raise GeneratorError(f"services: {services} of {len(requests)} services cannot have a wave")
    if cycles < SHORTEST_WAVE * services:
        raise GeneratorError(
            f"cycles: {cycles} are fewer than {SHORTEST_WAVE} for each wave, "
            f"{SHORTEST_WAVE * services} in all"
        )
    check_length(cycle_seconds)
    if max_step is not None and max_step < 1:
        raise GeneratorError(f"max step: {max_step} is not at least 1")
    rest = {
        name: _clip_replicas(base * coefficient)
        for name, coefficient in coefficients(edge_total, requests).items()
    }
    for resource, total in cluster_total.items():
        used = _sum_requests(rest, requests, resource)
        if used > total:
            raise GeneratorError(
                f"base: at {base:g} times the edge the services request {used:g} of "
                f"{resource}, the cluster has {total:g}"
            )
    replicas = {name: [rest[name]] * cycles for name in requests}
    start = 0
    for index, name in enumerate(list(requests)[:services]):
        length = (cycles - start) // (services - index)
        height = _wave_height(name, rest, cluster_total, requests)
        if height <= 0:
            raise GeneratorError(
                f"base: at {base:g} times the edge no capacity is left for a wave of {name}"
            )
        replicas[name][start : start + length] = [
            rest[name] + more for more in _ramp_wave(height, length, max_step)
        ]
        start += length
    return serve_replicas(replicas, cycle_seconds, endpoint)


def _sum_requests(
    rest: Mapping[str, int], requests: Mapping[str, Mapping[str, float]], resource: str
) -> float:
    return sum(count * requests[name].get(resource, 0) for name, count in rest.items())


def _wave_height(
    name: str,
    rest: Mapping[str, int],
    cluster_total: Mapping[str, float],
    requests: Mapping[str, Mapping[str, float]],
) -> int:
    """Return the number of replicas that a service can add to its count at rest before the cluster
    is full.
    """
    height = MOST_REPLICAS - rest[name]
    for resource, total in cluster_total.items():
        if needed := requests[name].get(resource, 0):
            free = total - _sum_requests(rest, requests, resource)
            height = min(height, int(free // needed))
    return height


def _ramp_wave(height: int, length: int, max_step: int | None) -> list[int]:
    """Return the replicas that a service adds to its count at rest in each cycle: a triangular wave
    up to the given height.
    """
    up = (length - 1) // 2
    down = length - 1 - up
    if max_step is not None:
        height = min(height, max_step * up)
    rising = [_divide_rounded(height * cycle, up) for cycle in range(up + 1)]
    falling = [_divide_rounded(height * cycle, down) for cycle in reversed(range(down))]
    return rising + falling


def _divide_rounded(dividend: int, divisor: int) -> int:
    """Divide integers, rounding to the nearest integer, halves up."""
    return (2 * dividend + divisor) // (2 * divisor)
