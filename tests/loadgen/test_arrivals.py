"""When requests are due."""

import itertools
import math
import statistics

import pytest

from loadgen.arrivals import schedule
from loadgen.generators import normal
from loadgen.scenario import Api, Interval, Scenario


def scenario(**intervals):
    return Scenario(
        tuple(
            Api(name, f"http://{name}/", tuple(Interval(*given) for given in given_intervals))
            for name, given_intervals in intervals.items()
        )
    )


def test_uniform_is_one_request_a_period_made_as_it_goes():
    made = schedule(scenario(a=[(400, 1000), (250, 500)], b=[(500, 1000)]))
    assert [(round(due, 9), service) for due, service in made] == [
        (0.4, "a"),
        (0.5, "b"),
        (0.8, "a"),
        (1.0, "b"),
        (1.25, "a"),
        (1.5, "a"),
    ]
    endless = schedule(scenario(a=[(1, 1e12)]))
    assert next(endless).due == 0.001


@pytest.mark.parametrize("rate", [3, 7, 11, 15, 35, 199])
def test_a_period_written_as_a_fraction_loses_no_request(rate):
    made = list(schedule(Scenario((Api("a", "http://a/", (Interval.of(rate, 90),) * 2),))))
    assert len(made) == 2 * 90 * rate
    assert made[-1].due <= 180


@pytest.mark.parametrize("arrivals", ["uniform", "poisson"])
def test_a_period_longer_than_its_interval_is_silent(arrivals):
    made = schedule(scenario(a=[(1001, 1000), (100, 1000), (1001, 1000)]), arrivals)
    assert {math.floor(arrival.due) for arrival in made} <= {1, 2}


def test_poisson_draws_gaps_of_independent_users_by_seed_and_name():
    dues = [due for due, _ in schedule(scenario(a=[(10, 200_000)]), "poisson", seed=1)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(dues)]
    assert statistics.mean(gaps) == pytest.approx(0.01, rel=0.02)
    # of an exponential distribution the deviation is the mean
    assert statistics.pstdev(gaps) == pytest.approx(0.01, rel=0.03)
    alone = list(schedule(scenario(a=[(10, 1000)]), "poisson", seed=7))
    beside = schedule(scenario(b=[(10, 1000)], a=[(10, 1000)]), "poisson", seed=7)
    assert [arrival for arrival in beside if arrival.service == "a"] == alone
    assert list(schedule(scenario(a=[(10, 1000)]), "poisson", seed=8)) != alone
    # Written down, so that no version of Python may draw others.
    assert [round(arrival.due, 6) for arrival in alone[:3]] == [0.036234, 0.044579, 0.056171]


@pytest.mark.parametrize("arrivals", ["uniform", "poisson"])
def test_a_schedule_is_in_order_and_inside_the_scenario(arrivals):
    given = normal(1.5, 0.4, seed=1, cycles=3, cycle_seconds=20)
    dues = [arrival.due for arrival in schedule(given, arrivals)]
    assert dues == sorted(dues)
    assert dues[0] > 0
    assert dues[-1] <= given.duration
