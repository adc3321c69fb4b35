"""Tables of docs/explanation/evaluation.md and rankings, worked out by hand."""

import statistics

import pytest

from kubedsm_lab.replay.evaluation import sections
from kubedsm_lab.replay.figures import weigh
from kubedsm_lab.replay.presets import PAPER_SCENARIOS, as_recorded, closed_loop
from kubedsm_lab.replay.published import PUBLISHED
from kubedsm_lab.replay.rankings import Difference, Place, Ranking, everyone, ours_and_best
from kubedsm_lab.replay.tables import bootstrap_interval
from kubedsm_lab.replay.variants import CONTENDERS
from support.evaluations import lines_of, row

KUBE = "kube-scheduler"


def recorded(policy, shares, scenario="1.4-.4", **more):
    by_name = dict(zip("abcd", shares, strict=True))
    return row(policy, as_recorded(scenario), shares=by_name, podRatio=0.7, **more)


def test_published_deviations_are_those_of_the_published_shares():
    """Figures 8 and 9, read off the vectors of the second version's PDF."""
    read = {
        "kubedsm": (0.018, 0.022, 0.074, 0.033, 0.015, 0.117, 0.013, 0.054, 0.033, 0.019),
        KUBE: (0.062, 0.088, 0.059, 0.074, 0.083, 0.071, 0.061, 0.067, 0.034, 0.033),
        "random": (0.082, 0.117, 0.098, 0.091, 0.086, 0.092, 0.046, 0.129, 0.068, 0.094),
    }
    for policy, deviations in read.items():
        ours = [statistics.pstdev(shares) for shares in PUBLISHED.kubedsm.shares[policy]]
        assert ours == pytest.approx(deviations, abs=6e-4)


def test_ratio_and_deviation_stand_beside_the_published_ones():
    rows = [recorded("kubedsm", (0.9, 0.8, 0.9, 0.8))]
    ratios = lines_of("Figures 4 and 5: edge ratio", *rows)
    assert ratios[1].split(" | ")[4] == "0.700 (0.77)"
    deviations = lines_of("Figures 8 and 9: deviation over services", *rows)
    assert deviations[1].split(" | ")[4] == "0.050 (0.033)"
    shares = lines_of("Figures 6 and 7: edge share by service", *rows)
    assert shares[1:] == [
        "| kubedsm, 1.4-.4 | 0.90 (0.83) | 0.80 (0.78) | 0.90 (0.75) | 0.80 (0.75) |"
    ]


def test_variants_stand_at_the_scenario_of_their_figure():
    base = (0.8, 0.8, 0.8, 0.6)
    rows = [
        recorded("kubedsm", base),
        recorded("mid-migration", base),
        recorded("c-over-a", (0.8, 0.7, 0.9, 0.6)),
        recorded("kubedsm", base, "1.3-.4"),
        recorded("only-d", (0.7, 0.7, 0.7, 0.9), "1.3-.4"),
    ]
    migrations = lines_of("Figure 10: migrations", *rows)
    assert migrations[1:] == [
        "| kubedsm | 0.700 (0.77) | 3.0 |",
        "| mid-migration | 0.700 (0.81) | 3.0 |",
    ]
    factors = lines_of("Figure 11: QoS factors", *rows)
    assert "| c-over-a, 1.4-.4 | 0.80 (0.83) | 0.70 (0.76) | 0.90 (0.87) | 0.60 (0.72) |" in factors
    assert "| only-d, 1.3-.4 | 0.70 | 0.70 | 0.70 | 0.90 |" in factors
    times = lines_of("First version, Figures 13 to 15: variants", *rows)
    # of C 75 ms instead of 100, of D 75 instead of 150
    assert any("c-over-a, 1.4-.4" in line and "-25.0 % (-17 %)" in line for line in times)
    assert any("only-d, 1.3-.4" in line and "-50.0 % (-5 %)" in line for line in times)


def test_response_times_weight_each_pod_by_its_tier():
    assert (weigh(1.0), weigh(0.0), weigh(0.5)) == (50, 300, 175)
    rows = [recorded("kubedsm", (0.8,) * 4), recorded(KUBE, (0.6,) * 4)]
    (found,) = lines_of("First version, Figures 4 to 12: response times", *rows)[1:]
    # 100 ms instead of 150; of the published shares 92.5 instead of 125
    assert found.startswith("| 1.4-.4, against kube-scheduler | -33.3 % (-22.28; -26.0 %) |")


def test_both_loops_have_intervals_over_the_seeds():
    times = {"kubedsm": (90.0, 80.0, 70.0), KUBE: (100.0, 100.0, 100.0)}
    runs = [
        recorded(policy, (0.5,) * 4, name, seed=seed, times=dict.fromkeys("abcd", mean))
        | {"scenario": naming(name)}
        for name in PAPER_SCENARIOS
        for naming in (as_recorded, closed_loop)
        for policy, means in times.items()
        for seed, mean in enumerate(means, 1)
    ]
    lines = lines_of("Response times in both loops", *runs, runs=runs)
    assert lines[1].startswith("| all scenarios, A | -20.0 % [-30.0, -10.0] | -20.0 %")
    assert "| +0.0 % [+0.0, +0.0] | -23.0 % |" in lines[1]
    assert len(lines) == 1 + 4 * (1 + len(PAPER_SCENARIOS))


def test_an_interval_needs_three_values_and_has_the_figure_in_it():
    assert bootstrap_interval([1.0, 2.0], statistics.fmean) is None
    values = [float(number) for number in range(21)]
    low, high = bootstrap_interval(values, statistics.fmean)
    # the normal interval of the mean is 10 +- 2.6
    assert (low, high) == pytest.approx((7.4, 12.6), abs=0.3)
    assert bootstrap_interval(values, statistics.fmean) == (low, high)


def test_edge_ratios_are_by_scenario_and_their_mean():
    rows = [row("kubedsm", "1.4-.4", ratio=0.8), row("kubedsm", "1.5-.4", ratio=0.6)]
    assert lines_of("Edge ratio", *rows) == [
        "| policy | 1.4-.4 | 1.5-.4 | mean |",
        "| kubedsm | 0.800 | 0.600 | 0.700 |",
    ]


def test_response_times_are_in_percent_of_kube_schedulers():
    ours = {"a": 75.0, "b": 110.0, "c": 99.96, "d": 60.0}
    theirs = dict.fromkeys("abcd", 100.0)
    rows = [
        row("kubedsm", "1.1-.4", times=ours),
        row("kube-scheduler", "1.1-.4", times=theirs),
    ]
    assert lines_of("Response times by scenario", *rows)[1:] == [
        "| 1.1-.4 | -25.0 % | +10.0 % | +0.0 % | -40.0 % |",
        "| mean | -25.0 % | +10.0 % | +0.0 % | -40.0 % |",
    ]


def test_every_column_is_explained_or_is_called_by_a_name():
    """Those with a comma are of what is before it, under what is after it."""
    recorded = [as_recorded(name) for name in PAPER_SCENARIOS]
    loop = [closed_loop(name) for name in PAPER_SCENARIOS]
    rows = [
        row(policy, scenario, podRatio=0.5, seed=1)
        for scenario in (*PAPER_SCENARIOS, "1.5-.4 stabilisation 60s", *recorded, *loop)
        for policy in (*CONTENDERS, "migration.price=0s", "objective.evenness=0")
    ]
    rows = [each | {"latencyMs": dict.fromkeys("abcd", each["latencyMs"]["a"])} for each in rows]
    named = {*PAPER_SCENARIOS, *"ABCDabcd", "60 s", "figure", "mean"}
    shown = sections({"means": rows, "runs": rows})
    assert all(each.table[1] for each in shown)
    for each in shown:
        first, *others = each.table[0]
        unknown = {heading.partition(",")[0] for heading in others} - named - set(each.columns)
        assert (each.title, first, unknown) == (each.title, first, set())


AHEAD, LEVEL, BEHIND = Place.AHEAD, Place.LEVEL, Place.BEHIND


def ranking(noise=0.0, *, less_is_better=True, **values):
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return Ranking("p99", "ms", less_is_better, named, noise)


@pytest.mark.parametrize(
    ("noise", "less", "ours", "theirs", "place"),
    [
        (0, True, 75, 100, AHEAD),
        (0, False, 75, 100, BEHIND),
        (0, True, 100, 100, LEVEL),
        (0.25, True, 75, 100, LEVEL),
        (0.25, True, 100, 75, LEVEL),
        (0.24, True, 75, 100, AHEAD),
        (0.24, True, 100, 75, BEHIND),
        (0.24, False, 100, 75, AHEAD),
    ],
)
def test_two_are_level_within_the_noise(noise, less, ours, theirs, place):
    found = ranking(noise, less_is_better=less, kubedsm=ours, other=theirs)
    assert found.difference.place is place
    assert (len(found.winners) == 2) is (place is LEVEL)


def test_ours_is_compared_with_the_best_of_the_others():
    found = ranking(kubedsm=60, cache_scheduler=40, kube_scheduler=50)
    assert found.difference == Difference("cache-scheduler", 60, 40, BEHIND)
    assert (found.difference.by, found.difference.percent) == (20, 50)
    assert found.ranked == ["cache-scheduler", "kube-scheduler", "kubedsm"]
    assert found.winners == ["cache-scheduler"]


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_figure_that_is_not_known_is_left_out(value):
    with pytest.raises(ValueError, match="p99: a figure is not finite"):
        ranking(kubedsm=1, other=value)


def test_the_tables_of_several():
    both = [
        ranking(kubedsm=75.04, other=100),
        Ranking("Jain", "", less_is_better=False, values={"kubedsm": 0.99172, "third": 0.5}),
        ranking(kubedsm=1234.5, other=0),
        ranking(kubedsm=12.5, other=2),
        ranking(kubedsm=0, other=0),
    ]
    headings, lines = ours_and_best(both)
    assert len(headings) == len(lines[0])
    assert lines == [
        ["p99", "kubedsm: 75.04 ms", "other: 100 ms", "-24.96 ms (-25.0 %)", "ahead"],
        ["Jain", "kubedsm: 0.9917", "third: 0.5", "+0.4917 (+98.3 %)", "ahead"],
        ["p99", "kubedsm: 1,234 ms", "other: 0 ms", "+1234 ms", "behind"],
        ["p99", "kubedsm: 12.5 ms", "other: 2 ms", "+10.5 ms (6.2 times)", "behind"],
        ["p99", "kubedsm: 0 ms", "other: 0 ms", "0", "level"],
    ]
    assert everyone(both[:2]) == (
        ["figure", "kubedsm", "other", "third", "level within"],
        [
            ["p99, ms", "**75.04**", "100", "-", "0 %"],
            ["Jain", "**0.9917**", "-", "0.5", "0 %"],
        ],
    )


@pytest.mark.parametrize("values", [{}, {"kubedsm": 1}, {"other": 1}])
def test_nobody_is_compared_with_nobody(values):
    found = ranking(**values)
    assert found.difference is None
    assert ours_and_best([found])[1] == []
