"""What the paper's evaluation is made of: scenarios, policies and variants."""

from collections import Counter

import click
import pytest

from kubedsm.config.settings import Configuration
from kubedsm.model.model import Share, Workload
from kubedsm_lab.baselines.registry import ON_REQUEST
from kubedsm_lab.replay.presets import (
    EQUAL_RATE_SCENARIOS,
    MAIN_POLICIES,
    PAPER_SCENARIOS,
    TRIED_VALUES,
    as_recorded,
    equal_rates,
    full,
    list_tried,
    name_stabilized,
    reduced,
)
from kubedsm_lab.replay.variants import (
    BASELINES,
    CONTENDERS,
    QOS_VARIANTS,
    contender,
    with_settings,
)
from kubedsm_lab.replay.world import Setup

SERVICES = ("a", "b", "c", "d")


def configured(name, configuration=None):
    return contender(name, SERVICES).reconfigure(configuration or Configuration())


def test_migration_is_halved_in_two_ways():
    """The second version's caps, and the first version's frequency."""
    usual, caps, seldom = map(configured, ("kubedsm", "mid-migration", "half-frequency"))
    assert (caps.suggester.max_cloud_to_edge, caps.suggester.max_edge_reorder) == (2, 1)
    assert caps.suggester.period == usual.suggester.period
    assert seldom.suggester.period == 2 * usual.suggester.period
    assert seldom.suggester.max_cloud_to_edge == usual.suggester.max_cloud_to_edge
    own = with_settings(Configuration(), {"suggester.period": "7s"})
    assert with_settings(own, {"suggester.defragment": "true"}).suggester.period == 7
    assert configured("half-frequency", own).suggester.period == 14


def test_the_first_version_has_seconds_beyond_a_target():
    """35 ms are three quarters of the way from the cloud's 80 to the edge's 20."""
    configuration = configured("latency-objective")
    qos_target = configuration.qos_target(Workload("default", "Deployment", "d"))
    objective = configuration.objective_function
    scores = [objective.worth_of(Share(edge, 4), qos_target) for edge in range(5)]
    # the mean times are 80, 65, 50, 35 and 20 ms
    assert scores == pytest.approx([-45e6, -30e6, -15e6, 0, 0], abs=2)


@pytest.mark.parametrize(("preset", "seeds"), [(reduced, 1), (full, 5)])
def test_everybody_plays_the_ten_scenarios_with_every_seed(preset, seeds):
    found = preset(range(1, seeds + 1), Setup())
    played = Counter((run.name, run.policy) for run in found)
    assert set(played.values()) == {seeds}
    assert len({(run.name, run.policy, run.seed) for run in found}) == len(found)
    for name in PAPER_SCENARIOS:
        assert {policy for scenario, policy in played if scenario == name} >= set(MAIN_POLICIES)
    assert set(MAIN_POLICIES) >= {"kubedsm", "paper-suggester", *BASELINES}


def test_the_whole_evaluation_is_what_its_tables_show():
    runs = full([1], Setup())
    found = {(run.name, run.policy) for run in runs}
    everybody = {
        *CONTENDERS,
        *(name for key in TRIED_VALUES for name in list_tried(key).values()),
    } - {*ON_REQUEST}
    assert {policy for name, policy in found if name == "1.1-.4"} == everybody - set(QOS_VARIANTS)
    assert {name for name, _ in found} - set(PAPER_SCENARIOS) == {
        *map(equal_rates, EQUAL_RATE_SCENARIOS),
        name_stabilized(60),
        name_stabilized(300),
        *map(as_recorded, PAPER_SCENARIOS),
    }
    assert {run.setup.stabilization_seconds for run in runs} == {5, 60, 300}


def test_settings_make_a_contender():
    changed = configured("suggester.period=7s+objective.gamma=3")
    assert (changed.suggester.period, changed.objective.gamma) == (7, 3)
    with pytest.raises(click.UsageError, match="unknown key; did you mean period"):
        contender("suggester.perod=7s", ())
