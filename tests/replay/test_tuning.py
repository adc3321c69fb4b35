"""The runs that decide the defaults, and KubeDSM under changed settings."""

import pytest

from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import Configuration, with_settings
from kubedsm.kube.wire import decoding
from kubedsm.model.model import Tier, Tiers
from kubedsm_lab.replay.presets import PAPER_SCENARIOS
from kubedsm_lab.replay.tuning import (
    FACTORS,
    OSCILLATIONS,
    RANDOM_CLUSTERS,
    random_cluster,
    table,
    tuning,
)
from kubedsm_lab.replay.variants import UnknownPolicyError, contender
from kubedsm_lab.replay.world import Setup


def test_settings_change_what_they_name_and_nothing_else():
    changed = with_settings(
        Configuration(), {"suggester.period": "7s", "suggester.defragment": "true"}
    )
    assert changed.suggester.period == 7
    assert changed.suggester.defragment is True
    back = {"suggester.period": "5s", "suggester.defragment": "false"}
    assert with_settings(changed, back) == with_settings(Configuration(), back)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("suggester.perod", "5s", "suggester.perod: unknown key; did you mean period?"),
        ("suggester.period", "5", "suggester.period: 5 is not a duration"),
        ("suggester.period", "[", "not YAML"),
        ("schedulerName.x", "5", "schedulerName: no section"),
        ("", "5", "'': unknown key"),
    ],
)
def test_a_setting_that_is_none_is_refused(key, value, complaint):
    with pytest.raises(DocumentError, match="^" + complaint.replace("?", r"\?")):
        with_settings(Configuration(), {key: value})


def test_settings_make_a_contender():
    reconfigure = contender("suggester.period=7s+objective.gamma=3", ()).reconfigure
    changed = reconfigure(Configuration())
    assert (changed.suggester.period, changed.objective.gamma) == (7, 3)
    with pytest.raises(UnknownPolicyError, match="unknown key; did you mean period"):
        contender("suggester.perod=7s", ())


def test_every_setting_is_tried_everywhere():
    planned = tuning(range(1, 3), Setup())
    policies = {run.policy for run in planned}
    scenarios = len(PAPER_SCENARIOS) + RANDOM_CLUSTERS + len(OSCILLATIONS)
    assert len({run.name for run in planned}) == scenarios
    assert len(planned) == len(policies) * scenarios * 2
    tried = sum(len(values) for values in FACTORS.values())
    assert len(policies) == 1 + tried - len(FACTORS)  # each factor has the default once
    for policy in policies:
        contender(policy, ())


def test_random_clusters_are_scarce_at_the_edge_and_plentiful_in_the_cloud():
    seen = set()
    for number in range(1, RANDOM_CLUSTERS + 1):
        source, setup = random_cluster(number, Setup())
        again, same = random_cluster(number, Setup())
        assert (setup, source.scenario(1)) == (same, again.scenario(1))
        assert source.scenario(1) != source.scenario(2)
        assert all(spec.replicas[1] == (10 if number % 4 else 50) for spec in setup.services)
        assert set(setup.service_names) == set(source.scenario(1).services)
        nodes = [decoding.node(node) for node in setup.cluster.nodes]
        tiers = [Tiers().of(node.labels) for node in nodes]
        assert 2 <= tiers.count(Tier.EDGE) <= 6
        assert tiers.count(Tier.CLOUD) >= 1
        seen.add(str(setup.cluster.nodes))
    assert len(seen) == RANDOM_CLUSTERS


def test_the_table_has_the_default_in_every_factor_and_means_over_each_kind_of_clusters():
    def row(scenario, policy, ratio):
        return {
            "scenario": scenario,
            "policy": policy,
            "edgeRatio": ratio,
            "migrations": 10,
        }

    other = next(
        f"{key}={value}"
        for key, values in FACTORS.items()
        for value in values
        if with_settings(Configuration(), {key: value}) != Configuration()
    )
    means = [
        row("1.1-.4", "kubedsm", 0.5),
        row("1.2-.4", "kubedsm", 0.7),
        row("random-01", "kubedsm", 0.9),
        row("osc", "kubedsm", 0.2),
        row("1.1-.4", other, 0.1),
        row("random-01", other, 0.3),
        row("osc", other, 0.4),
    ]
    lines = table({"means": means}).splitlines()
    key, _, value = other.partition("=")
    default = "0.6000 | 10.0 | 0.9000 | 10.0 | 0.2000 | 10.0 | 0.7500 |"
    assert sum(default in line and "**" in line for line in lines) == len(FACTORS)
    assert f"| {key} | {value} | 0.1000 | 10.0 | 0.3000 | 10.0 | 0.4000 | 10.0 | 0.2000 |" in lines
