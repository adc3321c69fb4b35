"""`kubedsm replay --preset functions`: the published distributions, and means with intervals."""

import random
import statistics

import pytest

from kubedsm_lab.replay import functions
from kubedsm_lab.replay.functions import (
    APPLICATIONS,
    HOUR,
    HOURS,
    MOST_PODS,
    Application,
    draw_run,
    invocations_per_day,
)
from kubedsm_lab.replay.runner import Outcome, carry_out
from kubedsm_lab.replay.services import UTILISATION
from kubedsm_lab.replay.tables import with_interval


def test_applications_have_the_published_distributions():
    rng = random.Random(1)
    drawn = [Application.draw(rng) for _ in range(20_000)]
    memory = sorted(each.memory for each in drawn)
    # the fitted Burr distribution: half of the applications have at most 140 MiB, most 90% 270 MiB
    assert memory[10_000] == pytest.approx(140, rel=0.02)
    assert memory[18_000] == pytest.approx(266, rel=0.05)
    seconds = [each.seconds for each in drawn]
    assert statistics.median(seconds) == pytest.approx(0.684, rel=0.05)
    assert max(seconds) == 60
    per_day = [86400 * each.rate for each in drawn]
    assert sum(n <= 24 for n in per_day) / 20_000 == pytest.approx(0.45, abs=0.01)
    assert sum(n <= 1440 for n in per_day) / 20_000 == pytest.approx(0.81, abs=0.03)


def test_daily_invocations_are_interpolated_between_published_quantiles():
    assert invocations_per_day(0.45) == pytest.approx(24)
    assert invocations_per_day(0.63) == pytest.approx((24 * 1440) ** 0.5)
    assert invocations_per_day(0.81) == pytest.approx(1440)
    assert invocations_per_day(1.0) / invocations_per_day(0.0) == pytest.approx(1e8)


def test_load_is_poisson_and_needs_no_more_than_the_greatest_number_of_pods():
    busy = Application(128, 0.1, 50 * UTILISATION)
    rates = [rate.rate for rate in busy.load("app", random.Random(1)).intervals]
    assert len(rates) == HOURS
    assert statistics.fmean(rates) == pytest.approx(busy.rate, rel=0.03)
    # the least hour has half of the greatest
    assert min(rates) / max(rates) == pytest.approx(0.5, abs=0.1)
    limit = MOST_PODS * UTILISATION
    for seed in range(1, 40):
        for service in draw_run(seed, "kubedsm").setup.services:
            assert service.replicas == (1, MOST_PODS)
        rng = random.Random(seed)
        assert all(
            each.rate * each.seconds <= limit
            for each in (Application.draw(rng) for _ in range(APPLICATIONS))
        )


def test_a_seed_has_the_same_applications_for_each_policy():
    ours, theirs = draw_run(3, "kubedsm"), draw_run(3, "kube-scheduler")
    assert ours.scenario == theirs.scenario
    assert ours.setup.services == theirs.setup.services
    assert draw_run(4, "kubedsm").scenario != ours.scenario
    assert ours.scenario.duration == HOUR * HOURS


def test_tables_have_means_and_paired_differences(monkeypatch):
    monkeypatch.setattr(functions, "APPLICATIONS", 3)
    one = carry_out(draw_run(1, "kube-scheduler"))
    outcomes = [
        Outcome(one.scenario, policy, seed, one.measures, {}, one.end)
        for policy in ("kubedsm", "kube-scheduler")
        for seed in (1, 2, 3)
    ]
    means, differences = (tabulate(outcomes) for tabulate in functions.TABLES.values())
    ratio = f"{one.measures.edge_ratio:.3f}"
    assert means[1][0][:2] == ["kubedsm", f"{ratio} ({ratio} to {ratio})"]
    assert [line[0] for line in means[1]] == ["kubedsm", "kube-scheduler"]
    assert differences[1] == [["kubedsm", *["0.000 (0.000 to 0.000)"] * 2,
                                     "0.0 (0.0 to 0.0)", "0.0 (0.0 to 0.0)",
                                     "0.00 (0.00 to 0.00)", "0.000 (0.000 to 0.000)"]]  # fmt: skip
    assert functions.answer(outcomes) == (
        f"KubeDSM kept {ratio} of the pods of 3 serverless applications at the edge,"
        f" kube-scheduler {ratio}."
    )
    assert with_interval([1.0, 2.0], 1) == "1.5"
