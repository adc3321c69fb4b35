"""What is happening now, in words, and how it ended."""

import attrs
import pytest

from kubedsm.demo.document import as_json
from kubedsm.demo.ending import ending, standings
from kubedsm.demo.headline import headline
from kubedsm.demo.observer import Migrations
from support.demo_frames import FRAME, MOVE, SERVICES

QUIET = attrs.evolve(FRAME, moves=())
ROOM = attrs.evolve(MOVE, pod="default/b-1", why="to make room at the edge for c")
NOW = {
    "moving, told by what a promise lacks": (
        attrs.evolve(FRAME, moves=(ROOM, MOVE)),
        (
            "moving default/c-585657578-6gr4d from cloud-1 to edge-1: its promise lacks 3 pods of 6"
            " (and 1 move more)"
        ),
    ),
    "taken back": (
        attrs.evolve(FRAME, moves=(attrs.evolve(MOVE, state="taken back", reason="overdue"),)),
        "taken back: the move of default/c-585657578-6gr4d from cloud-1 to edge-1 (overdue)",
    ),
    "over for long": (
        attrs.evolve(QUIET, moves=(attrs.evolve(MOVE, began=2.0, state="moved"),)),
        "all is quiet; of the pods promised at the edge b lacks 1, c lacks 3",
    ),
    "placing": (
        attrs.evolve(QUIET, just_bound={"cloud": 1, "edge": 4}),
        "the load changed: placed 5 new pods, 4 at the edge and 1 in the cloud",
    ),
    "waiting": (attrs.evolve(QUIET, waiting=1), "1 pod waits for a node"),
    "starting": (attrs.evolve(QUIET, services=()), "the services start"),
    "quiet": (
        attrs.evolve(QUIET, services=SERVICES[:1]),
        "all is quiet, and every promise is kept",
    ),
}


@pytest.mark.parametrize(("frame", "said"), NOW.values(), ids=NOW)
def test_the_headline_says_what_is_happening(frame, said):
    assert headline(frame) == said
    assert as_json(frame)["headline"] == said


def test_the_ending_is_three_sentences_of_what_was_measured():
    assert ending(FRAME) == [
        (
            "KubeDSM held an edge share of 0.79 and kept its promises 93% of the time;"
            " kube-scheduler, replayed on the same load, came to 0.60 and 50%."
        ),
        (
            "It made 12 moves to that end; no capacity was lost, as a pod goes only when its"
            " replacement is Ready."
        ),
        (
            "Pods were bound 12 ms after they were created on average, and 99% of the 118 within"
            " 60 ms (emulated cluster, this machine)."
        ),
    ]


def test_capacity_that_was_lost_is_told():
    lost = attrs.evolve(FRAME, migrations=Migrations(12, 1, 0.25))
    assert ending(lost)[1] == (
        "It made 12 moves to that end and took 1 of them back; 0.25 pod-seconds of capacity were"
        " lost to that."
    )
    assert as_json(lost)["lostPodSeconds"] == 0.25


@pytest.mark.parametrize(
    ("replay", "why"),
    [("failed", "replay of the same load failed"), ("going on", "did not end in time")],
)
def test_a_replay_that_is_not_there_is_told_of(replay, why):
    alone = attrs.evolve(FRAME, theirs=None, replay=replay)
    assert why in ending(alone)[0]
    assert "kube-scheduler's replay" in standings(alone)
    assert as_json(alone)["kubeScheduler"] == {"replay": replay}


def test_an_end_before_its_time_is_told_first():
    first, *_ = ending(attrs.evolve(FRAME, interrupted=True))
    assert first == "Interrupted after 42 of 60 s."
