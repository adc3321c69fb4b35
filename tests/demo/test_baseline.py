"""What stands beside the demo: kube-scheduler on the same load, in a process of its own."""

import multiprocessing

import pytest

from kubedsm_lab.demo.baseline import baseline, replay_baseline
from kubedsm_lab.demo.frame import SchedulerResult, until
from kubedsm_lab.demo.setting import QOS_TARGETS


def test_it_is_measured_as_the_demo_is_and_moves_nothing():
    timeline = replay_baseline(1, 2)
    assert (timeline.end, timeline.moves) == (10.0, ())
    assert set(timeline.services) == set(QOS_TARGETS)
    whole, early = (SchedulerResult.of(until(timeline, end), QOS_TARGETS) for end in (60, 5))
    assert 0 < whole.edge_share < 1
    assert 0 < whole.kept < 1
    assert early != whole


@pytest.fixture
def expected():
    return replay_baseline(1, 1)


@pytest.mark.http
async def test_its_process_answers_and_one_that_is_left_is_ended(expected):
    async with baseline(1, 1) as beside:
        assert await beside == expected
    async with baseline(1, 60) as beside:
        assert len(multiprocessing.active_children()) == 1
    assert beside.result() is None
    assert multiprocessing.active_children() == []
