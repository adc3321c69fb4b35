"""`kubedsm replay` as users meet it."""

import html
import json
import re
from xml.etree import ElementTree as ET

import pytest

from kubedsm import __version__
from kubedsm.config.documents import DocumentError
from kubedsm_lab.replay.services import load
from loadgen.generators import normal
from loadgen.scenario import dumps
from support import command_line

SHORT = dumps(normal(1.5, 0.4, seed=3, cycles=2, cycle_seconds=20))
CART = "{name: cart, cpu: 500m, memory: 256Mi}"


def kubedsm(*arguments):
    """Exit code, standard output, standard error."""
    done = command_line.kubedsm(*arguments)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "short.json"
    path.write_text(SHORT)
    return path


def test_json_has_what_it_promises(scenario):
    code, out, err = kubedsm(
        "replay", scenario, "--policies", "kubedsm,kube-scheduler", "--seeds", 2, "-o", "json",
        "--jobs", 1,
    )  # fmt: skip
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["emulated"] is True
    assert [(run["scenario"], run["policy"], run["seed"]) for run in found["runs"]] == [
        ("short", policy, seed) for policy in ("kubedsm", "kube-scheduler") for seed in (1, 2)
    ]
    for run in found["runs"]:
        assert 0 <= run["edgeRatio"] <= 1
        assert 0 < run["optimumShare"] <= 1
        assert run["std"] >= 0
        assert set(run["latencyMs"]) == {"a", "b", "c", "d"}
        assert run["latencyMs"]["a"]["mean"] > 120
        assert run["latencyMs"]["a"]["p95"] >= 120
        assert run["lostPodSeconds"] == 0
        assert isinstance(run["migrations"], int)
    assert [row["policy"] for row in found["means"]] == ["kubedsm", "kube-scheduler"]


def test_a_folder_gets_results_pictures_tables_and_a_page(scenario, tmp_path):
    out = tmp_path / "new" / "a folder"
    settings = "migration.price=0s"
    policies = f"kubedsm,kube-scheduler,no-migration,{settings}"
    code, said, err = kubedsm("replay", scenario, "--policies", policies, "--jobs", 1, "--out", out)
    assert (code, err) == (0, "")
    names = ("edge-ratio-by-scenario", "edge-share-by-service", "placements", "response-times")
    pictures = {f"{name}.svg" for name in names}
    assert {path.name for path in out.iterdir()} == pictures | {
        "results.json",
        "index.html",
        "tables.md",
    }
    page, tables = (out / "index.html").read_text(), (out / "tables.md").read_text()
    for name in pictures:
        drawn = (out / name).read_text()
        # everybody is in every picture, and each picture is in the page
        assert all(f">{policy}</text>" in drawn for policy in policies.split(","))
        ET.fromstring(drawn)  # noqa: S314 - our own
    assert page.count("<figure>") == len(pictures)
    assert "http" not in page
    answer = " ".join(said.partition("\n\n")[0].split())
    assert answer.startswith("KubeDSM kept ")
    assert tables.startswith(f"**{answer}**\n")
    assert f"<p><strong>{answer}</strong></p>" in page
    options = f" \\\n    --policies {policies} \\\n    --jobs 1 \\\n    --out '{out}'"
    command = f"kubedsm replay {scenario}{options}"
    assert f"```sh\n{command}\n```" in tables
    assert html.escape(command, quote=False) in page
    for told in ("**Emulated**", f"KubeDSM {__version__}", "| n5 | cloud | 22 | 17G |"):
        assert told in tables
    assert "published" not in tables
    assert json.loads((out / "results.json").read_text())["emulated"] is True


def test_two_runs_are_put_on_a_page_that_plays(scenario, tmp_path):
    page = tmp_path / "new" / "films.html"
    asked = ("replay", scenario, "--policies", "kubedsm,random,cloud-first", "--jobs")
    code, out, err = kubedsm(*asked, 2, "-o", "json", "--page", page)
    assert (code, err) == (0, "")
    # Who only looks changes nothing.
    assert out == kubedsm(*asked, 1, "-o", "json")[1]
    written = page.read_text()
    assert re.findall(r'data-title="([^"]*)"', written) == ["KubeDSM", "random"]
    assert "<title>kubedsm replay short, seed 1</title>" in written
    assert len(written) < 3_000_000


def test_own_nodes_and_services(tmp_path):
    (tmp_path / "cluster.yaml").write_text(
        "nodes: [{name: e1, tier: edge, cpu: 4, memory: 4Gi},"
        " {name: c1, tier: cloud, cpu: 16, memory: 16Gi}]"
    )
    (tmp_path / "services.yaml").write_text(
        f"services: [{CART}, {{name: video, cpu: 1, memory: 1Gi, replicas: {{min: 2, max: 4}},"
        " targetRate: 10, concurrency: 4, serviceTime: 50ms}]"
    )
    api = {
        "name": "video",
        "endpoint": "http://video/",
        "intervals": [{"api_call_period": 40, "cycle_length": 40000}],
    }
    (tmp_path / "load.json").write_text(json.dumps({"apis": [api]}))
    code, out, err = kubedsm(
        "replay", tmp_path / "load.json", "--cluster", tmp_path / "cluster.yaml",
        "--services", tmp_path / "services.yaml", "--policies", "kubedsm,cloud-first",
        "-o", "json", "--jobs", 1,
    )  # fmt: skip
    assert (code, err) == (0, "")
    ours, cloud_first = json.loads(out)["runs"]
    assert ours["shares"] == {"cart": 1.0, "video": 1.0}
    assert cloud_first["shares"] == {"cart": 0.0, "video": 0.0}
    # 25 requests/s are three pods' worth, and each takes 20 or 80 ms more than the 50 served in
    assert ours["latencyMs"]["video"]["mean"] == pytest.approx(70, abs=5)
    assert cloud_first["latencyMs"]["video"]["mean"] == pytest.approx(130, abs=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("services: [", "not YAML: "),
        ("services: []", "services: empty"),
        ("services: [{name: a, cpu: 1}]", "services[0]: object missing required field `memory`"),
        ("services: [{name: a, cpu: lots, memory: 1Gi}]", "services[0].cpu: 'lots' is not a quant"),
        ("services: [{name: a, cpu: 0, memory: 1Gi}]", "services[0].cpu: must be above 0"),
        (f"services: [{CART}, {CART}]", "services[1].name: 'cart' occurs twice"),
        ("services: [{name: A_b, cpu: 1, memory: 1Gi}]", "services[0]: metadata.name"),
        (
            "services: [{name: a, cpu: 1, memory: 1Gi, replicas: {min: 3, max: 2}}]",
            "services[0].replicas: 1 <= min <= max must hold, not 3 and 2",
        ),
        (
            "services: [{name: a, cpu: 1, memory: 1Gi, targetRate: 0}]",
            "services[0].targetRate: must be above 0",
        ),
        (
            "services: [{name: a, cpu: 1, memory: 1Gi, serviceTime: 0s}]",
            "services[0].serviceTime: 0s is not above 0",
        ),
    ],
)
def test_broken_services_files(tmp_path, text, message):
    path = tmp_path / "services.yaml"
    path.write_text(text)
    with pytest.raises(DocumentError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)
