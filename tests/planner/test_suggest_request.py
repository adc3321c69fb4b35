"""Which pods are left alone while moves are thought about."""

import attrs
import pytest

from kubedsm.config.settings import Configuration
from kubedsm.model.mirror import ClusterMirror
from kubedsm.objective.lasting import Quiet
from kubedsm.optimizer.moving.suggestion import Cause, ClusterScore, Suggestion
from kubedsm.planner.rebalancing_requests import SuggestRequest
from kubedsm.planner.requests import PlanningContext
from kubedsm.process.clock import SystemClock
from support.answering_cluster import POD


def known_to_planner(followed=(), policy=None):
    configuration = Configuration()
    made = policy or configuration.policy
    return PlanningContext(
        ClusterMirror(), followed, lambda: configuration, lambda: made, SystemClock()
    )


@attrs.frozen
class Hasty:
    """Policy without migrations, for want of time or not."""

    out_of_time: bool

    def place(self, *_):
        raise NotImplementedError

    def suggest(self, *_):
        nothing = ClusterScore(0, {}, 0)
        return Suggestion(nothing, nothing, out_of_time=self.out_of_time)


@pytest.mark.parametrize("out_of_time", [True, False])
def test_a_suggestion_that_ran_out_of_time_is_made_again_soon(out_of_time):
    question = SuggestRequest(frozenset(), frozenset(), Quiet(0.0, {}, None), 1.0)
    assert question.solve(known_to_planner(policy=Hasty(out_of_time))).rests == out_of_time


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
    known = known_to_planner(followed)
    assert question._temporary_reason(POD, known) == (None if cause is None else cause.of())
