"""Results of several recordings side by side: looks, pictures, and what a page explains."""

from xml.etree import ElementTree as ET

import orjson
import pytest

from kubedsm.config.documents import DocumentError
from kubedsm.model.model import Tier
from kubedsm_lab.replay.measures import Answers, ResponseTimes, measures_of
from kubedsm_lab.replay.page import RESULTS, render_page
from kubedsm_lab.replay.pictures import draw_report
from kubedsm_lab.replay.plots import (
    Bar,
    Look,
    assign_looks,
    plot_bars,
    render_picture,
    split_picture,
)
from kubedsm_lab.replay.recording import Record
from kubedsm_lab.replay.report import assemble_report, in_a_sentence, join_reports, plain_tables
from kubedsm_lab.replay.runner import Outcome
from kubedsm_lab.replay.timeline import Life, Timeline
from kubedsm_lab.replay.variants import CONTENDERS
from support.evaluations import row
from support.policy_clusters import MI, node, pod

MEASURED = {"emulated": False, "measured": "measured on a cluster (Kubernetes v1)"}
EDGE = node("e1", Tier.EDGE, 1, 1000 * MI)


@pytest.fixture
def folder(tmp_path):
    def write(name, policy, *, edge_until, mean=None, how=MEASURED):
        """10 s of one pod on the edge until then, and another in the cloud from then on."""
        spans = ((Tier.EDGE, 0.0, edge_until), (Tier.CLOUD, edge_until, 10.0))
        lives = tuple(Life("a", -1.0, -0.5, tier, ((a, b),)) for tier, a, b in spans)
        record = Record(Timeline(10.0, lives, {"a": ((-1.0, 1),)}), (EDGE,), {"a": pod("a")})
        times = ResponseTimes(1000 * mean, 1000 * mean) if mean else ResponseTimes()
        answers = (
            Answers({"a": times}, times, 0, {"a": {Tier.EDGE: 1000 * mean}}) if mean else Answers()
        )
        outcome = Outcome(
            "load", policy, 1, measures_of(record, answers), record.timeline.placements(), 10.0
        )
        found = how | assemble_report([outcome.as_json()], [outcome.timeline_json()])
        (tmp_path / name).mkdir()
        (tmp_path / name / RESULTS).write_bytes(orjson.dumps(found))
        return tmp_path / name

    return write


def test_policies_stand_side_by_side_and_runs_of_one_are_taken_together(folder):
    found = join_reports(
        [
            folder("1", "kubedsm", edge_until=8.0, mean=0.1),
            folder("2", "kube-scheduler", edge_until=2.0, mean=0.3),
            folder("3", "kubedsm", edge_until=6.0, mean=0.2),
        ]
    )
    assert {key: found[key] for key in MEASURED} == MEASURED
    assert [(run["policy"], run["seed"]) for run in found["runs"]] == [
        ("kubedsm", 1), ("kube-scheduler", 1), ("kubedsm", 2)
    ]  # fmt: skip
    ours, theirs = found["means"]
    assert (ours["edgeRatio"], theirs["edgeRatio"]) == (0.7, 0.2)
    assert ours["latencyMs"]["a"]["mean"] == ours["tierLatencyMs"]["a"]["edge"] == 150
    assert [line["policy"] for line in found["timelines"]] == ["kubedsm", "kube-scheduler"]
    # what nobody knows has no column
    assert "| policy | service | edge share | mean ms | p95 ms | edge ms |\n" in plain_tables(found)
    assert "| kubedsm | a | 0.700 | 150.0 | 150.0 | 150.0 |" in plain_tables(found)
    assert in_a_sentence(found) == "Measured on a cluster (Kubernetes v1)."
    shown = render_page("kubedsm record", plain_tables(found), draw_report(found))
    assert "means of 2 runs" in shown
    assert "virtual" not in shown


def test_what_was_measured_otherwise_is_not_compared(folder):
    real = folder("1", "kubedsm", edge_until=8.0)
    replayed = folder("2", "kubedsm", edge_until=8.0, how={"emulated": True})
    with pytest.raises(DocumentError) as refused:
        join_reports([real, replayed])
    assert str(refused.value) == (
        f"{replayed}: found on an emulated cluster in virtual time, and the first ones were"
        " measured on a cluster (Kubernetes v1)"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file or directory"),
        ("{", "not JSON: Input data was truncated"),
        ("[]", "expected `object`, got `array`"),
        ('{"emulated": true, "runs": [], "timelines": []}', "no run in it"),
        (
            '{"emulated": true, "runs": [{"scenario": 1}], "timelines": []}',
            "runs[0].scenario: expected `str`, got `int`",
        ),
    ],
)
def test_a_folder_without_results_is_refused_in_one_line(text, reason, tmp_path):
    if text is not None:
        (tmp_path / RESULTS).write_text(text)
    with pytest.raises(DocumentError) as refused:
        join_reports([tmp_path])
    assert str(refused.value) == f"{tmp_path / RESULTS}: {reason}"


def test_a_page_takes_a_picture_apart_and_makes_nothing_of_what_names_say():
    bars = plot_bars("<b>", [Bar("a & b", Look(0, 1), 0.5, (0.4, 0.6), 0.7, 0.2)], 1, str)
    drawn = render_picture("T & U", "1 < 2", [bars])
    assert drawn == render_picture("T & U", "1 < 2", [bars])
    title, about, panels = split_picture(drawn)
    assert (title, about) == ("T & U", "1 < 2")
    assert "<b>" not in drawn.decode()
    ET.fromstring(drawn)  # noqa: S314 - our own
    shown = render_page("P", "one\n\n## two", {"t.svg": drawn})
    assert panels in shown
    assert shown.index("T &amp; U") < shown.index("<h2>two</h2>")
    # The page has the heading in words of its own, and shows the panels below it alone.
    assert panels.partition("viewBox")[2] != drawn.decode().partition("viewBox")[2]
    assert 'role="img" aria-label="T &amp; U"' in shown


def test_what_not_all_played_is_compared_where_all_did():
    """A variant that only the harder scenario was played with is not better by that."""

    played = (("1", "kubedsm", 0.9), ("2", "kubedsm", 0.5), ("2", "random", 0.6))
    runs = [row(policy, name, ratio=ratio) for name, policy, ratio in played]
    line = {"end": 1.0, "services": {"a": [(0.0, 1, 1)]}}
    found = assemble_report(runs, [{**each, **line} for each in runs])
    _, about, drawn = split_picture(draw_report(found)["edge-share-by-service.svg"])
    assert "scenario 2." in about
    assert ">50 %</text>" in drawn
    assert ">70 %</text>" not in drawn


def test_a_page_shows_tables_that_scroll_and_no_comment():
    table = "| policy | ms |\n| --- | ---: |\n| random | 1 |"
    shown = render_page("P", f"{table}\n\n- **ms**: how <long>\n\n## More\n\n{table}")
    assert shown.count('<div class="scroll"><table>') == 2
    assert "how &lt;long&gt;" in shown
    assert "not run" not in render_page("P", "a\n\n<!-- not run: why -->\n```sh\nb\n```\n")


def test_nobody_looks_like_another_and_everybody_looks_the_same_everywhere():
    settings = ["suggester.period=5s", "suggester.period=9s"]
    looks = assign_looks([*settings, *CONTENDERS])
    assert len(set(looks.values())) == len(CONTENDERS) + len(settings)
    assert assign_looks(["random"])["random"] == looks["random"]
    # Without colours there are patterns: those of every replay have one each.
    assert len({look.pattern for look in list(assign_looks(list(CONTENDERS)[:6]).values())}) == 6
