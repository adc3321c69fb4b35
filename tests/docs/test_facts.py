"""Statements of the pages that no page generates, compared with the code."""

import random
import re
from pathlib import Path

import pytest
import yaml

from kubedsm.config.settings import load
from kubedsm.events.event_recorder import TOPICS
from kubedsm.plugins.plugin import never
from kubedsm.plugins.plugins import BY_NAME, PLUGINS
from kubedsm_lab.comparison.experiments import EXPERIMENTS
from kubedsm_lab.emulator.actors.kubelet import NEVER_READY
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.object_state import DISCONNECTED
from kubedsm_lab.emulator.api.resources import SERVED
from kubedsm_lab.emulator.http.routes import Routes
from kubedsm_lab.replay.evaluation import sections
from support.api_cases import asked
from support.fixed_clock import FixedClock

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PODS = "/api/v1/namespaces/default/pods/a"
PLURALS = {resource.plural for resource in SERVED}


def read(page):
    return (DOCS / page).read_text(encoding="utf-8")


def test_filter_plugins_have_their_rows_in_order():
    rows = re.findall(r"^\| `(\w+)`", read("reference/scheduling-rules.md"), re.MULTILINE)
    assert [plugin.name for plugin in PLUGINS] == rows
    assert len(BY_NAME) == len(PLUGINS)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_every_plugin_rejects_and_has_advice(plugin):
    assert plugin.pre_enqueue or plugin.pre_filter or plugin.filter
    # No other object can lift a rejection that concerns the pod alone.
    assert (plugin.hint is never) is (plugin.filter is None)
    assert plugin.advice
    assert ("{lacking}" in plugin.advice) is (plugin.name == "NodeResourcesFit")
    assert bool(plugin.score) is (plugin.weight > 0)


def test_every_event_reason_is_on_the_page():
    others = re.compile(
        r'"(MoveRequest[A-Z]\w+|MigrationsSuspended|ServiceIgnoresSites'
        r'|Edge(?:Slower|FasterAgain|NotCompared))"'
    )
    texts = [p.read_text() for p in (ROOT / "kubedsm").rglob("*.py")]
    reasons = {*TOPICS, *(found for text in texts for found in others.findall(text))}
    listed = set(re.findall(r"^\| `([A-Z]\w+)`", read("reference/events.md"), re.MULTILINE))
    assert listed == reasons


def test_log_events_on_the_page_are_logged():
    text = "\n".join(path.read_text() for path in (ROOT / "kubedsm").rglob("*.py"))
    listed = read("reference/events.md").partition("## Log")[2]
    names = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", listed, re.MULTILINE)))
    assert len(names) > 10
    assert [name for name in names if f'"{name}' not in text] == []


@pytest.mark.parametrize(
    "path",
    [f"{PODS}/{part}" for part in ("exec", "attach", "portforward", "ephemeralcontainers")]
    + [f"{PODS}/proxy", "/api/v1/namespaces/default/services/web/proxy/metrics"],
)
def test_a_refusal_of_the_emulator_is_on_the_page(path):
    routes = Routes(ApiServer(FixedClock(), random.Random(0)))
    status, answer = asked(routes, "GET", path)
    assert status == 501
    why = answer["message"].partition(": ")[2].rpartition(" (")[0]
    assert f"{why}`" in read("reference/emulator.md")


def test_stored_kinds_are_served_and_absent_kinds_are_not():
    text = " ".join(read("reference/emulator.md").split())

    def listed(begin):
        names = text.partition(begin)[2].partition(". ")[0].partition(" ##")[0]
        return {word.lower() for word in re.findall(r"\b[A-Z][A-Za-z]+", names)}

    stored, absent = listed("Stored without any effect: "), listed("Absent: ")
    assert (len(stored), len(absent)) == (3, 6)
    assert stored <= PLURALS
    assert not absent & PLURALS


def test_annotations_of_the_emulator_have_their_names():
    for page in ("reference/emulator.md", "reference/labels.md"):
        assert f"{NEVER_READY}: " in read(page)
        assert f"{DISCONNECTED}=true" in read(page)


def test_tables_of_experiments_have_the_titles_of_the_program():
    titles = re.findall(r"^## (.+)$", read("explanation/evaluation.md"), re.MULTILINE)
    written = [section.title for section in sections({"means": [], "runs": []})]
    assert set(titles[1:]) <= set(written)
    compared = re.findall(r"^## (.+)$", read("explanation/comparison.md"), re.MULTILINE)
    theirs = [each.title for each in EXPERIMENTS]
    first, last = ["Summary", "Experiments"], ["Schedulers that do not run here"]
    assert compared == [*first, *theirs, *last]


@pytest.mark.parametrize(
    "page", ["how-to/tune-qos.md", "how-to/multi-tenancy.md", "how-to/use-measured-load.md"]
)
def test_configuration_in_a_guide_is_valid(page):
    blocks = re.findall(r"```yaml\n(.*?)```", read(page), re.DOTALL)
    documents = [block for block in blocks if "metadata" not in yaml.safe_load(block)]
    assert documents
    for document in documents:
        load(document, page)
