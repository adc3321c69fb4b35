"""Plans of the runs for the KubeDSM paper's evaluation (arXiv 2501.07130)."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from kubedsm.config.settings import Configuration
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.paper import paper_cluster
from kubedsm_lab.replay.sources import Source, recipe, runs
from kubedsm_lab.replay.variants import (
    BASELINES,
    MIGRATION_VARIANTS,
    OBJECTIVE_VARIANTS,
    QOS_VARIANTS,
    with_settings,
)
from kubedsm_lab.replay.world import Run, Setup

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
#: scenario in the middle of the ten, tried with slower autoscalers
MIDDLE_SCENARIO = "1.5-.4"
#: scenarios on which the paper compares its variants: Figures 10 and 11 of the second version and
#: 14 of the first are of 1.4-.4, Figure 13 of the first is of 1.3-.4
VARIANT_SCENARIO, ONLY_D_SCENARIO = "1.4-.4", "1.3-.4"
#: scale-down stabilisation in seconds; the latter is Kubernetes' default
OTHER_STABILIZATIONS = (60, 300)
#: policies of every table, and the reference of comparisons
MAIN_POLICIES = (KUBEDSM, "paper-suggester", *BASELINES)
REFERENCE = "kube-scheduler"
#: tried values of settings, the defaults among them
TRIED_VALUES: Mapping[str, Sequence[str]] = {
    "migration.price": ("0s", "5s", "10s", "17s", "30s", "60s"),
    "objective.evenness": ("0", "0.3", "0.5", "0.65", "0.8"),
}
REDUCED_SEEDS, FULL_SEEDS = 1, 5
#: seconds for which the authors recorded the pods after the load
RECORDED_REST = 300.0
#: seconds of a request in the closed loop: one client reaches the scenarios' rates, as in the
#: authors' results
CLOSED_SERVICE_TIME = 0.005


def name_stabilized(seconds: int) -> str:
    """Return the name of the middle scenario with a scale-down stabilisation of the autoscalers in
    seconds.
    """
    return f"{MIDDLE_SCENARIO} stabilisation {seconds}s"


def as_recorded(scenario: str) -> str:
    """Return the name of the scenario's variant on the authors' nodes, recorded as by the authors:
    the load begins with one pod of each service, and a rest follows.
    """
    return f"{scenario} as recorded"


def closed_loop(scenario: str) -> str:
    """Return the name of the scenario's variant as recorded, with the authors' closed loop."""
    return f"{scenario} closed loop"


def list_tried(key: str) -> dict[str, str]:
    """Return the policy names for KubeDSM with each tried value of a setting, by value."""

    def name_policy(value: str) -> str:
        default = with_settings(Configuration(), {key: value}) == Configuration()
        return KUBEDSM if default else f"{key}={value}"

    return {value: name_policy(value) for value in TRIED_VALUES[key]}


def reduced(seeds: Sequence[int], setup: Setup) -> list[Run]:
    """Return the default runs of the evaluation: the main policies on ten scenarios, and those of
    the published figures.
    """
    return [*runs(_paper_sources(), MAIN_POLICIES, seeds, setup), *recorded(seeds, setup)]


def recorded(seeds: Sequence[int], setup: Setup) -> list[Run]:
    """Return the runs for the published figures: the main policies on ten scenarios, variants of
    migrations on one, and of QoS factors on two.
    """
    like_authors = attrs.evolve(
        setup, cluster=paper_cluster(recorded=True), rest=RECORDED_REST, closed_loop=False
    )
    found = runs(_name_sources(as_recorded, PAPER_SCENARIOS), MAIN_POLICIES, seeds, like_authors)
    migrating = [name for name in MIGRATION_VARIANTS if name not in MAIN_POLICIES]
    for scenario, variants in (
        (VARIANT_SCENARIO, [*migrating, *QOS_VARIANTS]),
        (ONLY_D_SCENARIO, list(QOS_VARIANTS)),
    ):
        found += runs(_name_sources(as_recorded, [scenario]), variants, seeds, like_authors)
    return found


def closed(seeds: Sequence[int], setup: Setup) -> list[Run]:
    """Return the runs for response times under both loops: KubeDSM and the reference policy on the
    ten scenarios as recorded, in the open and in the closed loop.
    """
    chosen = (KUBEDSM, REFERENCE)
    found = [run for run in recorded(seeds, setup) if run.policy in chosen]
    quick = tuple(
        attrs.evolve(service, server=attrs.evolve(service.server, service_time=CLOSED_SERVICE_TIME))
        for service in setup.services
    )
    loop = attrs.evolve(
        setup,
        cluster=paper_cluster(recorded=True),
        rest=RECORDED_REST,
        services=quick,
        closed_loop=True,
    )
    return found + runs(_name_sources(closed_loop, PAPER_SCENARIOS), chosen, seeds, loop)


def full(seeds: Sequence[int], setup: Setup) -> list[Run]:
    """Return the runs of the evaluation with `--full`: all policies, variants of migrations and of
    the objective, migration prices, and degrees of evenness.

    One scenario is repeated with slower autoscalers; the runs of the published figures follow.
    """
    tried = [policy for key in TRIED_VALUES for policy in list_tried(key).values()]
    policies = dict.fromkeys([*MAIN_POLICIES, *MIGRATION_VARIANTS, *OBJECTIVE_VARIANTS, *tried])
    found = runs(_paper_sources(), list(policies), seeds, setup)
    for seconds in OTHER_STABILIZATIONS:
        name = name_stabilized(seconds)
        slower = attrs.evolve(setup, stabilization_seconds=seconds)
        found += runs(
            [recipe(name, *PAPER_SCENARIOS[MIDDLE_SCENARIO])], MAIN_POLICIES, seeds, slower
        )
    return found + recorded(seeds, setup)


def _paper_sources() -> list[Source]:
    return _name_sources(str, PAPER_SCENARIOS)


def _name_sources(naming: Callable[[str], str], names: Iterable[str]) -> list[Source]:
    return [recipe(naming(name), *PAPER_SCENARIOS[name]) for name in names]
