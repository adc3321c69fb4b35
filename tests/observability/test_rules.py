"""The alerts that are shipped: what promtool says of them, and what the documents do."""

import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kubedsm.observability.instruments import Families, Instruments, format_metrics
from kubedsm.process.clock import VirtualClock
from support.manifests import BASE, MONITORING, made

ROOT = Path(__file__).parents[2]
GENERATE = runpy.run_path(str(ROOT / "docs" / "generate.py"))
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
def test_promtool_accepts_the_rules(tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(RULES))
    done = subprocess.run(
        [PROMTOOL, "check", "rules", rules], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


@promtool
def test_promtool_has_nothing_to_say_about_the_metrics():
    registry = Instruments(VirtualClock(), "kubedsm", "server").registry
    text = format_metrics(registry, Families(tuple(GENERATE["families"](GENERATE["NOTHING"]))))
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
