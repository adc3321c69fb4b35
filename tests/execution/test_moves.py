"""The moves under way: what is told of them, and how often."""

import pytest

from kubedsm.config.current import CurrentConfiguration
from kubedsm.execution.limits import MoveLimits
from kubedsm.execution.migrations import Moves
from kubedsm.model.events import PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import (
    NodeName,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Uid,
    Workload,
)
from kubedsm.process.clock import VirtualClock
from plans.advance import advance
from plans.events import Begun, CallRefused
from plans.migration import MoveMode, MoveOrder, migration_plan
from plans.steps import StepState
from support.move_scenes import group_of

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


def running(name):
    return Pod(
        Uid(name),
        "shop",
        name,
        Workload("shop", "Deployment", name),
        PodClass(Resources(cpu=1), SchedulingRules()),
        "kubedsm",
        node_name=NodeName("c1"),
    )


async def test_the_end_of_a_move_whose_steps_end_together_is_told_once():
    mirror, ended = ClusterMirror(), []
    for name in ("web", "api"):
        mirror.apply(PodApplied(running(name)))
    orders = [MoveOrder(f"p/{name}", name, "e1", MoveMode.SURGE, 10.0) for name in ("web", "api")]
    limits = MoveLimits(CurrentConfiguration())
    moves = Moves(mirror, limits, VirtualClock(), lambda _: None, lambda _: None, ended.append)
    moves.add("p", group_of(orders, mirror))
    plan, _ = advance(migration_plan("p", orders), Begun(), 0.0)
    plan, effects = advance(plan, CallRefused(0, "its owner is rolling out"), 0.0)
    assert {step.state for step in effects} == {StepState.FAILED, StepState.CANCELLED}
    for step in effects:
        moves.end_step(plan, step)
    assert [outcome.id for outcome in ended] == ["p/web"]
