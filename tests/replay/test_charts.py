"""What charts show: who looks how, axes, and pictures that a page takes apart again."""

import re

import pytest

from kubedsm_lab.replay.charts.bars import Bar, bars
from kubedsm_lab.replay.charts.lines import Line, key, lines
from kubedsm_lab.replay.charts.looks import Look, looks_of
from kubedsm_lab.replay.charts.panel import Panel, parts_of, picture
from kubedsm_lab.replay.charts.scales import ticks
from kubedsm_lab.replay.page import page
from kubedsm_lab.replay.plots import pictures
from kubedsm_lab.replay.report import assembled
from kubedsm_lab.replay.variants import CONTENDERS


def test_nobody_looks_like_another_and_everybody_looks_the_same_everywhere():
    settings = ["suggester.period=5s", "suggester.period=9s"]
    looks = looks_of([*settings, *CONTENDERS])
    assert len(set(looks.values())) == len(CONTENDERS) + len(settings)
    assert looks_of(["random"])["random"] == looks["random"]
    # Without colours there are patterns: those of every replay have one each.
    assert len({look.pattern for look in list(looks_of(list(CONTENDERS)[:6]).values())}) == 6


@pytest.mark.parametrize(
    ("top", "base", "expected"),
    [
        (1, 0, [0, 0.25, 0.5, 0.75, 1]),
        (295, 0, [0, 100, 200, 300]),
        (0, 0, [0, 1]),
        (0.78, 0.75, [0.75, 0.76, 0.77, 0.78]),
    ],
)
def test_axes_have_round_figures_that_hold_what_is_drawn(top, base, expected):
    assert ticks(top, 4, base) == pytest.approx(expected)


def test_a_page_takes_a_picture_apart_and_makes_nothing_of_what_names_say():
    look = Look(0, 1)
    panel = bars("<b>", [Bar("a & b", look, 0.5, (0.4, 0.6), 0.7, 0.2)], 1, str)
    drawn = picture("T & U", "1 < 2", [panel, key("who", [("x", look)])])
    title, about, panels = parts_of(drawn)
    assert (title, about, len(panels)) == ("T & U", "1 < 2", 2)
    assert "<b>" not in drawn.decode()
    shown = page("P", "one\n\n## two", {"t.svg": drawn})
    assert all(panel in shown for panel in panels)
    assert shown.index("T &amp; U") < shown.index("<h2>two</h2>")
    assert "prefers-color-scheme:dark" in drawn.decode()


def test_long_names_stand_above_their_bars():
    name = "suggester.period=30s+migration.cooldown=1m"
    short, long = (bars("t", [Bar(n, Look(0, 0), 1.0)], 1, str) for n in ("a", name))
    assert long.height > short.height
    assert f'x="0" y="37">{name}' in long.drawn()


def test_lines_that_are_level_are_both_seen():
    points = [(0.0, 0.0), (1.0, 1.0)]
    drawn = [Line(name, Look(i, i), points, steps=True) for i, name in enumerate("ab")]
    widths = re.findall(r'stroke-width="([\d.]+)"', lines("t", drawn, "x", "y").drawn())
    assert widths == ["4.5", "2"]


def test_what_not_all_played_is_compared_where_all_did():
    """A variant that only the harder scenario was played with is not better by that."""

    def run(scenario, policy, ratio):
        names = {"scenario": scenario, "policy": policy, "seed": 1}
        known = {"edgeRatio": ratio, "optimumShare": 1.0, "shares": {"a": ratio}}
        return names | known | {"latencyMs": {}, "migrations": 1, "lostPodSeconds": 0.0}

    runs = [run("1", "kubedsm", 0.9), run("2", "kubedsm", 0.5), run("2", "random", 0.6)]
    line = {"end": 1.0, "services": {"a": [(0.0, 1, 1)]}}
    found = assembled(runs, [{**each, **line} for each in runs])
    shares = parts_of(pictures(found)["edge-share-by-service.svg"])
    assert "scenario 2." in shares[1]
    assert ">50 %</text>" in shares[2][0]
    assert ">70 %</text>" not in shares[2][0]


def test_a_panel_is_as_wide_as_a_phone():
    assert Panel("t").width <= 360


def test_headings_say_what_the_list_below_them_says_and_policies_have_their_colour():
    table = "| policy | ms |\n| --- | ---: |\n| random | 1 |"
    shown = page("P", f"{table}\n\n- **ms**: how <long>\n\n## More\n\n{table}", {}, ["random"])
    assert shown.count('<abbr title="how &lt;long&gt;">ms</abbr>') == 2
    assert "<abbr" not in page("P", table)
    assert "not run" not in page("P", "a\n\n<!-- not run: why -->\n```sh\nb\n```\n")
    colour = f'class="f{looks_of(["random"])["random"].colour}"'
    assert shown.count(colour) == 2
    assert colour not in page("P", table)
