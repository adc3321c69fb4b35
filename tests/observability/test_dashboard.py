"""Shipped dashboard and alerts, held against Grafana's types, promtool and the code."""

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.cog.runtime import UnknownDataquery, panelcfg_config
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel
from prometheus_client import generate_latest

from kubedsm.observability.instruments import Families, Instruments
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.dashboard import DASHBOARD, PANELS, VARIABLES, queries
from support.manifests import BASE, MONITORING, made

register_default_plugins()


def faults(document):
    """Return the errors of a dashboard document, each with its location.

    Grafana's SDK ignores unknown fields; its output is therefore compared with the input.
    """
    read = Dashboard.from_json(document)
    known = json.loads(json.dumps(read, cls=JSONEncoder))
    return [*dropped(document, known, ""), *_unknown_kinds(read)]


def _unknown_kinds(read):
    """Yield panels and queries of types that the SDK does not know, and passes on unchecked."""
    for panel in read.panels:
        if isinstance(panel, Panel):
            if panelcfg_config(panel.type_val) is None:
                yield f"{panel.title}: {panel.type_val} is no kind of panel"
            if any(isinstance(target, UnknownDataquery) for target in panel.targets):
                yield f"{panel.title}: its data source is of no kind that is known"


def dropped(given, known, where):
    """Yield the locations of values that are in `given` but not in `known`."""
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            at = f"{where}.{key}"
            yield from dropped(value, known[key], at) if key in known else (f"{at} is not known",)
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for index, pair in enumerate(zip(given, known, strict=True)):
            yield from dropped(*pair, f"{where}[{index}]")
    elif given != known:
        yield f"{where} became {known}"


ROOT = Path(__file__).parents[2]
GENERATE = runpy.run_path(str(ROOT / "docs" / "generate.py"))
#: of each metric of ours
LABELS = {name: set(labels.split(", ")) for name, _, labels, _ in GENERATE["list_metrics"]()}
#: of Prometheus itself, of prometheus_client, and of node-exporter
OTHERS = r"up|ALERTS|process_[a-z_]+|node_[a-zA-Z_]+"


def test_grafana_and_its_sidecar_know_all_of_it():
    assert faults(DASHBOARD) == []
    [given] = [g for (kind, _), g in made(MONITORING).items() if kind == "ConfigMap"]
    assert given["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(given["data"]["dashboard.json"]) == DASHBOARD


def test_it_asks_for_what_there_is_with_variables_that_there_are():
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
    text = json.dumps(DASHBOARD)
    used = set(re.findall(r"\$\{?([a-z]+)", text.replace("$__", "")))
    assert used == set(VARIABLES)
    for variable in VARIABLES.values():
        for name in re.findall(r"label_values\((\w+)", variable["query"]):
            assert name in LABELS or re.fullmatch(OTHERS, name)


DOCUMENTS = "\n".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
RULES = made(MONITORING)["PrometheusRule", "kubedsm"]["spec"]
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
NAMES = {name for name, *_ in GENERATE["list_metrics"]()}

PROMTOOL = shutil.which("promtool")
promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)"
)


def test_the_pages_name_no_other_metrics():
    named = set(re.findall(r"`(kubedsm_[a-z_]+|scheduler_[a-z_]+)[`{]", DOCUMENTS))
    assert {name for name in named if not name.endswith("_")} - NAMES <= {
        "kubedsm_lab",
        "kubedsm_lab_request_duration_seconds",
    }


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_asks_for_what_there_is_and_says_what_to_do(alert):
    asked = re.findall(r"([a-z_]+)\{([^}]*)\}", alert["expr"])
    assert asked
    for name, labels in asked:
        assert re.sub(r"_bucket$", "", name) in NAMES
        assert 'job="kubedsm"' in labels
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^### (\w+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in map(str.lower, headings)
    assert anchor == alert["alert"].lower()


def test_prometheus_finds_what_is_scraped_under_the_job_of_the_alerts():
    service = made(BASE)["Service", "kubedsm-metrics"]
    monitor = made(MONITORING)["ServiceMonitor", "kubedsm"]["spec"]
    labels = service["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["jobLabel"]] == "kubedsm"
    [endpoint], [port] = monitor["endpoints"], service["spec"]["ports"]
    assert endpoint["port"] == port["name"]
    deployment = made(BASE)["Deployment", "kubedsm"]
    pod = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pod.items()


@promtool
def test_promtool_accepts_the_rules_and_has_nothing_to_say_about_the_metrics(tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(RULES))
    done = subprocess.run(
        [PROMTOOL, "check", "rules", rules], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout
    registry = Instruments(VirtualClock(), "kubedsm", "server").registry
    gauges = Families(tuple(GENERATE["families"](GENERATE["NOTHING"])))
    text = generate_latest(registry) + generate_latest(gauges)
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
