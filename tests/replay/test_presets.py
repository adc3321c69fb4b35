"""What the paper's evaluation is made of, and the sentence that its results begin with."""

from collections import Counter

import click
import pytest

from kubedsm.config.settings import Configuration
from kubedsm.model.model import Share, Workload
from kubedsm_lab.baselines.registry import ON_REQUEST
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec
from kubedsm_lab.emulator.paper import node, paper_cluster
from kubedsm_lab.replay.answer import answer
from kubedsm_lab.replay.evaluation import other_than_the_papers
from kubedsm_lab.replay.presets import (
    MAIN_POLICIES,
    PAPER_SCENARIOS,
    TRIED_VALUES,
    as_recorded,
    full,
    list_tried,
    name_stabilized,
    reduced,
)
from kubedsm_lab.replay.provenance import describe_runs
from kubedsm_lab.replay.sources import recipe
from kubedsm_lab.replay.variants import (
    BASELINES,
    CONTENDERS,
    QOS_VARIANTS,
    contender,
    with_settings,
)
from kubedsm_lab.replay.world import Run, Setup
from support import evaluations

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


def row(policy, ratio, scenario="load", **more):
    return evaluations.row(policy, scenario, ratio=ratio, **{"migrations": 0.0} | more)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [row("kubedsm", 0.8, migrations=9.75), row("kube-scheduler", 0.6)],
            (
                "KubeDSM kept 80 % at the edge where kube-scheduler kept 60 %,"
                " with 9.8 migrations per run and no lost capacity."
            ),
        ),
        (
            [row("kubedsm", 0.8, migrations=3.0, lostPodSeconds=1.25), row("kube-scheduler", 0.6)],
            (
                "KubeDSM kept 80 % at the edge where kube-scheduler kept 60 %,"
                " with 3 migrations per run that cost 1.2 pod-seconds of capacity per run."
            ),
        ),
        (
            [row("kubedsm", 0.5, migrations=1.0, seeds=1), row("kube-scheduler", 0.6)],
            (
                "KubeDSM kept 50 % at the edge, less than the 60 % of kube-scheduler,"
                " with 1 migration and no lost capacity."
            ),
        ),
        ([row("kubedsm", None)], "There is no edge ratio: a service never had a Ready pod."),
        # a variant that was played in the easier scenario alone is not told as better
        (
            [
                row("kubedsm", 0.9, scenario="easy"),
                row("kubedsm", 0.5),
                row("kube-scheduler", 0.8, scenario="easy"),
                row("kube-scheduler", 0.4),
                row("no-migration", 0.85, scenario="easy"),
            ],
            (
                "KubeDSM kept 70 % at the edge where kube-scheduler kept 60 %,"
                " with no migrations and no lost capacity."
            ),
        ),
    ],
)
def test_the_answer_says_who_is_ahead_and_what_it_cost(rows, said):
    assert answer({"means": rows}) == said


def test_the_paper_answers_for_its_ten_scenarios_and_not_for_variants_of_them():
    means = [
        row(policy, ratio, scenario=scenario)
        for scenario, ratios in (("1.5-.4", (0.8, 0.6)), (as_recorded("1.5-.4"), (0.2, 0.2)))
        for policy, ratio in zip(("kubedsm", "kube-scheduler"), ratios, strict=True)
    ]
    said = answer({"means": means}, over=PAPER_SCENARIOS)
    assert said.startswith("KubeDSM kept 80 % at the edge where kube-scheduler kept 60 %,")


@pytest.mark.parametrize(
    ("setup", "other"),
    [
        (Setup(), ""),
        (Setup(cluster=ClusterSpec((node("e", "edge", "1", "1G"),))), "nodes"),
        # as much as the paper's, and written by hand
        (Setup(cluster=ClusterSpec(paper_cluster().nodes)), ""),
        (Setup(services=Setup().services[:3]), "services"),
        (Setup(configuration=with_settings(Configuration(), {"batch.size": "9"})), "settings"),
    ],
)
def test_published_figures_are_beside_the_papers_own_set_up_only(setup, other):
    assert other_than_the_papers(setup) == other


def test_what_it_was_played_on_is_told():
    nodes = tuple(node(f"e{n}", "edge", "2", "1G") for n in range(9))
    setup = Setup(
        cluster=ClusterSpec((*nodes, node("c", "cloud", "9", "9G"))),
        configuration=with_settings(Configuration(), {"suggester.period": "9s"}),
    )
    runs = [Run("load", recipe("", 1, 0.4).scenario(1), "kubedsm", seed, setup) for seed in (1, 2)]
    text = describe_runs("Yes.", "## Then", runs, setup, "nodes.yaml", None)
    for part in (
        "**Yes.**\n",
        "**Emulated**",
        "- **scenarios**: `load`",
        "- **seeds**: 1 to 2",
        "- **settings**: `suggester.period: 9s`",
        "- **cluster**: `nodes.yaml`",
        "| e0 to e8: 9 nodes | edge | 2 | 1G |",
        "| c | cloud | 9 | 9G |",
        "| d | 2 | 1900Mi | 1 to 10 | 5 | 1 | 100ms |",
    ):
        assert part in text
