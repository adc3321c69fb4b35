"""Looks of policies, pictures that a page takes apart again, and what a page explains."""

import subprocess
import sys
from xml.etree import ElementTree as ET

from kubedsm_lab.replay.page import render_page
from kubedsm_lab.replay.pictures import draw_report
from kubedsm_lab.replay.plots import (
    Bar,
    Look,
    assign_looks,
    plot_bars,
    plot_key,
    render_picture,
    split_picture,
)
from kubedsm_lab.replay.report import assemble_report
from kubedsm_lab.replay.variants import CONTENDERS


def test_a_page_takes_a_picture_apart_and_makes_nothing_of_what_names_say():
    look = Look(0, 1)
    bars = plot_bars("<b>", [Bar("a & b", look, 0.5, (0.4, 0.6), 0.7, 0.2)], 1, str)
    drawn = render_picture("T & U", "1 < 2", [bars, plot_key("who", {"x": look})])
    assert drawn == render_picture("T & U", "1 < 2", [bars, plot_key("who", {"x": look})])
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

    def run(scenario, policy, ratio):
        names = {"scenario": scenario, "policy": policy, "seed": 1}
        known = {"edgeRatio": ratio, "optimumShare": 1.0, "shares": {"a": ratio}}
        return names | known | {"latencyMs": {}, "migrations": 1, "lostPodSeconds": 0.0}

    runs = [run("1", "kubedsm", 0.9), run("2", "kubedsm", 0.5), run("2", "random", 0.6)]
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


def test_nothing_is_imported_to_draw_with_until_something_is_drawn():
    code = "import sys, kubedsm_lab.replay.command; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nobody_looks_like_another_and_everybody_looks_the_same_everywhere():
    settings = ["suggester.period=5s", "suggester.period=9s"]
    looks = assign_looks([*settings, *CONTENDERS])
    assert len(set(looks.values())) == len(CONTENDERS) + len(settings)
    assert assign_looks(["random"])["random"] == looks["random"]
    # Without colours there are patterns: those of every replay have one each.
    assert len({look.pattern for look in list(assign_looks(list(CONTENDERS)[:6]).values())}) == 6
