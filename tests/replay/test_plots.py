"""Looks of policies, pictures that a page takes apart again, and what a page explains."""

import re
import subprocess
import sys
from xml.etree import ElementTree as ET

from kubedsm_lab.replay.page import render_page
from kubedsm_lab.replay.pictures import draw_report
from kubedsm_lab.replay.plots import (
    COLOURS,
    Bar,
    Line,
    Look,
    assign_looks,
    plot_bars,
    plot_curve,
    plot_key,
    plot_lines,
    render_picture,
    split_picture,
)
from kubedsm_lab.replay.report import assemble_report
from kubedsm_lab.replay.variants import CONTENDERS


def test_nobody_looks_like_another_and_everybody_looks_the_same_everywhere():
    settings = ["suggester.period=5s", "suggester.period=9s"]
    looks = assign_looks([*settings, *CONTENDERS])
    assert len(set(looks.values())) == len(CONTENDERS) + len(settings)
    assert assign_looks(["random"])["random"] == looks["random"]
    # Without colours there are patterns: those of every replay have one each.
    assert len({look.pattern for look in list(assign_looks(list(CONTENDERS)[:6]).values())}) == 6


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


def test_pictures_are_as_light_or_dark_as_their_page():
    bars = [Bar(str(at), Look(at, at), 0.5) for at in range(6)]
    drawn = render_picture("T", "about", [plot_bars("t", bars, 1, str)]).decode()
    for at, (light, dark) in enumerate(COLOURS[:6]):
        assert drawn.count(light) == drawn.count(f"var(--c{at}, {light})") > 0
        assert f"--c{at}: {dark}" in render_page("P", "one")


def test_long_names_are_whole():
    name = "suggester.period=30s+migration.cooldown=1m"
    drawn = render_picture("T", "about", [plot_bars("t", [Bar(name, Look(0, 0), 1.0)], 1, str)])
    shown = re.findall("<text[^>]*>([^<]*)</text>", drawn.decode())
    assert "".join(each for each in shown if each in name and len(each) > 5) == name


def test_lines_that_are_level_are_both_seen():
    points = [(0.0, 0.0), (1.0, 1.0)]
    lines = [Line(name, Look(i, i), points, steps=True) for i, name in enumerate("ab")]
    drawn = render_picture("T", "about", [plot_lines("t", lines, "x", "y")]).decode()
    assert "stroke-width: 3.4" in drawn
    assert "stroke-width: 1.5" in drawn


def test_points_of_a_curve_have_their_names():
    curve = plot_curve("t", {"5s": (1.0, 0.7), "60s": (9.0, 0.6)}, Look(0, 0), "moves", "ratio")
    drawn = render_picture("T", "about", [curve]).decode()
    assert all(f">{name}</text>" in drawn for name in ("5s", "60s", "moves", "ratio"))


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
