"""Operator's scenes: what an experienced operator expects, held by KubeDSM's defaults."""

from pathlib import Path

import attrs
import pytest

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.judgement import experiment
from kubedsm_lab.replay.judgement.experiment import CONTENDERS, TABLES, answer, play
from kubedsm_lab.replay.judgement.scene import Outcome, Trial, judge
from kubedsm_lab.replay.judgement.scenes import SCENES
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.tables import markdown
from support.command_line import kubedsm
from support.drawing import keep_one_in


def test_expectations_tell_schedulers_apart():
    """An expectation that every course meets expects nothing."""
    without = play(Trial("new edge node", "no-migration", 1))
    assert without.unmet == ("edge share of web at least 0.95 from 180 s on",)
    restless = play(Trial("antiphase", "migration.price=0s", 1))
    assert restless.unmet == ("no migration from 5 s on",)
    assert play(Trial("headroom", "edge.headroom=0%", 1)).unmet
    without_nodes = attrs.evolve(SCENES["node blips"], nodes=(), acts=SCENES["node blips"].acts[:2])
    served = judge(Trial("node blips", KUBEDSM, 1), without_nodes).unmet
    assert served == ("Ready pods of web", "Ready pods of shop")


def test_the_table_has_expectation_and_gain_of_each_scene():
    done = [play(Trial("new edge node", name, 1)) for name in CONTENDERS]
    headings, [line] = TABLES["Scenes"](done)
    cells = dict(zip(headings, line, strict=True))
    assert (cells["course"], cells["migrations"]) == ("as expected", "4")
    assert cells[f"share, {REFERENCE}"] == cells["share, no-migration"] == "0.50"
    # four pods at the edge for nearly the nine minutes that are left
    assert 8.5 < float(cells["gain"]) < 9
    assert TABLES["Expectations"](done)[1][0][1] == SCENES["new edge node"].story
    assert answer(done) == "KubeDSM does what an operator expects in 1 of 1 scenes."


@pytest.mark.parametrize("scene", keep_one_in(3, SCENES))
def test_a_scene_goes_as_an_operator_expects(scene):
    assert play(Trial(scene, KUBEDSM, 1)).unmet == ()


def test_the_command_writes_a_report(monkeypatch, tmp_path):
    monkeypatch.setattr(experiment, "SCENES", {"drain": SCENES["drain"]})
    done = kubedsm("replay", "--preset", "judgement", "--jobs", 1, "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    said = "KubeDSM does what an operator expects in 1 of 1 scenes."
    assert said in done.stdout
    assert said in (tmp_path / "tables.md").read_text()


def test_all_scenes_are_on_the_page():
    """Otherwise: paste the tables of `kubedsm replay --preset judgement` into the page."""
    runs = [Outcome(Trial(name, KUBEDSM, 1), 1.0, 0, 0.0, ()) for name in SCENES]
    page = (Path(__file__).parents[2] / "docs/explanation/judgement.md").read_text()
    assert markdown(*TABLES["Expectations"](runs)) in page
    shown = [line.split(" | ")[:2] for line in page.splitlines() if line.count(" | ") == 6]
    assert shown[2:] == [[f"| {name}", "as expected"] for name in SCENES]
