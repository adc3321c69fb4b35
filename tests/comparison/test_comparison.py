"""`kubedsm compare`: what is done is kept, the page begins with who wins, and says where not."""

import json
import os
import signal
import time

import pytest

from kubedsm_lab.comparison import experiments as available
from kubedsm_lab.comparison.experiments import Experiment
from kubedsm_lab.replay import evaluation, presets
from kubedsm_lab.replay.findings import Findings
from kubedsm_lab.replay.packing import tables as packing_tables
from kubedsm_lab.replay.packing.attempts import Attempt, Call, Category
from kubedsm_lab.replay.packing.instances import Shape
from kubedsm_lab.replay.plots import Bar, Look, plot_bars, render_picture
from kubedsm_lab.replay.rankings import Place, Ranking
from kubedsm_lab.replay.tables import Section
from support import command_line, evaluations

PICTURE = render_picture("Rounds", "", [plot_bars("r", [Bar("a", Look(0, 0), 1)], 1, str)])


def found(ours, theirs, *, drawn=None):
    values = {"kubedsm": ours, "kube-scheduler": theirs}
    ranking = Ranking("p99", "ms", less_is_better=True, values=values)
    lines = (["policy", "p99"], [["kubedsm", "7"]])
    table = Section("Table 3", "In brackets: as published.", lines)
    return Findings("Three rounds", [table], b'{"rounds":3}', [ranking], draw=lambda: drawn or {})


def experiment(name, run):
    reasons = {"p99": "It waits for more."}
    return Experiment(name, f"The {name}", "emulated", run, reasons)


def raising(error):
    def run(*_):
        raise error

    return run


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """The command on these experiments: exit code, standard output, standard error."""

    def compared(experiments, *arguments, out=tmp_path):
        monkeypatch.setattr(available, "EXPERIMENTS", experiments)
        done = command_line.kubedsm("compare", "--out", out, *arguments)
        return done.returncode, done.stdout, done.stderr

    return compared


def kept(folder):
    return json.loads((folder / "results.json").read_text())["compared"]


def test_the_page_begins_with_who_wins_and_says_why_where_it_is_behind(compare, tmp_path):
    pictures = {"rounds.svg": PICTURE}
    chosen = [
        experiment("paper", lambda *_: found(75, 100)),
        experiment("packing", lambda *_: found(120, 100, drawn=pictures)),
    ]
    code, out, err = compare(chosen)
    assert code == 0
    assert "1 of 2, paper: The paper" in err
    text = (tmp_path / "tables.md").read_text()
    page = (tmp_path / "index.html").read_text()
    assert text.startswith("# KubeDSM compared with other schedulers\n\n## Summary\n\n")
    first = text.partition("## Experiments")[0]
    assert out.strip() in first
    assert "ahead in 1, level in 0, behind in 1" in first
    assert "the same for every scheduler" not in first
    better = "| p99 | kubedsm: 75 ms | kube-scheduler: 100 ms | -25 ms (-25.0 %) | ahead |"
    assert better in first
    assert "- **packing**: p99 (behind kube-scheduler). It waits for more." in first
    for shown in (text, page):
        assert "Three rounds" in shown
        assert "In brackets: as published." in shown
        assert "Schedulers that do not run here" in shown
    assert page.index("Summary</") < page.index("Experiments</")
    assert (tmp_path / "packing-rounds.svg").read_bytes() == PICTURE
    assert page.count("<b>Rounds</b>") == 1
    assert kept(tmp_path)["packing"]["results"] == {"rounds": 3}


def test_a_figure_that_cannot_differ_is_not_counted_as_level(compare, tmp_path):
    code, out, _ = compare([experiment("paper", lambda *_: found(100, 100))])
    assert code == 0
    assert "ahead in 0, level in 0, behind in 0." in " ".join(out.split())
    assert "1 further figures are the same for every scheduler" in " ".join(out.split())


def test_what_is_not_run_again_stays(compare, tmp_path):
    drawn = {"rounds.svg": PICTURE}
    chosen = [
        experiment("paper", lambda *_: found(75, 100, drawn=drawn)),
        experiment("packing", lambda *_: found(120, 100)),
    ]
    assert compare(chosen)[0] == 0
    before = kept(tmp_path)
    never = [experiment("paper", raising(AssertionError)), chosen[1]]
    assert compare(never, "--only", "packing", "--full")[0] == 0
    after = kept(tmp_path)
    assert after["paper"] == before["paper"]
    assert (before["packing"]["full"], after["packing"]["full"]) == (False, True)
    page = (tmp_path / "index.html").read_text()
    assert "The paper" in page
    assert "<b>Rounds</b>" in page


def test_one_that_fails_takes_nothing_from_the_others(compare, tmp_path):
    good = experiment("packing", lambda *_: found(75, 100))
    code, out, err = compare([experiment("paper", raising(OSError(24, "no more files"))), good])
    assert code == 1
    assert "kubedsm: paper failed: [Errno 24] no more files" in err
    assert err.splitlines()[-1] == "kubedsm: error: no more files"
    assert "ahead in 1" in out
    assert list(kept(tmp_path)) == ["packing"]
    assert "**paper failed when it was run last**" in (tmp_path / "tables.md").read_text()
    failing = [experiment(n, raising(OSError(n))) for n in ("paper", "packing")]
    code, out, err = compare(failing, out=tmp_path / "both")
    assert (code, out) == (1, "")
    assert err.count(" failed: ") == 2


def test_a_mistake_of_ours_is_no_line(compare, tmp_path):
    chosen = [
        experiment("paper", raising(ZeroDivisionError())),
        experiment("packing", lambda *_: found(1, 2)),
    ]
    with pytest.raises(ZeroDivisionError):
        compare(chosen)
    assert list(kept(tmp_path)) == ["packing"]


def test_what_was_done_before_an_interruption_is_there(compare, tmp_path):
    def interrupted(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    chosen = [experiment("paper", lambda *_: found(75, 100)), experiment("packing", interrupted)]
    code, out, err = compare(chosen)
    assert code == 130
    assert err.endswith("kubedsm: error: interrupted\n")
    assert list(kept(tmp_path)) == ["paper"]
    assert "ahead in 1" in out
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("text", ["", "[]", '{"emulated": true, "runs": []}'])
def test_a_folder_of_something_else_is_left_as_it_is(compare, tmp_path, text):
    chosen = [experiment("paper", raising(AssertionError))]
    (tmp_path / "results.json").write_text(text)
    code, _, err = compare(chosen)
    assert code == 1
    assert err.startswith(f"kubedsm: error: {tmp_path}/results.json: not of this kubedsm compare")
    assert err.count("\n") == 1
    assert (tmp_path / "results.json").read_text() == text
    code, _, err = compare(chosen, out=tmp_path / "results.json")
    assert (code, "is a file" in err) == (2, True)
    code, _, err = compare(chosen, out=tmp_path / "results.json/x")
    assert (code, err.count("\n")) == (1, 1)


@pytest.mark.long
def test_the_papers_scenarios_are_really_played(tmp_path, monkeypatch):
    monkeypatch.setattr(presets, "PAPER_SCENARIOS", {"1.5-.4": (1.5, 0.4)})
    monkeypatch.setattr(presets, "MAIN_POLICIES", ("kubedsm", "random"))
    arguments = ("--only", "paper", "--jobs", 1)
    done = command_line.kubedsm("compare", "--out", tmp_path, *arguments)
    assert done.returncode == 0
    assert "| edge ratio | kubedsm: 0." in done.stdout
    part = kept(tmp_path)["paper"]
    assert [run["policy"] for run in part["results"]["runs"]] == ["kubedsm", "random"]
    assert "paper-edge-ratio-by-scenario.svg" in part["pictures"]
    assert "Edge ratio" in [table["title"] for table in part["tables"]]


def test_figures_of_the_papers_scenarios_are_means_over_them():
    def row(policy, ratio, optimum):
        times = {"mean": 100 * ratio, "p95": 9.0, "network": 1.0}
        ours = {
            "optimumShare": optimum,
            "overallLatencyMs": times,
            "onOneNode": {"avoidable": 1e-5},
        }
        return evaluations.row(policy, ratio=ratio, **ours)

    rows = [row("kubedsm", 0.7, 0.9), row("kubedsm", 0.8, 1.0), row("random", 0.6, None)]
    by_name = {each.what: each for each in evaluation.rankings(rows)}
    assert by_name["edge ratio"].values == {"kubedsm": 0.75, "random": 0.6}
    assert by_name["edge ratio"].difference.place is Place.AHEAD
    assert by_name["mean response time"].difference.place is Place.BEHIND
    assert by_name["share of the optimal edge ratio"].values == {"kubedsm": 0.95}
    assert by_name["services that one node failure stops"].values["kubedsm"] == 0


def test_figures_of_packing_are_of_the_calls_within_the_seconds():
    shape = Shape(4, 4, 2, 95)

    def attempt(ours, theirs, seconds=1.0):
        call = Call(
            seconds=seconds, took=0.1, load=0.0, gaps=True, category=Category.BETTER, proven=False,
            placed=ours, cpu=0, memory=0, moves=1, evictions=1,
        )  # fmt: skip
        return Attempt(shape, 1, (8, 8), theirs, 3, (1, 1), calls=(call,))

    # who places more of the highest priority places more
    done = [attempt((8, 0), (7, 7)), attempt((7, 8), (8, 1)), attempt((8, 1), (0, 0), 2.0)]
    more, evictions = packing_tables.rankings(done, 1.0)
    assert more.values == {"kubedsm": 50, "kube-scheduler": 50}
    assert evictions.values == {"kubedsm": 1, "kube-scheduler": 3}
    assert packing_tables.rankings([], 1.0) == []
