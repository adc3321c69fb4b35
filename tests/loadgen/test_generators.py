"""Generated scenarios: their shape, what bounds them, and what is refused."""

import statistics

import pytest

from loadgen.generators import (
    PAPER_COEFFICIENTS,
    REQUESTS_PER_REPLICA,
    GeneratorError,
    coefficients,
    normal,
    wavy,
)
from loadgen.scenario import dumps, loads


def replicas(scenario, service):
    (api,) = (api for api in scenario.apis if api.name == service)
    return [interval.rate / REQUESTS_PER_REPLICA for interval in api.intervals]


def test_coefficients_are_means_over_resources_of_an_equal_part_of_the_edge():
    assert {name: round(value, 2) for name, value in PAPER_COEFFICIENTS.items()} == {
        "a": 3.01,
        "b": 2.32,
        "c": 3.01,
        "d": 1.50,
    }
    made = coefficients({"cpu": 12, "memory": 8}, {"x": {"cpu": 2, "memory": 1}, "y": {"cpu": 3}})
    assert made == {"x": (3 + 4) / 2, "y": 2}


def test_a_seed_gives_these_replicas_in_the_papers_shape_for_ever():
    scenario = normal(1.5, 0.4, seed=7)
    assert scenario.services == ("a", "b", "c", "d")
    assert scenario.duration == 12 * 90
    for api in scenario.apis:
        assert api.endpoint == f"http://{api.name}/"
        assert [interval.cycle_length for interval in api.intervals] == [90_000] * 12
    # Written down, so that no version of Python may draw others.
    scenario = normal(1.5, 0.4, seed=20_250_107, cycles=6)
    assert {name: replicas(scenario, name) for name in scenario.services} == {
        "a": [5, 6, 5, 4, 6, 5],
        "b": [3, 4, 5, 4, 4, 3],
        "c": [4, 6, 3, 5, 4, 3],
        "d": [3, 1, 2, 3, 2, 3],
    }
    assert normal(1.5, 0.4, seed=1) == normal(1.5, 0.4, seed=1) != normal(1.5, 0.4, seed=2)


def test_draws_follow_the_mean_and_the_deviation_within_the_autoscalers_bounds():
    drawn = replicas(normal(1.0, 0.25, seed=3, cycles=4000, coefficients={"s": 5.5, "t": 5.5}), "t")
    assert statistics.mean(drawn) == pytest.approx(5.5, abs=0.1)
    # rounding adds a variance of 1/12
    assert statistics.pstdev(drawn) == pytest.approx((1.375**2 + 1 / 12) ** 0.5, rel=0.05)
    drawn = replicas(normal(1.5, 5, seed=4, cycles=500), "a")
    assert (min(drawn), max(drawn)) == (1, 10)
    assert replicas(normal(1.0, 0, seed=5, cycles=3), "a") == [3, 3, 3]


def test_final_cycles_lengths_and_endpoints_can_be_given():
    drawn = normal(1.5, 0.4, seed=6)
    ended = normal(1.5, 0.4, seed=6, final={"a": 9, "d": 0})
    assert replicas(ended, "a") == [*replicas(drawn, "a")[:-1], 9]
    assert replicas(ended, "d") == [*replicas(drawn, "d")[:-1], 0]
    assert replicas(ended, "b") == replicas(drawn, "b")
    scenario = normal(1, 0, seed=0, cycles=2, cycle_seconds=5, endpoint="http://{service}.shop/p")
    assert scenario.duration == 10
    assert scenario.apis[1].endpoint == "http://b.shop/p"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mean": -1}, "mean: -1 is not a finite number from 0 on"),
        ({"mean": float("nan")}, "mean: nan is not a finite number from 0 on"),
        ({"sigma": float("inf")}, "sigma: inf is not a finite number from 0 on"),
        ({"cycles": 0}, "cycles: 0 is not at least 1"),
        ({"cycle_seconds": 0}, "cycle length: 0 seconds are not above 0"),
        ({"coefficients": {}}, "services: none are given"),
        ({"final": {"z": 1}}, "final: no service 'z' among a, b, c, d"),
        ({"final": {"a": 11}}, "final: 11 replicas of a are not between 0 and 10"),
    ],
)
def test_what_cannot_be_generated(given, message):
    with pytest.raises(GeneratorError) as refused:
        normal(**{"mean": 1.0, "sigma": 0.1, "seed": 0} | given)
    assert str(refused.value) == message


#: Room for 12 replicas of 1 core, 4 of them on the edge.
SMALL = {
    "edge_total": {"cpu": 4},
    "cluster_total": {"cpu": 12},
    "requests": {"x": {"cpu": 1}, "y": {"cpu": 1}},
}


def waves(*given, **parameters):
    return {
        api.name: [round(interval.rate / REQUESTS_PER_REPLICA) for interval in api.intervals]
        for api in wavy(*given, **parameters).apis
    }


def test_waves_follow_each_other_and_share_all_cycles():
    # At rest 2 each. One alone may grow to 12 - 2, which is also the autoscaler's bound.
    assert waves(1.0, 2, cycles=10, **SMALL) == {
        "x": [2, 6, 10, 6, 2, 2, 2, 2, 2, 2],
        "y": [2, 2, 2, 2, 2, 2, 6, 10, 6, 2],
    }
    made = waves(1.0, 1, cycles=6, **SMALL)
    assert made == {"x": [2, 6, 10, 7, 5, 2], "y": [2] * 6}
    made = waves(1.0, 2, cycles=7, **SMALL)
    assert made == {"x": [2, 10, 2, 2, 2, 2, 2], "y": [2, 2, 2, 2, 10, 6, 2]}


def test_the_scarcest_resource_and_the_step_bound_a_wave():
    made = waves(
        1.0,
        1,
        cycles=3,
        edge_total={"cpu": 2, "memory": 2},
        cluster_total={"cpu": 100, "memory": 7.5},
        requests={"x": {"cpu": 1, "memory": 1}, "y": {"cpu": 1, "memory": 1}},
    )
    assert made == {"x": [1, 6, 1], "y": [1, 1, 1]}
    assert waves(1.0, 1, cycles=6, max_step=3, **SMALL)["x"] == [2, 5, 8, 6, 4, 2]


def test_the_papers_cluster_and_the_way_through_a_file():
    # Written down, so that no version of Python may round otherwise. b: beside a and c with 2
    # replicas of .996 GB and d with 1 of 1.992 GB, 25 GB hold 9 of 1.992 GB.
    assert waves(0.5, 4) == {
        "a": [2, 10, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2],
        "b": [1, 1, 1, 1, 9, 1, 1, 1, 1, 1, 1, 1],
        "c": [2, 2, 2, 2, 2, 2, 2, 10, 2, 2, 2, 2],
        "d": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9, 1],
    }
    scenario = wavy(1.0, 4, cycle_seconds=5, endpoint="http://{service}.shop/p")
    assert scenario.duration == 60
    assert scenario.apis[3].endpoint == "http://d.shop/p"
    assert loads(dumps(scenario)) == scenario


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"base": -1}, "base: -1 is not a finite number from 0 on"),
        ({"base": float("nan")}, "base: nan is not a finite number from 0 on"),
        ({"services": 0}, "services: 0 of 2 services cannot have a wave"),
        ({"services": 3}, "services: 3 of 2 services cannot have a wave"),
        ({"cycles": 5}, "cycles: 5 are fewer than 3 for each wave, 6 in all"),
        ({"cycle_seconds": 0}, "cycle length: 0 seconds are not above 0"),
        ({"max_step": 0}, "max step: 0 is not at least 1"),
        ({"edge_total": {"cpu": 0}}, "edge total: 0 of cpu is not above 0 and finite"),
        (
            {"base": 4.0},
            "base: at 4 times the edge the services request 16 of cpu, the cluster has 12",
        ),
        ({"base": 3.0}, "base: at 3 times the edge no capacity is left for a wave of x"),
    ],
)
def test_what_wave_cannot_be_generated(given, message):
    with pytest.raises(GeneratorError) as refused:
        wavy(**{"base": 1.0, "services": 2, **SMALL} | given)
    assert str(refused.value) == message
