"""The tables of docs/explanation/evaluation.md, from small reports worked out by hand."""

from kubedsm_lab.replay.evaluation import sections, tables
from kubedsm_lab.replay.presets import PAPER_SCENARIOS
from kubedsm_lab.replay.variants import CONTENDERS


def row(policy, scenario="1.5-.4", *, ratio=0.5, times=None, shares=None, **more):
    """times: the mean response time by service; half of it is the network's."""
    latencies = {
        name: {"mean": mean, "p95": 2 * mean, "network": mean / 2}
        for name, mean in (times or {"a": 100.0}).items()
    }
    return {
        "scenario": scenario,
        "policy": policy,
        "seeds": 2,
        "edgeRatio": ratio,
        "optimumShare": 0.9,
        "std": 0.1,
        "shares": shares or dict.fromkeys("abcd", ratio),
        "latencyMs": latencies,
        "overallLatencyMs": latencies["a"],
        "migrations": 3.0,
        "youngMigrations": 1.0,
        "takenBack": 0.0,
        "lostPodSeconds": 0.0,
        "pendingSeconds": {"mean": 0.1, "p95": 0.2},
        "onOneNode": {"services": 1.25, "avoidable": 0.5},
    } | more


def lines_of(title, *rows):
    """The lines of a section's tables, without their rules."""
    parts = tables({"means": rows}).split("## ")
    (found,) = [part for part in parts if part.startswith(f"{title}\n")]
    return [line for line in found.splitlines() if line.startswith("| ") and "---" not in line]


def test_edge_ratios_stand_beside_what_was_published():
    lines = lines_of("Edge ratio", row("kubedsm", ratio=0.8), row("kube-scheduler", ratio=0.6))
    assert lines == [
        "| policy | 1.5-.4 | mean |",
        "| kubedsm | 0.800 (0.77) | 0.800 (0.77) |",
        "| kube-scheduler | 0.600 (0.64) | 0.600 (0.64) |",
    ]


def test_response_times_stand_beside_each_published_figure():
    ours = {"a": 75.0, "b": 110.0, "c": 100.0, "d": 60.0}
    theirs = dict.fromkeys("abcd", 100.0)
    rows = [
        row("kubedsm", "1.1-.4", times=ours),
        row("kube-scheduler", "1.1-.4", times=theirs),
        row("kubedsm", "1.5-.1", times=theirs | {"a": 85.0}),
        row("kube-scheduler", "1.5-.1", times=theirs),
        row("biggest-edge-first", "1.5-.1", times=dict.fromkeys("abcd", 80.0)),
        row("kubedsm", "1.6-.4", times=ours),
        row("kube-scheduler", "1.6-.4", times=theirs),
        row("kubedsm", "1.5-.1 equal rates", times=theirs | {"c": 99.96, "d": 120.0}),
        row("kube-scheduler", "1.5-.1 equal rates", times=theirs),
    ]
    assert lines_of("Response times by scenario", *rows)[1:] == [
        "| 1.1-.4 | -25.0 % (-25) | +10.0 % (-40) | +0.0 % (-12.5) | -40.0 % (-36.8) |",
        "| 1.6-.4 | -25.0 % | +10.0 % | +0.0 % | -40.0 % |",
        "| 1.5-.1 | -15.0 % (-17.5) | +0.0 % (-27.8) | +0.0 % (-29.5) | +0.0 % (-42.79) |",
        # of A (-25 - 15) / 2 and (-25 - 17.5) / 2; 1.6-.4 was not published
        (
            "| mean of those published | -20.0 % (-21.25) | +5.0 % (-33.9) | +0.0 % (-21) "
            "| -20.0 % (-39.8) |"
        ),
        "| 1.5-.1 equal rates | +0.0 % | +0.0 % | +0.0 % | +20.0 % |",
        # 85 and 100 to 80
        "| 1.5-.1, against biggest-edge-first | +6.2 % | +25.0 % | +25.0 % | +25.0 % (+39.7) |",
    ]


def test_every_column_is_explained_or_is_called_by_a_name():
    """Those with a comma are of what is before it, under what is after it."""
    rows = [
        row(policy, scenario)
        for scenario in (*PAPER_SCENARIOS, "1.5-.4 equal rates", "1.5-.4 stabilisation 60s")
        for policy in (*CONTENDERS, "migration.price=0s", "objective.evenness=0")
    ]
    named = {*PAPER_SCENARIOS, *"ABCDabcd", "60 s", "figure", "mean"}
    shown = sections(rows)
    assert all(each.table[1] for each in shown)
    for each in shown:
        first, *others = each.table[0]
        unknown = {heading.partition(",")[0] for heading in others} - named - set(each.columns)
        assert (each.title, first, unknown) == (each.title, first, set())
