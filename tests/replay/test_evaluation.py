"""The tables of docs/explanation/evaluation.md, from small reports worked out by hand."""

from kubedsm_lab.replay.evaluation import sections
from kubedsm_lab.replay.presets import PAPER_SCENARIOS, as_recorded, closed_loop
from kubedsm_lab.replay.variants import CONTENDERS
from support.evaluations import lines_of, row


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
        row("kubedsm", "1.5-.1 equal rates", times=theirs | {"d": 120.0}),
        row("kube-scheduler", "1.5-.1 equal rates", times=theirs),
    ]
    assert lines_of("Response times by scenario", *rows)[1:] == [
        "| 1.1-.4 | -25.0 % | +10.0 % | +0.0 % | -40.0 % |",
        "| 1.5-.1 equal rates | +0.0 % | +0.0 % | +0.0 % | +20.0 % |",
        "| mean | -25.0 % | +10.0 % | +0.0 % | -40.0 % |",
    ]


def test_every_column_is_explained_or_is_called_by_a_name():
    """Those with a comma are of what is before it, under what is after it."""
    others = ("1.5-.4 equal rates", "1.5-.4 stabilisation 60s")
    recorded = [as_recorded(name) for name in PAPER_SCENARIOS]
    loop = [closed_loop(name) for name in PAPER_SCENARIOS]
    rows = [
        row(policy, scenario, podRatio=0.5, seed=1)
        for scenario in (*PAPER_SCENARIOS, *others, *recorded, *loop)
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
