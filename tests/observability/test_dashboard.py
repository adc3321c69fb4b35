"""The dashboard that is shipped: what Grafana's own types say of it, and whether it is in order."""

import copy
import itertools
import json
import re
import runpy
from pathlib import Path

import pytest

from support.dashboard import DASHBOARD, PANELS, VARIABLES, queries
from support.grafana_types import faults
from support.manifests import MONITORING, made

ROOT = Path(__file__).parents[2]
GENERATE = runpy.run_path(str(ROOT / "docs" / "generate.py"))
#: of each metric of ours
LABELS = {name: set(labels.split(", ")) for name, _, labels, _ in GENERATE["list_metrics"]()}
#: of Prometheus itself, of prometheus_client, and of node-exporter
OTHERS = r"up|ALERTS|process_[a-z_]+|node_[a-zA-Z_]+"


def test_grafana_knows_all_of_it():
    assert faults(DASHBOARD) == []


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("stat", {"targets": [{"refId": "A", "exper": "up"}]}, ".targets[0].exper is not known"),
        ("stat", {"targets": [{"refId": "A", "expr": 1}]}, ".targets[0].expr: 1 is no str"),
        ("stat", {"datasource": {"id": 3}}, ".datasource.id is not known"),
        ("stat", {"datasource": {"type": "promotheus"}}, ": its data source is of no kind"),
        ("stat", {"gridPos": {"x": "0"}}, ".grid_pos.x: '0' is no int"),
        ("stat", {"type": "stats"}, ": stats is no kind of panel"),
        ("stat", {"options": {"colorMode": "red"}}, ".options.color_mode: 'red' is not in "),
        ("table", {"transformations": [{"ident": 1}]}, ".transformations[0].ident is not known"),
        ("table", {"options": {"sortBy": [{"desc": 1}]}}, ".options.sort_by[0].desc: 1 is no "),
        ("bargauge", {"options": {"orient": "auto"}}, ".options.orient is not known"),
        (
            "timeseries",
            {"fieldConfig": {"defaults": {"custom": {"width": 1}}, "overrides": []}},
            ".fieldConfig.defaults.custom.width is not known",
        ),
    ],
)
def test_grafana_refuses_what_it_does_not_know(kind, change, said):
    damaged = copy.deepcopy(DASHBOARD)
    next(panel for panel in damaged["panels"] if panel["type"] == kind).update(change)
    assert said in "\n".join(faults(damaged))


def test_a_variable_of_no_kind_is_refused():
    damaged = copy.deepcopy(DASHBOARD)
    damaged["templating"]["list"][1]["type"] = "label"
    assert any(".templating.list_val[1].type_val: 'label'" in fault for fault in faults(damaged))


def test_panels_have_their_own_places_and_numbers():
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert numbers == list(range(1, len(numbers) + 1))
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        places = set(
            itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"]))
        )
        assert not places & taken, panel["title"]
        assert all(x < 24 for x, _ in places), panel["title"]
        taken |= places


def test_it_asks_for_what_there_is():
    asked = set()
    for query in (query for panel in PANELS for query in queries(panel)):
        found = re.findall(r"([A-Za-z_]+)\{([^}]*)\}", query)
        assert found, query
        known = {"le", "instance", "job"}
        for name, labels in found:
            metric = re.sub(r"_(bucket|sum|count)$", "", name)
            asked.add(metric)
            if metric in LABELS:
                assert 'job="kubedsm"' in labels, query
                known |= LABELS[metric]
                assert set(re.findall(r"(\w+)(?:=|!)", labels)) <= known, query
            else:
                assert re.fullmatch(OTHERS, metric), query
        for labels in re.findall(r"by \(([^)]*)\)", query):
            assert set(labels.split(", ")) <= known, query
    assert {"kubedsm_edge_share", "up"} <= asked


def test_its_variables_are_defined_and_used():
    text = json.dumps(DASHBOARD)
    used = set(re.findall(r"\$\{?([a-z]+)", text.replace("$__", "")))
    assert used == set(VARIABLES)
    for variable in VARIABLES.values():
        for name in re.findall(r"label_values\((\w+)", variable["query"]):
            assert name in LABELS or re.fullmatch(OTHERS, name)


def test_each_panel_asks_the_data_source_that_is_chosen_and_says_what_it_shows():
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_grafanas_sidecar_finds_it():
    [given] = [g for (kind, _), g in made(MONITORING).items() if kind == "ConfigMap"]
    assert given["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(given["data"]["dashboard.json"]) == DASHBOARD
