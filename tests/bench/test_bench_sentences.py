"""What a benchmark says of what it found: units, what was run beside it, what was extrapolated."""

import math
import re
from collections import Counter

import pytest

from kubedsm_lab.bench.footprint import IdleResult, StartResult
from kubedsm_lab.bench.ingest import IngestResult
from kubedsm_lab.bench.instances import timed
from kubedsm_lab.bench.load import Beside, LoadResult
from kubedsm_lab.bench.match import MatchResult
from kubedsm_lab.bench.queue import QueueResult
from kubedsm_lab.bench.rules import Decided, RulesResult
from kubedsm_lab.bench.scale.holding import HardBurst, Held, LoopResult
from kubedsm_lab.bench.scale.lag import Lag
from kubedsm_lab.bench.scale.paired import Paired, ScaleResult
from kubedsm_lab.bench.scale.running import RunningResult
from kubedsm_lab.bench.scale.world import Size
from kubedsm_lab.bench.solve.best import Best, Reach
from kubedsm_lab.bench.solve.verdict import Moved, Moves, Placed, SolveResult, Standing, Way
from kubedsm_lab.bench.suggest import Comparison, Large, SuggestResult
from kubedsm_lab.bench.telling import figure, many, span
from kubedsm_lab.bench.viewing import Part, ViewingResult
from kubedsm_lab.commands.tables import solve_table
from support.command_line import kubedsm
from support.printed import printed

NO_RATIO = "Nothing was run beside it: these are no ratios, and go by the machine."
DECIDED = Decided(200, 500, 3000, 199, 85.0, 1_700_000.0)
BESIDE = Beside(200, 1000, 187, 76.9, 33.61)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0 µs"),
        (7.234e-6, "7.23 µs"),
        (0.00086, "860 µs"),
        (0.0614, "61.4 ms"),
        (43.71, "43.7 s"),
        (1613.7, "26.9 minutes"),
    ],
)
def test_a_span_is_told_in_the_unit_that_suits_it(seconds, said):
    assert span(seconds) == said


def test_no_more_digits_are_told_than_count():
    assert [figure(each, 2) for each in (51_234.5, 0.0349, 2.349)] == ["51,000", "0.035", "2.3"]
    assert [many(1, "class"), many(5000, "class"), many(2, "pod")] == [
        "1 class",
        "5,000 classes",
        "2 pods",
    ]


def test_a_batch_is_told_beside_its_textbook_form():
    (said,) = MatchResult(16, 3, 11, 638388232, 0.00092, 42.0).sentences
    assert said == (
        "A batch of 16 pods on 3 nodes, of which 11 fit, was placed in 920 µs; the textbook bitmask"
        " form took 42.0 s: 46,000 times as long, to the same optimum. Times are of CPU: the best"
        " of 30 runs, and one."
    )


def test_what_was_extrapolated_says_from_how_much():
    paper = Comparison(31, 12, 9, 0.727, 256, 24, 0.0084, 1613.7)
    exact = Comparison(9, 4, 4, 0.583, 66_379, 66_379, 0.00875, 2.095)
    first, second, third, _ = SuggestResult(paper, exact, Large((0.06, 0.11, 0.05))).sentences
    assert first.endswith(
        "9 moves, for 0.727 points of QoS, found in 8.40 ms; its literal form would take"
        " 26.9 minutes (extrapolated from 24 of 256 subsets): 190,000 times as long."
    )
    assert second.endswith(
        "trying everything takes 2.10 s for 66,379 choices of moves: 240 times as long."
    )
    assert third.endswith("60.0 ms in the median, 110 ms at worst; nothing was run beside it.")
    mixed, *_, feasible, _ = RulesResult(DECIDED, DECIDED, DECIDED, 5000, 12.0, 0.3, 480).sentences
    assert mixed.endswith(
        "199 placed in 85.0 ms; asking the rules each time takes 28.3 minutes (extrapolated from 40"
        " of 100,000 questions): 20,000 times as long."
    )
    assert "480 ms (extrapolated from 40 of 5,000 questions): 1,600 times as long" in feasible
    listed = Paired("list all pods", 1, 200.0, 5500.0, 27.5, (500, 5000))
    assert ScaleResult(Size(500, 5000), (listed,)).sentences[-1] == (
        "Beside list all pods: 5.50 s (extrapolated from 500 of 5,000 pods)."
    )
    assert listed.as_json()["besideSampled"] == [500, 5000]


def test_two_sides_of_the_same_are_told_with_their_ratio():
    (read,) = IngestResult(400, 5, 4149.2, 3783.2, 49.9).sentences
    assert read.startswith(
        "A watch line of a pod, of 4,149 bytes, was read in 49.9 µs; kubernetes_asyncio's typed"
        " models took 3.78 ms: 76 times as long."
    )
    load = LoadResult(BESIDE, BESIDE, BESIDE)
    assert load.sentences[0] == (
        "200 pods on 1,000 nodes: placed by measured load in 76.9 ms, where nothing is measured in"
        " 33.6 ms: 2.3 times as long; 187 went elsewhere for it."
    )
    waiting, told = QueueResult(
        5000, 10, 1000, 4000, 3.2, 48_000.0, 40, 10, 10_000, Counter({"PATCH events": 5000})
    ).sentences
    assert "3.20 µs of CPU, the mean of 4,000; with asking each of them 48.0 ms" in waiting
    assert "the mean of 40 of these events: 15,000 times as long." in waiting
    assert "10,000 writes, and in 10 minutes after" in told
    assert "500 PATCH events a minute; on an emulated cluster in virtual time" in told
    began, _ = StartResult((1.2, 1.0, 1.1), (1.0, 1.0, 1.0)).sentences
    assert "1.10 s (1.20 s at worst); `python -c 'import kubedsm.cli.scheduler_process'`" in began
    assert "takes 1.00 s (1.00 s at worst): the first bind takes 1.1 times as long." in began


def test_viewers_are_told_beside_none_round_by_round():
    alone = [Part(percent, 0.0, 0.0) for percent in (4.0, 9.0, 5.0)]
    viewed = [Part(percent, 200.0, 115_000.0) for percent in (5.0, 9.5, 6.2)]
    unread = [Part(part.cpu_percent + 0.25, 0.0, 0.0) for part in alone]
    viewing = ViewingResult(50, 1000, 50, 10.0, alone, viewed, unread, 128_000_000)
    first, second, _ = viewing.sentences
    assert first.startswith(
        "50 viewers of the page take 1.0 % of a core of `kubedsm run`, and as many that read"
        " nothing 0.25 %; without them it takes 5.0 %: 50 nodes, emulated, and 1,000 pods,"
    )
    assert second.startswith("A viewer is told 4.0 messages in a second, of 2.3 kB together.")


def test_what_has_nothing_beside_it_says_so():
    idle = IdleResult(5000, 1000, 60.0, 1000, 0.951, 150_200_000, (0.013, 0.016, 0.012))
    assert idle.sentences[0].startswith(
        "With nothing to do, `kubedsm run` takes 0.95 % of a core and 150 MB: 5,000 nodes,"
        " emulated, which report their status 16.7 times a second, and 1,000 pods, for 60.0 s."
    )
    held = Held(HardBurst(256, 40), 250, 1.34, {"plans": 1e-5, "scheduler": 0.0482}, {})
    loop = LoopResult(Size(1000, 10_000), [held])
    assert loop.sentences[1] == (
        "256 pods of 40 classes, up to 4,000m: 250 bound, 6 told why not, within 1.34 s. Longest at"
        " a time: scheduler 48.2 ms. Longest steps in these: nothing."
    )
    lag = Lag(1000, 0.001, 0.05, 0.1, math.inf)
    running = RunningResult(3.0, 150_000_000, 90_000_000, 200.4, 12.3, 1.0, lag, 1)
    assert running.sentences[1] == (
        "Its event loop was late by at most 1.00 ms in half, 50.0 ms in 99 %, 100 ms in 99.9 %,"
        " more than can be told in all of 1,000 looks. Bursts and 1 suggestion included."
    )
    for each in (idle, loop, running, ScaleResult(Size(1, 1), (), running)):
        assert each.sentences[-1].endswith(NO_RATIO)


def test_what_else_the_machine_does_is_in_no_time(monkeypatch):
    monkeypatch.setattr("time.process_time", iter((1.0, 3.5)).__next__)
    assert timed(lambda: "done") == ("done", 2.5)


def test_ways_to_decide_are_compared_under_headings_that_are_words():
    reach, standing = (Reach(2.0, 2.0),), Standing((2,), (2.0,), True, (), 0.1)
    ways = dict.fromkeys((Way.SOLVED, Way.UNSOLVED, Way.KUBE_SCHEDULER), standing)
    placed = Placed("one", 2, 1, (0.0,), ways, Best(reach, reach, 0.1))
    moves = dict.fromkeys((Way.SOLVED, Way.UNSOLVED, Way.BEST), Moves(1.0, 1.0, 1.0, 1, 0.1))
    result = SolveResult([placed], [placed], [Moved("one", 9, 20, moves, 1.0, 1.0, True)])
    said = printed(solve_table(result), 160)
    assert "the most" in said
    assert "in the end" in said
    assert not re.search(r"[a-z][A-Z]", said.replace("KubeDSM", "").replace("QoS", ""))


def test_people_get_sentences_and_programs_get_json():
    options = ("bench", "match", "--pods", 3, "--nodes", 2)
    said = " ".join(kubedsm(*options).stdout.split())
    assert said.startswith("A batch of 3 pods on 2 nodes, of which 3 fit, was placed in ")
    assert '"bitmaskMs":' in kubedsm(*options, "-o", "json").stdout
