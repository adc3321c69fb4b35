"""`kubedsm chaos`: a sweep, and one fault told."""

import json

import attrs
import pytest
from click.testing import CliRunner

from kubedsm_lab.chaos import sweep
from kubedsm_lab.chaos.stage import Placed
from kubedsm_lab.cli.chaos import chaos

FAULT = "call:create-pods/binding:1:409"


def ran(*arguments):
    done = CliRunner().invoke(chaos, list(map(str, arguments)), env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done


def broken_at(monkeypatch, fault):
    """Have this one fault break a promise, by a reference that ends in another way."""
    usual = sweep.reference("burst", 0)

    def judged(injection):
        outcome = sweep.play(injection, usual)
        wrong = ("I7: web has nothing",) if str(injection.fault) == fault else ()
        return sweep.Verdict(injection, outcome.struck, wrong)

    monkeypatch.setattr(sweep, "judge", judged)


@pytest.mark.long
def test_a_sweep_counts_what_it_has_done_and_which_cells_that_covers():
    done = ran("--injections", 12, "--workload", "burst", "--jobs", 1, "-o", "json")
    shown = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (shown["injections"], shown["violations"], shown["cellsCovered"]) == (12, 0, 12)
    assert shown["cells"] > 500


def test_a_broken_promise_is_shown_with_the_command_that_tells_of_it(monkeypatch):
    found = [i for i in sweep.list_injections(["burst"], 0) if str(i.fault) == FAULT]
    monkeypatch.setattr("kubedsm_lab.chaos.sweep.list_injections", lambda *_, **__: found)
    broken_at(monkeypatch, FAULT)
    done = ran("--injections", 1, "--workload", "burst", "--jobs", 1)
    assert done.exit_code == 1
    assert f"kubedsm chaos --workload burst --seed 0 --fault {FAULT} (and 0 alike)" in done.stdout
    assert "1 injections, 1 broke a guarantee; 1 of 1 cells" in done.stdout


def test_one_fault_is_told_from_where_it_strikes():
    done = ran("--workload", "burst", "--fault", FAULT)
    assert done.exit_code == 0
    told = done.stdout.splitlines()
    assert "create-pods/binding #1" in told[0]
    assert f"FAULT {FAULT}" in told[1]
    assert "web: 4 at the edge, 1 in the cloud, 0 waiting" in told


def test_of_what_went_wrong_only_what_is_about_it_is_told(monkeypatch):
    usual = sweep.reference("scaling", 0)
    ends = {**usual.end, "shop": Placed(cloud=1)}
    monkeypatch.setattr(
        "kubedsm_lab.chaos.sweep.reference", lambda *_, **__: attrs.evolve(usual, end=ends)
    )
    done = ran("--workload", "scaling", "--fault", "call:create-events:2:409")
    assert done.exit_code == 1
    assert "BROKEN I7: shop has" in done.stdout
    assert "default/shop-" in done.stdout
    assert "default/web-" not in done.stdout


@pytest.mark.parametrize("fault", ["call:create-pods/binding:99:409", "tea:create-cups:0:tea"])
def test_a_fault_that_finds_nothing_is_told_in_one_line(fault):
    done = ran("--workload", "burst", "--fault", fault)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        f"Error: --fault {fault} finds no such call or event, with --workload burst --seed 0"
    )
