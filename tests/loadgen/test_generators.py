import statistics

import pytest

from loadgen.generators import (
    PAPER_COEFFICIENTS,
    REQUESTS_PER_REPLICA,
    GeneratorError,
    coefficients,
    normal,
)


def replicas(scenario, service):
    (api,) = (api for api in scenario.apis if api.name == service)
    return [interval.rate / REQUESTS_PER_REPLICA for interval in api.intervals]


def test_the_papers_coefficients():
    assert {name: round(value, 2) for name, value in PAPER_COEFFICIENTS.items()} == {
        "a": 3.01,
        "b": 2.32,
        "c": 3.01,
        "d": 1.50,
    }


def test_a_coefficient_is_the_mean_over_resources_of_an_equal_part_of_the_edge():
    made = coefficients({"cpu": 12, "memory": 8}, {"x": {"cpu": 2, "memory": 1}, "y": {"cpu": 3}})
    assert made == {"x": (3 + 4) / 2, "y": 2}


def test_the_papers_shape():
    scenario = normal(1.5, 0.4, seed=7)
    assert scenario.services == ("a", "b", "c", "d")
    assert scenario.duration == 12 * 90
    for api in scenario.apis:
        assert api.endpoint == f"http://{api.name}/"
        assert [interval.cycle_length for interval in api.intervals] == [90_000] * 12


def test_a_seed_gives_these_replicas_for_ever():
    """Written down, so that no version of Python may draw others."""
    scenario = normal(1.5, 0.4, seed=20_250_107, cycles=6)
    assert {name: replicas(scenario, name) for name in scenario.services} == {
        "a": [5, 6, 5, 4, 6, 5],
        "b": [3, 4, 5, 4, 4, 3],
        "c": [4, 6, 3, 5, 4, 3],
        "d": [3, 1, 2, 3, 2, 3],
    }


def test_another_seed_draws_anew():
    assert normal(1.5, 0.4, seed=1) == normal(1.5, 0.4, seed=1) != normal(1.5, 0.4, seed=2)


def test_draws_follow_the_mean_and_the_deviation():
    drawn = replicas(normal(1.0, 0.25, seed=3, cycles=4000, coefficients={"s": 5.5, "t": 5.5}), "t")
    assert statistics.mean(drawn) == pytest.approx(5.5, abs=0.1)
    # rounding adds a variance of 1/12
    assert statistics.pstdev(drawn) == pytest.approx((1.375**2 + 1 / 12) ** 0.5, rel=0.05)


def test_replicas_are_clipped_to_what_the_autoscaler_may_ask_for():
    drawn = replicas(normal(1.5, 5, seed=4, cycles=500), "a")
    assert (min(drawn), max(drawn)) == (1, 10)


def test_without_deviation_every_cycle_is_the_mean():
    assert replicas(normal(1.0, 0, seed=5, cycles=3), "a") == [3, 3, 3]


def test_the_final_cycle_can_be_given_for_some_or_all_services():
    drawn = normal(1.5, 0.4, seed=6)
    ended = normal(1.5, 0.4, seed=6, final={"a": 9, "d": 0})
    assert replicas(ended, "a") == [*replicas(drawn, "a")[:-1], 9]
    assert replicas(ended, "d") == [*replicas(drawn, "d")[:-1], 0]
    assert replicas(ended, "b") == replicas(drawn, "b")


def test_length_of_cycles_and_endpoints():
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
