"""How the demo ended, in words."""

import attrs
import pytest

from kubedsm_lab.demo.frame import Migrations
from kubedsm_lab.demo.results import as_json, ending
from support.demo_frames import FRAME


def test_the_ending_is_three_sentences_of_what_was_measured():
    assert ending(FRAME) == [
        (
            "KubeDSM held an edge share of 0.79 and kept its promises 93% of the time;"
            " kube-scheduler, replayed on the same load, came to 0.60 and 50%."
        ),
        "12 migrations without lost capacity: pods leave after replacements are Ready.",
        "118 pods bound; created to bound: mean 12 ms, p99 60 ms (emulated cluster).",
    ]


def test_capacity_that_was_lost_is_told():
    lost = attrs.evolve(FRAME, migrations=Migrations(12, 1, 0.25))
    assert ending(lost)[1] == "12 migrations, 1 rolled back; 0.25 pod-seconds of capacity lost."
    assert as_json(lost)["lostPodSeconds"] == 0.25


@pytest.mark.parametrize(
    ("replay", "why"),
    [("failed", "replay of the same load failed"), ("going on", "has not ended yet")],
)
def test_a_replay_that_is_not_there_is_told_of(replay, why):
    alone = attrs.evolve(FRAME, theirs=None, replay=replay)
    assert why in ending(alone)[0]
    assert as_json(alone)["kubeScheduler"] == {"replay": replay}


def test_an_end_before_its_time_is_told_first():
    first, *_ = ending(attrs.evolve(FRAME, interrupted=True))
    assert first == "Interrupted after 42 of 60 s."
