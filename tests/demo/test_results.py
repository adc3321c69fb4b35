"""Results of the demo: shares and promises over its time, and the sentences at its end."""

import attrs
import pytest

from kubedsm.config.settings import Configuration
from kubedsm.model.model import Tier
from kubedsm_lab.demo.frame import Migrations, Standing, until
from kubedsm_lab.demo.results import as_json, ending
from kubedsm_lab.demo.setting import CONFIGURATION, CYCLE
from kubedsm_lab.replay.timeline import Life, Timeline
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


def test_capacity_that_was_lost_and_an_early_end_are_told():
    lost = attrs.evolve(FRAME, migrations=Migrations(12, 1, 0.25))
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


PROMISES = {"a": 0.5, "b": 1.0}
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
    standing = Standing.of(TIMELINE, PROMISES)
    assert standing.shares == pytest.approx({"a": 0.5, "b": 0.4})
    assert standing.edge_share == pytest.approx(0.45)
    assert standing.kept == pytest.approx((10 + 4) / 20)
    standing = Standing.of(until(TIMELINE, 4.0), PROMISES)
    assert (standing.edge_share, standing.kept) == (0.75, 1.0)
    assert Standing.of(until(TIMELINE, 0.0), PROMISES).edge_share is None


#: seconds of a cycle of the load in the paper
PAPERS_CYCLE = 90.0


def test_a_move_costs_as_much_of_a_cycle_as_it_does_in_the_paper():
    price = Configuration().migration.price * CYCLE / PAPERS_CYCLE
    assert CONFIGURATION.migration.price == pytest.approx(price, rel=0.1)
