"""The dashboard as a picture: how numbers and series are written, and that all kinds are drawn."""

import io
import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from draw_dashboard.__main__ import HEADING, ROW, WIDTH, draw, main
from draw_dashboard.panels import KINDS, UNITS, format_value, join_rows, layout_legend
from draw_dashboard.prometheus import Curve, fill_variables, series_name
from support.dashboard import PANELS, one_of_each_kind

TIMES = np.arange(0.0, 181.0)
NAN = float("nan")


def curve(name="", values=(1.0,), **labels):
    return Curve(name, labels, np.resize(np.array(values), len(TIMES)))


class Answering:
    """As a Prometheus that gives each query the same."""

    times = TIMES

    def __init__(self, *curves):
        self.curves = list(curves)

    def query_panel(self, panel):
        return [self.curves for _ in panel["targets"]]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "short", "0"),
        (999, "short", "999"),
        (1500, "short", "1.5 K"),
        (0.0123, "short", "0.0123"),
        (0, "percentunit", "0%"),
        (0.125, "percentunit", "12.5%"),
        (1, "percentunit", "100%"),
        (0.00234, "s", "2.34 ms"),
        (0.00002, "s", "20 µs"),
        (90, "s", "1.5 min"),
        (2**20 * 130, "bytes", "130 MiB"),
        (125e6, "Bps", "125 MB/s"),
        (0, "Bps", "0 B/s"),
        (0.5, "ops", "0.5 ops/s"),
        (2500, "reqps", "2.5 kreq/s"),
    ],
)
def test_numbers_are_written_by_their_unit(value, unit, text):
    assert format_value(value, unit) == text


def test_decimals_are_those_that_are_asked_for():
    assert format_value(2.4, "short", 0) == "2"
    assert format_value(0.666, "percentunit", 0) == "67%"


def test_variables_of_grafana_are_filled_in():
    assert fill_variables('a{b=~"$b"}[${c}]', {"b": ".*", "c": "1m"}) == 'a{b=~".*"}[1m]'
    with pytest.raises(KeyError, match="other"):
        fill_variables("a[$other]", {})


def test_a_series_is_called_by_its_labels_as_the_legend_says():
    labels = {"namespace": "shop", "workload": "cart"}
    assert (
        series_name({"legendFormat": "{{namespace}}/{{workload}}{{none}}"}, labels) == "shop/cart"
    )
    assert series_name({}, labels) == '{namespace="shop", workload="cart"}'


def test_the_last_number_is_that_of_what_is_now():
    assert Curve("", {}, np.array([1.0, 2.0, NAN])).last == 2.0
    assert np.isnan(Curve("", {}, np.array([NAN])).last)


def test_a_legend_has_the_columns_and_the_lines_that_there_is_room_for():
    names = ["n" * 20] * 5
    assert layout_legend(names, 400) == (2, 5)
    assert layout_legend(names, 100) == (1, 3)
    assert layout_legend(names[:2], 4000) == (2, 2)


def test_answers_of_a_table_are_joined_by_their_labels_and_sorted():
    [panel] = [panel for panel in PANELS if panel["title"] == "Workloads"]
    by = {"namespace": "default", "kind": "Deployment"}
    shares, promised, gaps, pods = (
        [curve(values=[a], **by, workload="a"), curve(values=[b], **by, workload="b")]
        for a, b in ((1, 0.5), (1, 1), (0, 0.5), (3, 4))
    )
    columns, rows = join_rows(panel, [shares, promised, gaps, pods])
    assert columns == [
        "Namespace", "Kind", "Workload", "On the edge", "Promised", "Missing", "Pods",
    ]  # fmt: skip
    assert [[row[column] for column in columns[2:]] for row in rows] == [
        ["b", 0.5, 1, 0.5, 4],
        ["a", 1, 1, 0, 3],
    ]


def test_all_that_the_dashboard_uses_can_be_drawn():
    assert {panel["type"] for panel in PANELS} == set(KINDS)
    units = {panel["fieldConfig"]["defaults"].get("unit", "short") for panel in PANELS}
    assert units <= set(UNITS)


@pytest.mark.parametrize(
    ("given", "is_empty"),
    [
        ([], True),
        ([curve(values=[NAN])], True),
        ([curve(values=[0.0]), curve(values=[1.0, NAN]), curve(values=[0.2, 0.3])], False),
    ],
)
def test_all_kinds_of_panels_are_drawn_and_those_without_data_named(given, is_empty):
    dashboard = one_of_each_kind()
    picture, empty = draw(dashboard, Answering(*given), "emulated")
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert empty == ([panel["title"] for panel in panels] if is_empty else [])
    image = Image.open(io.BytesIO(picture))
    assert image.size == (WIDTH, HEADING + ROW * 4 * len(dashboard["panels"]))
    assert len(image.convert("RGB").getcolors()) > 10


@pytest.mark.parametrize(
    ("url", "kind", "choice", "said"),
    [
        ("127.0.0.1:9090", "stat", "node=n.*", "127.0.0.1:9090: No host specified."),
        ("http://127.0.0.1:9090", "pie", "node=n.*", "d.json: cannot draw pie"),
        ("http://127.0.0.1:9090", "stat", "nod=n.*", "nod=n.*: not one of node, =, and what it is"),
    ],
)
def test_what_is_wrong_gets_one_line(tmp_path, url, kind, choice, said):
    [panel] = [panel for panel in PANELS if panel["title"] == "Leaders"]
    dashboard = tmp_path / "d.json"
    variables = {"list": [{"name": "node"}]}
    given = {"title": "", "templating": variables, "panels": [{**panel, "type": kind}]}
    dashboard.write_text(json.dumps(given))
    asked = [url, str(tmp_path / "d.png"), "--dashboard", str(dashboard), "--choose", choice]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code > 0
    assert done.output.splitlines()[-1].endswith(said)
