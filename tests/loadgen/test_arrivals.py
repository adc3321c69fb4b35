"""Scenario files in the DrStress format, and when their requests are due."""

import io
import itertools
import json
import math
import statistics
import sys
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loadgen.arrivals import schedule
from loadgen.generators import normal
from loadgen.scenario import Api, Interval, Scenario, ScenarioError, dumps, load, loads


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


#: As the papers' generator writes them: fractions of a millisecond, equal cycles in one interval.
WRITTEN = """
{"apis": [
  {"name": "A", "endpoint": "http://localhost:30000/ping", "intervals": [
    {"api_call_period": 66.66666666666667, "cycle_length": 180000},
    {"api_call_period": 200, "cycle_length": 90000}]},
  {"name": "B", "endpoint": "http://localhost:30001/ping", "intervals": [
    {"api_call_period": 100, "cycle_length": 90000}]}
]}
"""


def test_rates_over_time_and_silence():
    scenario = loads(WRITTEN)
    assert scenario.services == ("A", "B")
    assert scenario.duration == 270
    assert [scenario.rate("A", t) for t in (-1, 0, 179.999, 180, 269.9, 270)] == [
        0,
        15,
        15,
        5,
        5,
        0,
    ]
    assert [scenario.rate("B", t) for t in (0, 89.9, 90, 1e9)] == [10, 10, 0, 0]
    with pytest.raises(ScenarioError, match="no service 'C' among A, B"):
        loads(WRITTEN).rate("C", 0)
    assert Interval(90_001, 90_000).rate == 0
    assert Interval(90_000, 90_000).rate == pytest.approx(1 / 90)
    silence = Interval.of(0, 90)
    assert silence.rate == 0
    assert silence.api_call_period > silence.cycle_length == 90_000


def test_the_rate_in_a_long_scenario_is_found_at_once():
    """The rate at a time was found by adding up all intervals before it."""
    scenario = normal(1, 0.5, seed=0, cycles=20_000, cycle_seconds=1)
    begun = time.process_time()
    times = range(0, 20_000, 20)
    assert sum(scenario.rate(name, at) > 0 for name in scenario.services for at in times) == 4_000
    assert time.process_time() - begun < 1


positive = st.floats(1e-6, 1e12)
words = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=10)
intervals = st.builds(Interval, positive, positive)
scenarios = st.lists(words, min_size=1, max_size=4, unique=True).flatmap(
    lambda names: st.tuples(
        *(
            st.builds(
                Api, st.just(name), words, st.lists(intervals, min_size=1, max_size=4).map(tuple)
            )
            for name in names
        )
    ).map(Scenario)
)


@given(scenarios)
def test_every_scenario_comes_back_from_its_text(scenario):
    assert loads(dumps(scenario)) == loads(dumps(scenario).encode()) == scenario


def changed(path, value):
    """The text of a small good scenario, one place of it changed; None takes the place away."""
    content = {
        "apis": [
            {
                "name": name,
                "endpoint": "http://x/",
                "intervals": [{"api_call_period": 100, "cycle_length": 90000}] * 2,
            }
            for name in ("a", "b")
        ]
    }
    content = json.loads(json.dumps(content))
    *way, last = path
    place = content
    for step in way:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return json.dumps(content)


SILENCE = (
    " is not a number of milliseconds above 0; for silence, give a period longer than cycle_length"
)
SYNTAX = "not JSON: Expecting"
PERIOD = ("apis", 1, "intervals", 0, "api_call_period")
PLACE = "apis[1].intervals[0].api_call_period"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n", "empty"),
        ("{", f"{SYNTAX} property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (
            b"\xff",
            "not JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "Object missing required field `apis`"),
        ('{"apis": []}', "apis: empty"),
        (changed(("apis", 1, "name"), None), "apis[1]: Object missing required field `name`"),
        (changed(("apis", 1, "name"), "a"), "apis[1].name: 'a' occurs twice"),
        (changed(("apis", 1, "name"), 7), "apis[1].name: Expected `str`, got `int`"),
        (changed(("apis", 0, "endpoint"), "a\nb"), "apis[0].endpoint: not a line of text"),
        (changed(("apis", 0, "intervals"), []), "apis[0].intervals: empty"),
        (changed(PERIOD, True), f"{PLACE}: Expected `float`, got `bool`"),
        (changed(PERIOD, -5), f"{PLACE}: -5 is not a number of milliseconds above 0"),
        (changed(PERIOD, 0), f"{PLACE}: 0{SILENCE}"),
        (changed(PERIOD, float("nan")), f"{PLACE}: nan is not a number of milliseconds above 0"),
        (
            changed(("apis", 0, "intervals", 1, "cycle_length"), 0),
            "apis[0].intervals[1].cycle_length: 0 is not a number of milliseconds above 0",
        ),
    ],
)
def test_what_is_refused_names_the_file_and_the_place(tmp_path, text, message):
    path = tmp_path / "load.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ScenarioError) as refused:
        load(path)
    assert str(refused.value) == f"{path}: {message}"


@given(st.text(max_size=40) | st.binary(max_size=20))
@example("[" * 100_000)
@example('{"apis": ' + "9" * 5000 + "}")
def test_anything_else_is_refused_in_one_line(text):
    with pytest.raises(ScenarioError) as refused:
        loads(text, "load.json")
    assert len(str(refused.value).splitlines()) == 1


def test_standard_input(monkeypatch):
    given = normal(1.5, 0.4, seed=3)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(dumps(given).encode())))
    assert load("-") == given
    for closed in (sys.stdin, None):
        monkeypatch.setattr(sys, "stdin", closed)
        with pytest.raises(ScenarioError, match=r"^standard input: empty$"):
            load("-")
