"""What the paper's evaluation is made of: scenarios, policies and variants."""

from collections import Counter

import pytest

from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import Configuration, with_settings
from kubedsm.model.model import Workload
from kubedsm_lab.baselines.registry import ON_REQUEST
from kubedsm_lab.replay.presets import (
    EQUAL_COEFFICIENTS,
    EQUAL_RATE_SCENARIOS,
    MAIN_POLICIES,
    PAPER_SCENARIOS,
    PRICES,
    VARIANT_SCENARIO,
    equal_rates,
    full,
    name_stabilized,
    price_policy,
    reduced,
)
from kubedsm_lab.replay.variants import BASELINES, CONTENDERS, QOS_VARIANTS, contender
from kubedsm_lab.replay.world import Setup
from loadgen.generators import PAPER_COEFFICIENTS

SERVICES = ("a", "b", "c", "d")


def configured(name, configuration=None):
    return contender(name, SERVICES).reconfigure(configuration or Configuration())


def mean_rates(run):
    """Requests a second of each service, over the scenario."""
    return {
        api.name: sum(1000 / interval.api_call_period for interval in api.intervals)
        / len(api.intervals)
        for api in run.scenario.apis
    }


def test_every_variant_is_there_by_name():
    assert set(CONTENDERS) >= {
        "kubedsm", "kube-scheduler", "smallest-edge-first", "biggest-edge-first", "random",
        "cloud-first", "paper-suggester", "mid-migration", "half-frequency", "no-cloud-offload",
        "no-edge-migration", "no-migration", "all-half", "c-over-a", "respect-d", "only-d",
        "latency-objective",
    }  # fmt: skip


def test_migration_is_halved_in_two_ways():
    """The second version's caps, and the first version's frequency."""
    usual, caps, seldom = map(configured, ("kubedsm", "mid-migration", "half-frequency"))
    assert (caps.suggester.max_cloud_to_edge, caps.suggester.max_edge_reorder) == (2, 1)
    assert caps.suggester.period == usual.suggester.period
    assert seldom.suggester.period == 2 * usual.suggester.period
    assert seldom.suggester.max_cloud_to_edge == usual.suggester.max_cloud_to_edge
    own = with_settings(Configuration(), {"suggester.period": "7s"})
    assert configured("half-frequency", own).suggester.period == 14


def test_the_first_version_has_seconds_beyond_a_target():
    """35 ms are three quarters of the way from the cloud's 80 to the edge's 20."""
    configuration = configured("latency-objective")
    promise = configuration.promise(Workload("default", "Deployment", "d"))
    objective = configuration.objective_function
    scores = [objective.score(edge, 4, promise.qos, promise.weight) for edge in range(5)]
    # the mean times are 80, 65, 50, 35 and 20 ms
    assert scores == pytest.approx([-45e6, -30e6, -15e6, 0, 0], abs=2)


def test_a_variant_that_the_configuration_does_not_allow_says_why():
    given = with_settings(Configuration(), {"suggester.period": "20h"})
    with pytest.raises(DocumentError, match=r"^suggester\.period: 40h is not between"):
        configured("half-frequency", given)


def test_with_equal_rates_every_service_has_as_many_pods():
    runs = {run.name: run for run in full(range(1, 21), Setup()) if run.policy == "kubedsm"}
    assert sum(EQUAL_COEFFICIENTS.values()) == pytest.approx(sum(PAPER_COEFFICIENTS.values()))
    for name in EQUAL_RATE_SCENARIOS:
        alike, papers = mean_rates(runs[equal_rates(name)]), mean_rates(runs[name])
        # 5 requests a second of each of 1.5 * 2.46 pods, give or take what is drawn and rounded
        assert alike == pytest.approx(dict.fromkeys(SERVICES, 18.4), rel=0.2)
        assert papers["a"] > 1.4 * papers["d"]


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
    everybody = {*CONTENDERS, *map(price_policy, PRICES)} - {*ON_REQUEST}
    assert {policy for name, policy in found if name == "1.1-.4"} == everybody - set(QOS_VARIANTS)
    assert {policy for name, policy in found if name == VARIANT_SCENARIO} == everybody
    assert {name for name, _ in found} - set(PAPER_SCENARIOS) == {
        *map(equal_rates, EQUAL_RATE_SCENARIOS),
        name_stabilized(VARIANT_SCENARIO, 60),
        name_stabilized(VARIANT_SCENARIO, 300),
    }
    assert {run.setup.stabilization_seconds for run in runs} == {5, 60, 300}


def test_the_curve_of_prices_has_the_default_on_it():
    assert [price_policy(price) for price in PRICES].count("kubedsm") == 1


def test_the_reduced_evaluation_has_every_variant_once():
    found = [(run.name, run.policy) for run in reduced([1], Setup())]
    assert {policy for name, policy in found if name == VARIANT_SCENARIO} == {*CONTENDERS} - {
        *ON_REQUEST
    }
    assert {name for name, _ in found} == set(PAPER_SCENARIOS)
