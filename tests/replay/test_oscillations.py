"""Loads that change places: what moves gain there does not last."""

import msgspec
import pytest

from kubedsm_lab.replay.runner import carry_out
from kubedsm_lab.replay.tuning import OSCILLATIONS, oscillation
from kubedsm_lab.replay.world import Run, Setup


def played(name, policy):
    source, setup = oscillation(name, Setup())
    whole = source.scenario(1)
    # Six of the twelve cycles.
    apis = (msgspec.structs.replace(api, intervals=api.intervals[:6]) for api in whole.apis)
    scenario = msgspec.structs.replace(whole, apis=tuple(apis))
    return carry_out(Run(name, scenario, policy, 1, setup)).measures


@pytest.mark.parametrize("name", ["osc", "osc2"])
def test_moving_is_never_worse_than_not_to_move(name):
    moving, still = played(name, "kubedsm"), played(name, "no-migration")
    assert moving.edge_ratio >= still.edge_ratio
    assert moving.migrations <= 12
    assert still.migrations == 0


def test_at_no_price_it_is_with_many_moves():
    moving, still = played("osc", "migration.price=0s"), played("osc", "no-migration")
    assert moving.edge_ratio < still.edge_ratio
    assert moving.migrations > 100


def test_they_are_of_twins_that_together_ask_for_twice_what_the_edge_holds():
    for name, numbers in OSCILLATIONS.items():
        source, setup = oscillation(name, Setup())
        scenario = source.scenario(1)
        assert scenario == source.scenario(2)
        assert scenario.duration == 12 * 90
        for moment, turn in ((45.0, numbers), (135.0, numbers[::-1])):
            pods = tuple(scenario.rate(service, moment) / 5 for service in "xy")
            assert pods == pytest.approx(turn)
        assert {spec.name: spec.cpu for spec in setup.services} == {"x": "250m", "y": "250m"}
