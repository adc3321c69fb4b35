"""Results of the demo, with kube-scheduler's beside them, in figures, sentences and pictures."""

import io
import multiprocessing

import attrs
import msgspec
import pytest
from rich.console import Console

from kubedsm.dashboard.rows import MoveRow, NodeRow, PodRow, StatusRow, WorkloadRow
from kubedsm.dashboard.state.headline import describe_migration
from kubedsm.dashboard.terminal.seen import TypedSnapshot
from kubedsm.model.model import Tier
from kubedsm_lab.demo import setting
from kubedsm_lab.demo.baseline import baseline, replay_baseline
from kubedsm_lab.demo.frame import Frame, SchedulerResult, until
from kubedsm_lab.demo.results import as_json, ending
from kubedsm_lab.demo.view import LineByLine, render, summary
from kubedsm_lab.replay.measures import Latency
from kubedsm_lab.replay.timeline import Life, Timeline
from support.printed import printed, spans

GB = 10**9
#: with a name as long as they get
MOVE = MoveRow(
    pod="default/c-585657578-6gr4d",
    workload="default/c",
    source="cloud-1",
    target="edge-1",
    kind="cloud-to-edge",
    purpose="3 of 6 pods missing at the edge",
    state="moving",
    at=40.5,
    began=41.0,
)
BEFORE = msgspec.structs.replace(MOVE, began=12.0, state="completed")
NODES = {
    "cloud-1": NodeRow(Tier.CLOUD, 22000, 17 * GB, 110),
    "edge-2": NodeRow(Tier.EDGE, 4000, 4 * GB, 110),
    "edge-1": NodeRow(Tier.EDGE, 5000, 5 * GB, 110),
}
PODS = {
    f"default/{name}-{node}-{n}": PodRow(f"default/{name}", "ready", 0.0, cpu, 626 * 10**6, node)
    for node, cpu, there in (
        ("edge-1", 1000, {"a": 2, "c": 3}),
        ("cloud-1", 796, {"a": 10, "b": 5, "c": 10, "d": 2}),
    )
    for name, count in there.items()
    for n in range(count)
}
WORKLOADS = {
    "default/a": WorkloadRow("Deployment", 10, 10, 1.0, ready=10),
    "default/b": WorkloadRow("Deployment", 0, 2, 0.5, missing=1, ready=2),
    "default/c": WorkloadRow("Deployment", 5, 10, 0.75, missing=3, ready=10),
}
OURS = SchedulerResult(0.79, {"a": 1.0, "b": 0.5, "c": 0.75, "d": None}, 0.93)
THEIRS = SchedulerResult(0.6, {"a": 0.85, "b": 0.79, "c": 0.75, "d": 0.0}, 0.504)

FRAME = Frame(
    epoch=0.0,
    seconds=42.0,
    duration=60.0,
    seen=TypedSnapshot(0.0, StatusRow(describe_migration(MOVE)), NODES, PODS, WORKLOADS),
    rates={"a": 50, "b": 10, "c": 50, "d": 5},
    bound=118,
    latency=Latency(0.012, 0.011, 0.0604),
    ours=OURS,
    theirs=THEIRS,
    replay="ready",
    moves={"plan-1/c": BEFORE, "plan-2/c": MOVE},
    migrations=12,
)


def test_the_ending_is_three_sentences_of_what_was_measured():
    assert ending(FRAME) == [
        (
            "KubeDSM averaged an edge share of 0.79 and met its QoS targets 93% of the time;"
            " kube-scheduler, replayed on the same load, came to 0.60 and 50%."
        ),
        "12 migrations without lost capacity: pods leave after replacements are Ready.",
        "118 pods bound; created to bound: mean 12 ms, p99 60 ms (emulated cluster).",
    ]


def test_capacity_that_was_lost_and_an_early_end_are_told():
    lost = attrs.evolve(FRAME, taken_back=1, lost_pod_seconds=0.25)
    assert ending(lost)[1] == "12 migrations, 1 rolled back; 0.25 pod-seconds of capacity lost."
    assert as_json(lost)["lostPodSeconds"] == 0.25
    first, *_ = ending(attrs.evolve(FRAME, interrupted=True))
    assert first == "Interrupted after 42 of 60 s."


@pytest.mark.parametrize(
    ("replay", "why"),
    [("failed", "replay of the same load failed"), ("going on", "has not ended yet")],
)
def test_a_replay_that_is_not_there_is_told_of(replay, why):
    alone = attrs.evolve(FRAME, theirs=None, replay=replay)
    assert why in ending(alone)[0]
    assert as_json(alone)["kubeScheduler"] == {"replay": replay}


QOS_TARGETS = {"a": 0.5, "b": 1.0}
#: half of `a` is at the edge all the time, all of `b` until 4 s of 10
TIMELINE = Timeline(
    10.0,
    (
        Life("a", 0.0, 0.0, Tier.EDGE, ((0.0, 10.0),)),
        Life("a", 0.0, 0.0, Tier.CLOUD, ((0.0, 10.0),)),
        Life("b", 0.0, 0.0, Tier.EDGE, ((0.0, 4.0),)),
        Life("b", 4.0, 4.0, Tier.CLOUD, ((4.0, 10.0),)),
    ),
    {"a": (), "b": ()},
)


def test_shares_and_promises_kept_are_means_over_the_time_until_then():
    result = SchedulerResult.of(TIMELINE, QOS_TARGETS)
    assert result.shares == pytest.approx({"a": 0.5, "b": 0.4})
    assert result.edge_share == pytest.approx(0.45)
    assert result.kept == pytest.approx((10 + 4) / 20)
    result = SchedulerResult.of(until(TIMELINE, 4.0), QOS_TARGETS)
    assert (result.edge_share, result.kept) == (0.75, 1.0)
    assert SchedulerResult.of(until(TIMELINE, 0.0), QOS_TARGETS).edge_share is None


WIDTHS = (50, 80, 200)
HINT = "kubectl --kubeconfig /tmp/k get pods"
#: colours that mean something
MEAN = ("green", "yellow", "red")
FRAMES = {
    "running": FRAME,
    "starting": attrs.evolve(
        FRAME, theirs=None, replay="going on", latency=None, moves={}, bound=0
    ),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_picture_fits_and_nothing_in_it_is_broken_or_cut(width, frame):
    picture = printed(render(frame, width, 24, HINT), width)
    lines = picture.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    assert "\N{HORIZONTAL ELLIPSIS}" not in picture
    words = picture.split()
    for whole in ("21.5/22", *frame.headline.split()):
        assert whole in words
    assert ("15.7 of 15.8 Gi" in picture) == (width >= 80)
    assert "10 a, 5 b, 10 c, 2 d" in picture
    for service, kept in (("a", "met"), ("b", "1 missing"), ("c", "3 missing")):
        assert any(line.startswith(f"{service} ") and kept in line for line in lines)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_last_picture_says_all_of_the_ending(width, frame):
    picture = printed(summary(frame, width), width)
    assert max(map(len, picture.splitlines())) <= width
    words = " ".join(picture.split())
    assert all(sentence in words for sentence in ending(frame))
    assert "kubedsm replay 1.5-.4" in words
    assert "kubedsm suggest" in words


def test_wide_pictures_have_kube_scheduler_beside_and_tall_ones_the_last_moves():
    lines = printed(render(FRAME, 80, 24), 80).splitlines()
    assert [line.split()[-2:] for line in lines if line.startswith("b ")] == [["0.50", "0.79"]]
    assert "kube-scheduler" in printed(render(FRAME, 50, 30), 50)
    moves = {name: msgspec.structs.replace(MOVE, pod=f"default/{name}") for name in "abcdef"}
    frame = attrs.evolve(FRAME, moves=moves)
    listed = {h: printed(render(frame, 80, h), 80).count("41 s  migrating") for h in (18, 24, 40)}
    assert listed == {18: 0, 24: 1, 40: 4}


def test_colours_are_of_promises_and_never_of_load():
    qos_targets = {("met", "green"), ("1 missing", "yellow"), ("3 missing", "red")}
    meaningful = {
        (text, colour) for text, colour in spans(render(FRAME, 100, 40)) if colour in MEAN
    }
    assert meaningful == qos_targets


def test_line_by_line_every_move_is_told_once_and_the_rest_now_and_then():
    console = Console(width=50, file=io.StringIO(), color_system=None)
    tell = LineByLine(console)
    for seconds in (42.0, 42.25, 47.0):
        tell(attrs.evolve(FRAME, seconds=seconds))
    lines = console.file.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["12.0", "41.0", "42.0", "47.0"]
    assert lines[1].endswith(describe_migration(MOVE))
    assert "came to 0.60 and 50%" in lines[3]


def test_kube_scheduler_is_measured_as_the_demo_is_and_moves_nothing():
    timeline = replay_baseline(1, 2)
    assert (timeline.end, timeline.moves) == (10.0, ())
    assert set(timeline.services) == set(setting.QOS_TARGETS)
    whole, early = (
        SchedulerResult.of(until(timeline, end), setting.QOS_TARGETS) for end in (60, 5)
    )
    assert 0 < whole.edge_share < 1
    assert 0 < whole.kept < 1
    assert early != whole


@pytest.fixture
def expected():
    return replay_baseline(1, 1)


@pytest.mark.http
async def test_the_process_of_kube_scheduler_answers_and_one_that_is_left_is_ended(expected):
    async with baseline(1, 1) as beside:
        assert await beside == expected
    async with baseline(1, 60) as beside:
        assert len(multiprocessing.active_children()) == 1
    assert beside.result() is None
    assert multiprocessing.active_children() == []
