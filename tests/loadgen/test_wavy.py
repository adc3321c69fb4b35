"""The wavy scenario: its shape, what bounds a wave, and what is refused."""

import attrs
import pytest

from loadgen.generators import REQUESTS_PER_REPLICA, GeneratorError, Wavy, wavy
from loadgen.scenario import dumps, loads

#: Room for 12 replicas of 1 core, 4 of them on the edge.
SMALL = {
    "edge_total": {"cpu": 4},
    "cluster_total": {"cpu": 12},
    "requests": {"x": {"cpu": 1}, "y": {"cpu": 1}},
}


def replicas(parameters):
    return {
        api.name: [round(interval.rate / REQUESTS_PER_REPLICA) for interval in api.intervals]
        for api in wavy(parameters).apis
    }


def test_one_service_after_another_fills_the_cluster_while_the_others_rest():
    # At rest 2 each. One alone may grow to 12 - 2, which is also the autoscaler's bound.
    assert replicas(Wavy(1.0, 2, cycles=10, **SMALL)) == {
        "x": [2, 6, 10, 6, 2, 2, 2, 2, 2, 2],
        "y": [2, 2, 2, 2, 2, 2, 6, 10, 6, 2],
    }


def test_only_the_first_services_have_a_wave_and_share_all_cycles():
    made = replicas(Wavy(1.0, 1, cycles=6, **SMALL))
    assert made == {"x": [2, 6, 10, 7, 5, 2], "y": [2] * 6}


def test_cycles_that_cannot_be_shared_evenly_go_to_the_later_waves():
    made = replicas(Wavy(1.0, 2, cycles=7, **SMALL))
    assert made == {"x": [2, 10, 2, 2, 2, 2, 2], "y": [2, 2, 2, 2, 10, 6, 2]}


def test_the_cluster_bounds_a_wave_by_its_scarcest_resource():
    parameters = Wavy(
        1.0,
        1,
        cycles=3,
        edge_total={"cpu": 2, "memory": 2},
        cluster_total={"cpu": 100, "memory": 7.5},
        requests={"x": {"cpu": 1, "memory": 1}, "y": {"cpu": 1, "memory": 1}},
    )
    assert replicas(parameters) == {"x": [1, 6, 1], "y": [1, 1, 1]}


def test_a_step_can_be_bounded():
    assert replicas(Wavy(1.0, 1, cycles=6, max_step=3, **SMALL))["x"] == [2, 5, 8, 6, 4, 2]


def test_the_papers_cluster():
    """Written down, so that no version of Python may round otherwise.

    b: beside a and c with 2 replicas of .996 GB and d with 1 of 1.992 GB, 25 GB hold 9 of 1.992 GB.
    """
    assert replicas(Wavy(0.5, 4)) == {
        "a": [2, 10, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2],
        "b": [1, 1, 1, 1, 9, 1, 1, 1, 1, 1, 1, 1],
        "c": [2, 2, 2, 2, 2, 2, 2, 10, 2, 2, 2, 2],
        "d": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9, 1],
    }


def test_length_endpoint_and_the_way_through_a_file():
    scenario = wavy(Wavy(1.0, 4, cycle_seconds=5, endpoint="http://{service}.shop/p"))
    assert scenario.duration == 60
    assert scenario.apis[3].endpoint == "http://d.shop/p"
    assert loads(dumps(scenario)) == scenario


def test_parameters_are_values():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Wavy(1.0, 1).base = 2.0


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
        ({"base": 3.0}, "base: at 3 times the edge there is room for no wave of x"),
    ],
)
def test_what_cannot_be_generated(given, message):
    with pytest.raises(GeneratorError) as refused:
        wavy(Wavy(**{"base": 1.0, "services": 2, **SMALL} | given))
    assert str(refused.value) == message
