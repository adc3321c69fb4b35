"""Which pods are left alone while moves are thought about."""

import pytest

from kubedsm.clock import SystemClock
from kubedsm.configuration.settings import Configuration
from kubedsm.core.goals.lasting import Quiet
from kubedsm.core.moving.suggestion import Cause
from kubedsm.core.world.mirror import ClusterMirror
from kubedsm.thinking.moves_to_make import MovesToMake
from kubedsm.thinking.questions import Known
from support.answering_cluster import POD


@pytest.mark.parametrize(
    ("moving", "resting", "followed", "cause"),
    [
        ((), (), (), None),
        ((POD.workload,), (), (), Cause.WORKLOAD_MOVING),
        ((), (), (POD.uid,), Cause.WORKLOAD_MOVING),
        ((), (POD.workload,), (), Cause.WORKLOAD_RESTING),
    ],
)
def test_what_is_moving_or_rests_is_left_alone(moving, resting, followed, cause):
    quiet = Quiet(0.0, {}, None)
    question = MovesToMake(frozenset(moving), frozenset(resting), quiet, 1.0)
    configuration = Configuration()
    known = Known(
        ClusterMirror(),
        followed,
        lambda: configuration,
        lambda: configuration.policy,
        SystemClock(),
    )
    assert question._rest(POD, known) == (None if cause is None else cause.of())
