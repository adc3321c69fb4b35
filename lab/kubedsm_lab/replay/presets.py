"""Plans of the runs for the KubeDSM paper's evaluation (arXiv 2501.07130)."""

import statistics
from collections.abc import Mapping, Sequence

import attrs

from kubedsm.config.settings import Configuration, with_settings
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.sources import Source, recipe, runs
from kubedsm_lab.replay.variants import (
    BASELINES,
    MIGRATION_VARIANTS,
    OBJECTIVE_VARIANTS,
    QOS_VARIANTS,
)
from kubedsm_lab.replay.world import Run, Setup
from loadgen.generators import PAPER_COEFFICIENTS

#: mean and deviation of the demand, by the paper's name
PAPER_SCENARIOS = {
    "1.1-.4": (1.1, 0.4),
    "1.2-.4": (1.2, 0.4),
    "1.3-.4": (1.3, 0.4),
    "1.4-.4": (1.4, 0.4),
    "1.5-.4": (1.5, 0.4),
    "1.6-.4": (1.6, 0.4),
    "1.5-.1": (1.5, 0.1),
    "1.5-.2": (1.5, 0.2),
    "1.5-.3": (1.5, 0.3),
    "1.5-.5": (1.5, 0.5),
}
#: scenario on which the paper compares variants
VARIANT_SCENARIO = "1.5-.4"
#: equal replicas of all services, with the total of the paper's generator
EQUAL_COEFFICIENTS: Mapping[str, float] = dict.fromkeys(
    PAPER_COEFFICIENTS, statistics.fmean(PAPER_COEFFICIENTS.values())
)
#: scenarios in which the paper has most of D in the cloud, and the one above
EQUAL_RATE_SCENARIOS = ("1.5-.1", VARIANT_SCENARIO, "1.5-.5")
#: scale-down stabilisation in seconds; the latter is Kubernetes' default
OTHER_STABILIZATIONS = (60, 300)
#: policies of every table, and the reference of comparisons
MAIN_POLICIES = (KUBEDSM, "paper-suggester", *BASELINES)
REFERENCE = "kube-scheduler"
EQUAL_RATE_POLICIES = (KUBEDSM, "paper-suggester", REFERENCE)
#: tried values of settings, the defaults among them
TRIED_VALUES: Mapping[str, Sequence[str]] = {
    "migration.price": ("0s", "5s", "10s", "17s", "30s", "60s"),
    "objective.evenness": ("0", "0.3", "0.5", "0.65", "0.8"),
}
REDUCED_SEEDS, FULL_SEEDS = 1, 5


def name_stabilized(scenario: str, seconds: int) -> str:
    """Return the name of the scenario's variant with a scale-down stabilisation of the autoscalers
    in seconds.
    """
    return f"{scenario} stabilisation {seconds}s"


def equal_rates(scenario: str) -> str:
    """Return the name of the scenario's variant with equal rates of all services."""
    return f"{scenario} equal rates"


def list_tried(key: str) -> dict[str, str]:
    """Return the policy names for KubeDSM with each tried value of a setting, by value."""

    def name_policy(value: str) -> str:
        default = with_settings(Configuration(), {key: value}) == Configuration()
        return KUBEDSM if default else f"{key}={value}"

    return {value: name_policy(value) for value in TRIED_VALUES[key]}


def reduced(seeds: Sequence[int], setup: Setup) -> list[Run]:
    """Return the default runs of the evaluation: the main policies on ten scenarios, and KubeDSM's
    variants on one scenario.
    """
    variants = [name for name in MIGRATION_VARIANTS if name not in MAIN_POLICIES]
    return [
        *runs(_paper_sources(), MAIN_POLICIES, seeds, setup),
        *runs(
            _paper_sources(VARIANT_SCENARIO),
            [*variants, *QOS_VARIANTS, *OBJECTIVE_VARIANTS],
            seeds,
            setup,
        ),
    ]


def full(seeds: Sequence[int], setup: Setup) -> list[Run]:
    """Return the runs of the evaluation with `--full`: all policies, variants of KubeDSM, migration
    prices, and degrees of evenness.

    QoS factors are varied on one scenario. Some scenarios are repeated with equal rates, and one
    with slower autoscalers.
    """
    tried = [policy for key in TRIED_VALUES for policy in list_tried(key).values()]
    policies = dict.fromkeys([*MAIN_POLICIES, *MIGRATION_VARIANTS, *OBJECTIVE_VARIANTS, *tried])
    found = runs(_paper_sources(), list(policies), seeds, setup)
    found += runs(_paper_sources(VARIANT_SCENARIO), list(QOS_VARIANTS), seeds, setup)
    equal = [
        recipe(equal_rates(name), *PAPER_SCENARIOS[name], EQUAL_COEFFICIENTS)
        for name in EQUAL_RATE_SCENARIOS
    ]
    found += runs(equal, EQUAL_RATE_POLICIES, seeds, setup)
    for seconds in OTHER_STABILIZATIONS:
        name = name_stabilized(VARIANT_SCENARIO, seconds)
        slower = attrs.evolve(setup, stabilization_seconds=seconds)
        found += runs(
            [recipe(name, *PAPER_SCENARIOS[VARIANT_SCENARIO])], MAIN_POLICIES, seeds, slower
        )
    return found


def _paper_sources(*names: str) -> list[Source]:
    return [recipe(name, *PAPER_SCENARIOS[name]) for name in names or PAPER_SCENARIOS]
