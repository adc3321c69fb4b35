"""Which pods are left alone while moves are thought about."""

import pytest

from kubedsm.config.settings import Configuration
from kubedsm.model.mirror import ClusterMirror
from kubedsm.objective.lasting import Quiet
from kubedsm.optimizer.moving.suggestion import Cause
from kubedsm.planner.rebalancing_requests import SuggestRequest
from kubedsm.planner.requests import PlanningContext
from kubedsm.process.clock import SystemClock
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
    question = SuggestRequest(frozenset(moving), frozenset(resting), quiet, 1.0)
    configuration = Configuration()
    known = PlanningContext(
        ClusterMirror(),
        followed,
        lambda: configuration,
        lambda: configuration.policy,
        SystemClock(),
    )
    assert question._temporary_reason(POD, known) == (None if cause is None else cause.of())
